"""Workers of Leasehold over HTTP: with a worker token and a URL, and nothing else."""

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.api.conftest import ACME, GLOBEX, Client, make_app
from tests.api.test_server import served
from tests.conftest import eventually
from tests.worker import sample_handlers
from tests.worker.shop import Process, Processes

from leasehold import Job, Leasehold
from leasehold.api.limits import ApiLimits, RequestRates
from leasehold.cli.api_server import address_of, bind, serving
from leasehold.config import api_token
from leasehold.engines import engine_for
from leasehold.engines.http.client import HttpClient
from leasehold.engines.http.store import HttpStore
from leasehold.engines.http.urls import read_url
from leasehold.errors import (
    InvalidInput,
    NotAuthenticated,
    NotPermitted,
    RegistrationLost,
    TooManyRequests,
    Unreachable,
)
from leasehold.model.access import Permission, Role
from leasehold.model.definition import Definition
from leasehold.model.job import JobId, NewJob
from leasehold.model.outcome import SUCCEEDED
from leasehold.model.status import AttemptStatus, Status
from leasehold.operations.remote_work import RemoteWork
from leasehold.store import Store, Subscription, WorkerFacts
from leasehold.worker import Worker, WorkerSettings

REPORTS = Subscription(("report",))
FACTS = WorkerFacts("host-9", 1)
LEASE = timedelta(seconds=60)
Open = Callable[..., Awaitable[Store]]


class CountedApi:
    """Counts the requests of each path."""

    def __init__(self, api: Any) -> None:
        self._api = api
        self.paths: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            self.paths.append(scope["path"])
        await self._api(scope, receive, send)


@pytest.fixture
def counted(client: Client) -> CountedApi:
    return CountedApi(client.api)


@pytest.fixture
async def address(counted: CountedApi) -> AsyncIterator[str]:
    """The API on a socket of this machine."""
    bound = bind("127.0.0.1", 0)
    url = address_of(bound)
    async with serving(counted, bound):
        yield url


@pytest.fixture
async def open_store(client: Client, address: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Open]:
    """Opens a store over HTTP, with a worker token of these rights."""
    opened: list[Store] = []

    async def open_with(**rights: Any) -> Store:
        token = await client.token(Role.WORKER, **{"tenant": None, **rights})
        monkeypatch.setenv("LEASEHOLD_TOKEN", token)
        opened.append(await engine_for(address).open())
        return opened[-1]

    yield open_with
    for store in opened:
        await store.close()


# Tokens


async def test_a_token_of_one_definition_serves_no_other(client: Client, open_store: Open) -> None:
    store = await open_store(definitions=("email",))
    with pytest.raises(NotPermitted):
        await store.join(REPORTS, FACTS, LEASE)
    assert not await client.app.store.workers()


async def test_a_token_of_one_tenant_serves_only_that_tenant(client: Client, open_store: Open) -> None:
    store = await open_store(tenant=GLOBEX)
    await client.enqueue()
    registration = await store.join(REPORTS, FACTS, LEASE)
    assert registration.serves.tenants == (GLOBEX,)
    assert not (await store.claim(registration, 10)).claims
    with pytest.raises(NotPermitted):
        await store.join(Subscription(("report",), (ACME,)), FACTS, LEASE)


async def test_a_token_syncs_only_definitions_it_names(client: Client, open_store: Open) -> None:
    store = await open_store(definitions=("report",))
    changes = await store.sync_definitions([Definition("report", priority=7), Definition("stranger")])
    assert [(each.key, each.version) for each in changes] == [("report", 2), ("stranger", 0)]
    known = {each.definition.key: each.definition.priority for each in await client.app.store.definitions()}
    assert known == {"report": 7}


async def test_a_token_of_one_tenant_changes_no_definition(client: Client, open_store: Open) -> None:
    await (await open_store(tenant=ACME)).sync_definitions([Definition("report", priority=7)])
    (report,) = await client.app.store.definitions()
    assert report.definition.priority == 100


