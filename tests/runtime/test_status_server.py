"""The server of metrics and probes: it answers in threads of its own, while a loop is blocked as well."""

import asyncio
import select
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import ThreadingHTTPServer
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import orjson
import pytest

from leasehold.app import process_status
from leasehold.app.process_status import ServiceStatus
from leasehold.errors import InvalidInput
from leasehold.runtime import status_server
from leasehold.runtime.status_server import StatusServer, bind_status
from leasehold.telemetry.metrics import Metrics, ProcessState


class FakeStatus:
    problems: Sequence[str] = ()

    def metrics(self, accept: str) -> tuple[str, bytes]:
        if self.problems:
            raise RuntimeError("a secret")
        return "text/plain", f"# {accept}\n".encode()

    def health(self) -> Sequence[str]:
        return self.problems

    def readiness(self) -> Sequence[str]:
        return self.problems


@contextmanager
def serving(status: FakeStatus | ServiceStatus) -> Iterator[str]:
    server = StatusServer(bind_status("127.0.0.1", 0), status)
    server.start()
    try:
        yield server.url
    finally:
        server.close()


def get(url: str, method: str = "GET", accept: str = "") -> tuple[int, bytes]:
    try:
        with urlopen(Request(url, method=method, headers={"Accept": accept}), timeout=30) as answer:
            return answer.status, answer.read()
    except HTTPError as error:
        return error.code, error.read()


def test_each_path_has_its_answer() -> None:
    with serving(FakeStatus()) as url:
        assert get(f"{url}/metrics", accept="text/plain") == (200, b"# text/plain\n")
        assert get(f"{url}/health") == (200, b'{"ok":true}')
        assert get(f"{url}/ready?verbose") == (200, b'{"ok":true}')
        assert get(f"{url}/ready", "HEAD") == (200, b"")
        assert get(f"{url}/elsewhere")[0] == 404
        assert get(f"{url}/metrics", "POST")[0] == 501


def test_problems_are_told_with_503() -> None:
    status = FakeStatus()
    status.problems = ["the database has been away for 9 s"]
    with serving(status) as url:
        assert get(f"{url}/ready") == (503, orjson.dumps({"ok": False, "problems": list(status.problems)}))
        assert get(f"{url}/health")[0] == 503


def test_an_error_of_a_metric_shows_no_secret() -> None:
    status = FakeStatus()
    status.problems = ["away"]
    with serving(status) as url:
        code, body = get(f"{url}/metrics")
    assert code == 500
    assert b"secret" not in body


def test_a_silent_client_holds_up_no_other() -> None:
    with serving(FakeStatus()) as url:
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))):
            assert get(f"{url}/health")[0] == 200


def test_a_client_that_sends_a_byte_now_and_then_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_server, "PATIENCE", 0.5)
    with serving(FakeStatus()) as url:
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as client, suppress(ConnectionError):
            client.sendall(b"GET /health HTTP/1.0\r\nSlow: ")
            for _ in range(3000):
                client.sendall(b"x")
                if select.select([client], [], [], 0.01)[0]:
                    assert client.recv(1) == b""
                    return
            pytest.fail("the client was not dropped")


def test_a_request_without_a_thread_leaves_its_room(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    with serving(FakeStatus()) as url:
        with monkeypatch.context() as full:
            full.setattr(ThreadingHTTPServer, "process_request", refuse)
            for _ in range(status_server.MOST_REQUESTS):
                with suppress(OSError):
                    get(f"{url}/health")
        assert get(f"{url}/health")[0] == 200


def test_a_port_in_use_is_refused_with_the_reason() -> None:
    with (
        bind_status("127.0.0.1", 0) as taken,
        pytest.raises(InvalidInput, match=r"can't listen on .* in use.*") as found,
    ):
        bind_status("127.0.0.1", taken.getsockname()[1])
    assert "--metrics-port" in str(found.value)


class FakeService:
    current_store = None
    problems: tuple[str, ...] = ()

    def process_state(self) -> ProcessState:
        return ProcessState(self.problems, slots=3)


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop that runs in a thread."""
    running = asyncio.new_event_loop()
    thread = threading.Thread(target=running.run_forever)
    thread.start()
    yield running
    running.call_soon_threadsafe(running.stop)
    thread.join()
    running.close()


def attach(status: ServiceStatus, service: FakeService, loop: asyncio.AbstractEventLoop) -> None:
    async def attach_here() -> None:
        status.attach(service)

    asyncio.run_coroutine_threadsafe(attach_here(), loop).result(30)


def test_a_service_is_ready_once_it_runs_without_problems(loop: asyncio.AbstractEventLoop) -> None:
    status, service = ServiceStatus(Metrics()), FakeService()
    with serving(status) as url:
        assert get(f"{url}/ready") == (503, b'{"ok":false,"problems":["it has not started yet"]}')
        attach(status, service, loop)
        assert get(f"{url}/ready")[0] == 200
        assert b"leasehold_worker_slots 3.0" in get(f"{url}/metrics")[1]
        service.problems = ("the worker is stopping",)
        assert get(f"{url}/ready") == (503, b'{"ok":false,"problems":["the worker is stopping"]}')
        assert get(f"{url}/health")[0] == 200
        assert b"leasehold_ready 0.0" in get(f"{url}/metrics")[1]


def test_a_blocked_loop_is_not_ready_and_then_unhealthy(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, go = ServiceStatus(Metrics()), threading.Event()
    attach(status, FakeService(), loop)
    with serving(status) as url:
        assert get(f"{url}/health")[0] == 200
        loop.call_soon_threadsafe(go.wait)
        with monkeypatch.context() as soon:  # only while it is blocked: a busy machine delays a loop that is not
            soon.setattr(process_status, "LOOP_LATE", 0.05)
            soon.setattr(process_status, "LOOP_DEAD", 0.2)
            soon.setattr(process_status, "LOOP_PATIENCE", 0.3)
            code, body = get(f"{url}/ready")
            assert code == 503
            assert b"the event loop has not answered" in body
            assert get(f"{url}/health")[0] == 503
            assert get(f"{url}/metrics")[0] == 200
        go.set()
        assert get(f"{url}/ready")[0] == 200
        assert get(f"{url}/health")[0] == 200
    with suppress(RuntimeError):
        go.set()
