"""A run: producers, three workers behind proxies, a nemesis; then heal, drain, and hear the witnesses."""

import asyncio
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from tests.faults.chaos import nemesis, witnesses
from tests.faults.chaos.checker import Findings, check
from tests.faults.chaos.history import Event, History
from tests.faults.chaos.nemesis import Fault, Nemesis, Victim, within
from tests.faults.chaos.processes import WorkerProcess, ended_afterwards
from tests.faults.chaos.program import FRAGILE, WORK, Setup
from tests.faults.chaos.servers import ChaosServer
from tests.proxy import Proxy
from tests.store.bench import new_id

from leasehold.engines import engine_for
from leasehold.errors import Unreachable
from leasehold.model.job import NewJob, TenantId
from leasehold.model.status import Status
from leasehold.store import Store

WORKERS = 3
PRODUCERS = 2
TENANTS = [TenantId(name) for name in ("acme", "birch", "cedar")]


@dataclass(frozen=True)
class Chaos:
    """The settings of a run. `payload` draws the payload of a job; the shares define the faults and their frequency,
    if they are not those of the server.
    """

    server: Callable[[], AbstractAsyncContextManager[ChaosServer]]
    seed: int
    jobs: int
    faults: int
    lease: float = 2.0
    slots: int = 12
    mutant: bool = False
    shares: dict[Fault, int] | None = None
    payload: Callable[[random.Random, float], dict[str, Any]] | None = None
    drain: timedelta = timedelta(seconds=120)


@dataclass(frozen=True)
class Report:
    chaos: Chaos
    findings: Findings
    struck: Counter[Fault]
    missed: Counter[Fault]
    ended_by_themselves: list[str]
    seconds: float
    seconds_to_drain: float

    def as_text(self) -> str:
        title = f"chaos, seed {self.chaos.seed}: {self.seconds:.0f} s, drained {self.seconds_to_drain:.1f} s after"
        lines = ["", title, "-" * len(title)]
        for fault in Fault:
            if self.struck[fault] or self.missed[fault]:
                missed = f"   ({self.missed[fault]} more were never reached)" if self.missed[fault] else ""
                lines.append(f"{fault.value:<44}{self.struck[fault]:>9,}{missed}")
        lines += [f"{'faults':<44}{self.struck.total():>9,}", "", self.findings.as_text()]
        lines.append(f"{'workers that ended by themselves':<34}{len(self.ended_by_themselves):>9,}")
        return "\n".join([*lines, *self.ended_by_themselves, ""])


def mixed(draw: random.Random, lease: float) -> dict[str, Any]:
    """Most are done at once, some take a while, a few longer than a lease; some speak, some fail once."""
    lot = draw.random()
    seconds = 0.0 if lot < 0.7 else draw.uniform(0.05, 0.5) if lot < 0.97 else draw.uniform(1.1, 1.6) * lease
    payload: dict[str, Any] = {"seconds": round(seconds, 3), "later_seconds": round(min(seconds, 0.5), 3)}
    if draw.random() < 0.1:
        payload["says"] = ["one", "two"]
    if draw.random() < 0.03:
        payload["fails"] = 1
    return payload


async def run(chaos: Chaos) -> Report:
    began = time.monotonic()
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="chaos-")))
        server = await stack.enter_async_context(chaos.server())
        store = await engine_for(server.url).open()
        stack.push_async_callback(store.close)
        await store.sync_definitions([WORK, FRAGILE])
        processes = stack.enter_context(ended_afterwards())
        victims = []
        for number in range(WORKERS):
            proxy = await stack.enter_async_context(Proxy(server.url).open())
            setup = Setup(
                proxy.url,
                str(folder / f"worker{number}"),
                f"worker{number}",
                chaos.lease,
                chaos.slots,
                fallback=2,
                mutant=chaos.mutant,
            )
            victims.append(Victim(partial(_started, setup, processes), proxy, chaos.lease, server.finish))
        planned = nemesis.plan(chaos.seed, chaos.faults, WORKERS, chaos.shares or server.shares)
        enemy = Nemesis(planned, victims, server.suffer, chaos.seed)
        histories = [folder / f"worker{number}" for number in range(WORKERS)]
        async with asyncio.TaskGroup() as group:
            for number in range(PRODUCERS):
                histories.append(folder / f"producer{number}")
                group.create_task(_produce(chaos, number, store, History(histories[-1], f"producer{number}"), enemy))
            group.create_task(enemy.rage())
        for victim in victims:
            victim.heal()
        healed = time.monotonic()
        await _drained(store, chaos.drain, victims)
        drained = time.monotonic()
        await asyncio.sleep(1.6 * chaos.lease)  # a worker that still believes that it holds a job may write now
        for victim in victims:
            await victim.process.drain()
        findings = check(await witnesses.testimony(store, TENANTS, histories, await server.written()))
        ended = [text for victim in victims for text in victim.died]
    now = time.monotonic()
    return Report(chaos, findings, enemy.struck, enemy.missed, ended, now - began, drained - healed)


def _started(setup: Setup, processes: list[WorkerProcess]) -> WorkerProcess:
    processes.append(WorkerProcess(setup))
    return processes[-1]


async def _produce(chaos: Chaos, number: int, store: Store, history: History, enemy: Nemesis) -> None:
    """Enqueues in step with the nemesis, so that every fault meets work. Repeats a call without an answer."""
    draw = random.Random(chaos.seed * 1000 + number)
    payload = chaos.payload or mixed
    left = chaos.jobs // PRODUCERS + (chaos.jobs % PRODUCERS if number == 0 else 0)
    mine = left
    while left:
        await within(120, partial(_may_go_on, enemy, 1 - left / mine))
        batch = [
            NewJob(
                definition="fragile" if draw.random() < 0.03 else "work",
                payload=payload(draw, chaos.lease),
                id=new_id(),
            )
            for _ in range(min(left, draw.choice((1, 1, 1, 5, 20))))
        ]
        for job in batch:
            history.add(Event.ENQUEUING, str(job.id))
        await _enqueued(store, draw.choice(TENANTS), batch)
        for job in batch:
            history.add(Event.ENQUEUED, str(job.id))
        left -= len(batch)
    history.close()


def _may_go_on(enemy: Nemesis, done: float) -> bool:
    return done <= enemy.progress + 0.02


async def _enqueued(store: Store, tenant: TenantId, batch: list[NewJob]) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                await store.tenant(tenant).enqueue(batch)
                return
            except Unreachable:
                await asyncio.sleep(0.05)


async def _drained(store: Store, within: timedelta, victims: list[Victim]) -> None:
    """Waits until nothing is left, or until the time is up: then the checker calls it stuck."""
    deadline = time.monotonic() + within.total_seconds()
    while time.monotonic() < deadline and await _is_work_left(store):
        for victim in victims:
            victim.revive_if_dead()
        await asyncio.sleep(0.1)


async def _is_work_left(store: Store) -> bool:
    counted = [await store.tenant(tenant).counts(1) for tenant in TENANTS]
    return any(counts.get(status) for counts in counted for status in (Status.QUEUED, Status.RUNNING))