async def test_another_token_can_not_use_a_registration(client: Client, open_store: Open) -> None:
    owner, thief = await open_store(), await open_store(definitions=("report",))
    job = JobId(await client.enqueue())
    registration = await owner.join(REPORTS, FACTS, LEASE)
    (claim,) = (await owner.claim(registration, 1)).claims
    assert await thief.finish([(claim, SUCCEEDED)]) == {claim}
    assert not (await thief.renew(registration, [claim], LEASE)).alive
    with pytest.raises(RegistrationLost):
        await thief.held(registration)
    record = await client.app.store.tenant(ACME).get(job)
    assert record is not None
    assert record.status is Status.RUNNING


async def test_a_claim_is_not_taken_from_the_requests_word(client: Client, open_store: Open) -> None:
    """The worker says that more tries are left than the store knows of."""
    store = await open_store()
    await client.enqueue(max_attempts=1)
    registration = await store.join(REPORTS, FACTS, LEASE)
    (claim,) = (await store.claim(registration, 1)).claims
    again = replace(SUCCEEDED, status=Status.QUEUED, attempt=AttemptStatus.FAILED)
    with pytest.raises(InvalidInput, match="leads to dead_letter, failed"):
        await store.finish([(replace(claim, max_attempts=9), again)])


async def test_an_unknown_token_has_an_error_of_its_own(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEASEHOLD_TOKEN", "lh_not-a-token")
    with pytest.raises(NotAuthenticated):
        await engine_for(address).open()


async def test_a_refused_token_is_read_again_from_its_file(
    client: Client, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was rotated while the worker ran."""
    file = tmp_path / "token"
    file.write_text("lh_before")
    monkeypatch.setenv("LEASEHOLD_TOKEN_FILE", str(file))
    http = HttpClient(read_url(address), api_token)
    with pytest.raises(NotAuthenticated):
        await http.send("GET", "/worker")
    file.write_text(await client.token(Role.WORKER, None))
    assert (await http.send("GET", "/worker"))["protocol"] == 1
    await http.close()


async def test_a_registration_is_known_after_a_restart(client: Client, open_store: Open) -> None:
    """Another process of the server reads it from the database."""
    store = await open_store()
    await client.enqueue()
    registration = await store.join(REPORTS, FACTS, LEASE)
    (claim,) = (await store.claim(registration, 1)).claims
    backend = client.api.state.guard.backend
    await backend.call(lambda catalog: RemoteWork.close_of(catalog.store))
    assert await store.finish([(claim, SUCCEEDED)]) == frozenset()


async def test_a_handler_enqueues_if_its_token_may(client: Client, open_store: Open) -> None:
    may = frozenset({Permission.WORK, Permission.JOBS_ENQUEUE})
    jobs = (await open_store(permissions=may)).tenant(ACME)
    (made,) = await jobs.enqueue([NewJob(definition="report", payload={"name": "june"})])
    record = await client.app.store.tenant(ACME).get(made.id)
    assert record is not None
    assert record.created_by == "worker of None"
    with pytest.raises(NotPermitted):
        await (await open_store()).tenant(ACME).enqueue([NewJob(definition="report", payload={"name": "june"})])


async def test_a_worker_over_http_administers_nothing(open_store: Open) -> None:
    store = await open_store()
    with pytest.raises(InvalidInput, match="needs the database"):
        await store.tokens.list(10)
    with pytest.raises(InvalidInput, match="needs the database"):
        await store.tenant(ACME).counts(10)


# URLs


@pytest.mark.parametrize("url", ["https://lh_x@host", "https://host/?token=lh_x", "https://host/#lh_x"])
def test_a_token_in_a_url_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="A token in a URL"):
        engine_for(url)


def test_plain_http_to_another_machine_has_to_be_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match="without TLS"):
        engine_for("http://jobs.example.com")
    monkeypatch.setenv("LEASEHOLD_PLAIN_HTTP", "on")
    assert engine_for("http://jobs.example.com/api/v1/").address == "http://jobs.example.com"


async def test_a_server_that_is_away_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEASEHOLD_TOKEN", "lh_any")
    with bind("127.0.0.1", 0) as bound:
        url = address_of(bound)
    with pytest.raises(Unreachable):
        await engine_for(url).open()


# Workers


@asynccontextmanager
async def working(client: Client, address: str, app: Leasehold) -> AsyncIterator[Worker]:
    worker = Worker(engine_for(address).open, app.handlers, WorkerSettings(slots=2))
    running = asyncio.create_task(worker.run())
    try:
        await worker.joined.wait()
        yield worker
    finally:
        worker.stop()
        await running


@pytest.mark.both_engines
async def test_a_cancel_reaches_the_handler(client: Client, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEASEHOLD_TOKEN", await client.token(Role.WORKER, None))
    app, began, canceled = Leasehold(), asyncio.Event(), asyncio.Event()

    @app.job
    async def report(job: Job, name: str) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            canceled.set()
            raise

    async with working(client, address, app):
        job = await client.enqueue()
        await began.wait()
        await client.send("POST", f"/jobs/{job}/cancel")
        await canceled.wait()


@pytest.mark.both_engines
async def test_a_probe_is_sent_if_all_servers_would_hear_it(
    client: Client, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the engine sends no wakes, it reaches the process that got it, and another one may be the listener."""
    monkeypatch.setenv("LEASEHOLD_TOKEN", await client.token(Role.WORKER, None))
    renew, probes = HttpStore.renew, list[bool]()

    async def noted(*arguments: Any, **options: Any) -> Any:
        probes.append(options["probe"])
        return await renew(*arguments, **options)

    monkeypatch.setattr(HttpStore, "renew", noted)
    async with working(client, address, make_app("postgresql://unused")):

        async def beaten() -> bool:
            return bool(probes)

        await eventually(beaten)
    assert probes[0] is client.app.store.abilities.wakes


async def test_an_idle_worker_is_woken_and_does_not_poll(
    client: Client, address: str, counted: CountedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two wakes it sends no claim: one request waits for the wake."""
    monkeypatch.setenv("LEASEHOLD_TOKEN", await client.token(Role.WORKER, None))
    app, ran = Leasehold(), asyncio.Semaphore(0)

    @app.job
    async def report(job: Job, name: str) -> None:
        ran.release()

    async with working(client, address, app) as worker:

        async def asleep() -> bool:
            return worker.state().at_rest and "/api/v1/worker/wakes" in counted.paths

        for _ in range(3):
            await eventually(asleep, what="a worker at rest")
            before = counted.paths.count("/api/v1/worker/claim")
            await client.enqueue()
            await ran.acquire()
            assert counted.paths.count("/api/v1/worker/claim") - before <= 4
        assert counted.paths.count("/api/v1/worker/wakes") < 15


# Wakes


async def poll(client: Client, worker: str, before: dict[str, Any], wait: float = 30) -> dict[str, Any]:
    heard: dict[str, Any] = {name: before[name] for name in ("feed", "heard") if name in before}
    sent = {"worker_id": worker, "wait_seconds": wait, **heard}
    answer = await client.send("POST", "/worker/wakes", sent, role=Role.WORKER, tenant=None)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def joined(client: Client) -> str:
    sent = {"definitions": ["report"], "host": "host-9"}
    answer = await client.send("POST", "/worker/join", sent, role=Role.WORKER, tenant=None)
    return str(answer.json()["worker_id"])


async def fall_asleep(client: Client, worker: str) -> None:
    async def asleep() -> bool:
        sent = {"worker_id": worker, "prepare_to_sleep": True}
        answer = await client.send("POST", "/worker/claim", sent, role=Role.WORKER, tenant=None)
        return answer.json()["more"] is False

    await eventually(asleep)


async def test_a_wake_between_two_polls_is_not_lost(client: Client) -> None:
    worker = await joined(client)
    first = await poll(client, worker, {})
    assert first["wakes"] == [{"kind": "work"}]
    await poll(client, worker, first, wait=0)
    await fall_asleep(client, worker)
    await client.enqueue()
    assert {"kind": "work"} in (await poll(client, worker, first))["wakes"]


async def test_a_wake_is_told_again_until_it_was_heard(client: Client) -> None:
    """The answer to the second poll was lost on its way."""
    worker = await joined(client)
    first = await poll(client, worker, {})
    await fall_asleep(client, worker)
    await client.enqueue()
    second = await poll(client, worker, first)
    assert (await poll(client, worker, first, wait=0))["wakes"] == second["wakes"]
    assert (await poll(client, worker, second, wait=0))["wakes"] == []


async def test_an_unknown_feed_begins_with_work(client: Client) -> None:
    """A server that was restarted can't know what its worker has missed."""
    worker = await joined(client)
    answer = await poll(client, worker, {"feed": "of-another-process", "heard": 7})
    assert answer["wakes"] == [{"kind": "work"}]


def test_requests_of_workers_are_counted_apart() -> None:
    rates = RequestRates(ApiLimits(token_rate=1, token_burst=1))
    rates.count("a", None)
    with pytest.raises(TooManyRequests):
        rates.count("a", None)
    for _ in range(100):
        rates.count("a", None, works=True)


# Processes

EXAMPLE = Path(__file__).parents[2] / "examples/http_worker/worker.sh"


@pytest.mark.both_engines
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
async def test_the_worker_in_sh_and_curl_runs_jobs(client: Client, address: str, tmp_path: Path) -> None:
    await client.app.store.sync_definitions([Definition("greet")])
    jobs = client.app.tenant(ACME)
    good = await jobs.aenqueue_key("greet", {"name": "Ada"})
    bad = await jobs.aenqueue_key("greet", {})
    token = await client.token(Role.WORKER, ACME, definitions=("greet",))
    environment = os.environ | {"LEASEHOLD_SERVER": address, "LEASEHOLD_TOKEN": token, "MAX_JOBS": "2"}
    worker = Process(["sh", str(EXAMPLE), "greet"], environment, tmp_path / "worker.log")
    assert await worker.code() == 0, worker.said
    store = client.app.store.tenant(ACME)
    greeted, failed = await store.get(good.id), await store.get(bad.id)
    assert greeted is not None
    assert failed is not None
    assert (greeted.status, greeted.result) == (Status.SUCCEEDED, "Hello, Ada")
    assert (failed.status, failed.last_error_code) == (Status.FAILED, "greet_failed")


@pytest.fixture
async def processes(database_url: str, tmp_path: Path) -> AsyncIterator[Processes]:
    started = Processes(database_url, tmp_path)
    yield started
    await started.clear_up()


@pytest.mark.both_engines
async def test_another_process_takes_over_after_kill_9(
    client: Client, database_url: str, processes: Processes, tmp_path: Path
) -> None:
    """Both have a URL of the server and a token, and no database."""
    file = tmp_path / "token"
    file.write_text(f"{await client.token(Role.WORKER, None)}\n")
    await client.app.store.sync_definitions(sample_handlers.handlers.definitions)
    job = await client.app.tenant(ACME).aenqueue_key("wait", processes.payload)
    with served(tmp_path, database_url) as api:
        url = api.removesuffix("/api/v1")
        options = ("--url", url, "--lease", "10s", "--token-file", str(file))
        workers = [processes.worker(*options, LEASEHOLD_URL="") for _ in range(2)]
        for worker in workers:
            await worker.says(f"by {url}")
        holder = (await processes.noted("began"))[-1].pid
        next(worker for worker in workers if worker.pid == holder).send(signal.SIGKILL)

        async def taken_over() -> bool:
            return {note.job for note in processes.notes("began") if note.pid != holder} == {job.id}

        await eventually(taken_over)
        processes.go()

        async def succeeded() -> bool:
            record = await client.app.store.tenant(ACME).get(job.id)
            return record is not None and record.status is Status.SUCCEEDED

        await eventually(succeeded)
