"""`leasehold serve --metrics-port`: metrics and probes of a server, on a port of their own."""

import asyncio
import re
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from tests.conftest import eventually
from tests.proxy import Proxy
from tests.telemetry.samples import read_samples, read_status
from tests.worker.shop import Process, Processes

MAIN = "from leasehold.cli import main; main()"


async def ready(server: Process, port: str) -> tuple[int, str]:
    """Asks whether a server is ready, on the port of its `api` or of its `metrics`."""
    await server.says(f"✓ {port}")
    (address,) = re.findall(rf"✓ {port}\s+(http://127\.0\.0\.1:\d+(?:/api/v1)?)", server.said)

    def read() -> tuple[int, str]:
        try:
            with urlopen(f"{address}/ready", timeout=30) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            return error.code, error.read().decode()

    return await asyncio.to_thread(read)


async def answers(server: Process, code: int) -> None:
    """Returns when both ports answer with this code."""

    async def both_do() -> bool:
        assert not server.ended, server.said
        return {(await ready(server, port))[0] for port in ("api", "metrics")} == {code}

    await eventually(both_do, what=f"{code} of both ports")


@pytest.fixture
async def server(proxy: Proxy, tmp_path: Path) -> AsyncIterator[Process]:
    """A server whose way to the database can be cut."""
    processes = Processes(proxy.url, tmp_path)
    server = processes.python("-c", MAIN, "serve", "--port", "0", "--metrics-port", "0")
    await answers(server, 200)
    yield server
    server.send(signal.SIGTERM)
    assert await server.code() in (0, -signal.SIGTERM), server.said
    await processes.clear_up()


async def test_a_server_has_metrics_and_probes_on_their_own_port(server: Process) -> None:
    samples = await read_samples(server)
    assert samples.total("leasehold_ready") == 1
    assert samples.total("leasehold_info") == 1
    assert "leasehold_fleet_workers 0.0" in await read_status(server, "/metrics")
    assert await read_status(server, "/health") == '{"ok":true}'
    assert await ready(server, "metrics") == (200, '{"ok":true}')


async def test_only_the_port_of_metrics_tells_the_reason_of_an_outage(server: Process, proxy: Proxy) -> None:
    proxy.refuse()
    await answers(server, 503)
    reason = "the database can't be reached"
    assert reason in (await ready(server, "metrics"))[1]
    assert reason not in (await ready(server, "api"))[1]
    assert (await read_samples(server)).total("leasehold_ready") == 0
    proxy.heal()
    await answers(server, 200)
    assert server.said.count("the server is not ready") == 1
