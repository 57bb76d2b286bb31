"""The status of worker processes, as a prober sees it: ports, addresses and labels, and why one is not ready."""

import asyncio
import os
import re
import signal
import socket
import sys
from contextlib import suppress
from random import sample

import orjson
import pytest
from tests.conftest import eventually
from tests.proxy import Proxy
from tests.telemetry.samples import Samples, ask_status, get, read_samples
from tests.worker import sample_handlers
from tests.worker.shop import Processes, Shop

HOSTS = ("127.0.0.1", "127.0.0.2", "127.0.0.3")
# The system takes no ports of outgoing connections from here.
PORTS = range(20_000, 30_000)


def two_free_ports() -> tuple[int, int]:
    """Returns a free port and the next one, which is free as well."""
    for port in sample(PORTS, 100):
        with suppress(OSError), socket.socket() as one, socket.socket() as other:
            one.bind(("127.0.0.1", port))
            other.bind(("127.0.0.1", port + 1))
            return port, port + 1
    pytest.fail("no two ports are free")


async def samples_at(port: int) -> Samples | None:
    """Returns the metrics of this port; None while no process serves them."""
    with suppress(OSError):
        _, text = await asyncio.to_thread(get, f"http://127.0.0.1:{port}/metrics")
        return Samples(text)
    return None


async def labels_at(port: int) -> set[str]:
    """Returns the `worker_id` of each claim that is counted on this port."""
    samples = await samples_at(port)
    return set() if samples is None else samples.values_of("worker_id", "job_claimed_total")


async def begun_at(port: int) -> float:
    """Returns when the process of this port was started; 0 if there is none."""
    samples = await samples_at(port)
    return 0.0 if samples is None else samples.total("process_start_time_seconds")


async def test_each_process_has_its_port_and_label_for_good(shop: Shop, processes: Processes) -> None:
    """Each child runs one job, in its only slot. The restarted one alone has room for the third."""
    await shop.store.sync_definitions(sample_handlers.handlers.definitions)
    ports = two_free_ports()
    parent = processes.worker("--processes", "2", "--slots", "1", "--metrics-port", str(ports[0]))
    await shop.enqueue_many(2, "wait", payload=processes.payload)
    await processes.noted("began", 2)
    host = socket.gethostname()
    labels = [{f"{host}:0"}, {f"{host}:1"}]
    assert [await labels_at(port) for port in ports] == labels
    before = [await begun_at(port) for port in ports]
    os.kill(parent.children()[0], signal.SIGKILL)
    await parent.says("begun again in")

    async def one_is_restarted() -> bool:
        now = [await begun_at(port) for port in ports]
        return 0.0 not in now and sum(new != old for new, old in zip(now, before, strict=True)) == 1

    await eventually(one_is_restarted, what="another process on the port of the killed one")
    await shop.ended(await shop.enqueue("note", payload=processes.payload))
    assert [await labels_at(port) for port in ports] == labels
    processes.go()


@pytest.mark.skipif(sys.platform != "linux", reason="only there all of 127.0.0.0/8 is this machine")
@pytest.mark.parametrize(
    ("option", "setting", "host"),
    [(None, None, HOSTS[0]), (HOSTS[1], None, HOSTS[1]), (None, HOSTS[2], HOSTS[2]), (HOSTS[1], HOSTS[2], HOSTS[1])],
    ids=["default", "option", "setting", "both"],
)
async def test_metrics_are_served_on_one_address_only(
    option: str | None, setting: str | None, host: str, processes: Processes, shop: Shop
) -> None:
    words = ("--metrics-port", "0", *(() if option is None else ("--metrics-host", option)))
    worker = processes.worker(*words, LEASEHOLD_METRICS_HOST=setting) if setting else processes.worker(*words)
    await worker.says("/metrics")
    ((named, port),) = re.findall(r"metrics\s+http://([\d.]+):(\d+)/metrics", worker.said)
    answering = []
    for each in HOSTS:
        with suppress(OSError):
            await asyncio.to_thread(get, f"http://{each}:{port}/health")
            answering.append(each)
    assert (named, answering) == (host, [host])


async def test_a_worker_process_answers_why_it_is_not_ready(proxy: Proxy, processes: Processes) -> None:
    proxy.refuse()
    worker = processes.worker("--metrics-port", "0", LEASEHOLD_URL=proxy.url)

    async def is_told() -> bool:
        code, text = await ask_status(worker, "/ready")
        problems = orjson.loads(text).get("problems", [""])
        return code == 503 and len(problems) == 1 and problems[0].startswith("the database has been away for ")

    async def is_ready() -> bool:
        return await ask_status(worker, "/ready") == (200, '{"ok":true}')

    await eventually(is_told, what="a probe that is told of the outage")
    assert (await read_samples(worker)).total("leasehold_ready") == 0
    assert (await ask_status(worker, "/health"))[0] == 200
    proxy.heal()
    await eventually(is_ready, what="a worker that is ready")
    assert (await read_samples(worker)).total("leasehold_ready") == 1
