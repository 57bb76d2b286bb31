"""All that may hold a job back, as histories that a store makes come true: for the property of explanations."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import product
from typing import Any, Self

import asyncpg
from hypothesis import strategies as st
from tests.store.bench import LEASE, Bench
from tests.tenant_kit import HOUR, OTHER

from leasehold.errors import RegistrationLost
from leasehold.model.job import JobId
from leasehold.model.limits import Limits, Pause, Scope, ScopeKind
from leasehold.model.outcome import Succeeded
from leasehold.store import Abilities, Registration

LONG = timedelta(days=3650)
ROUNDS = 6


@dataclass(frozen=True)
class History:
    """All that may hold a job. By default nothing does."""

    job: str = "ready"
    ahead: int = 0
    active: bool = True
    pauses: tuple[str, str] = ("none", "none")
    limits: tuple[int | None, int | None] = (None, None)
    running: int = 0
    running_elsewhere: int = 0
    worker: str = "serves"
    lock: str = "none"


JOBS = ("due", "later", "running", "ended", "tried")
PAUSES = ("none", "for ever", "for a year", "over")
WORKERS = ("serves all", "elsewhere", "other", "lost", "none")
LOCKS = ("one", "several", "over")

PAUSE, LIMIT = st.sampled_from(PAUSES), st.sampled_from([None, 1, 2, 3])
HINDRANCES: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "job": st.fixed_dictionaries({"job": st.sampled_from(JOBS)}),
    "ahead": st.fixed_dictionaries({"ahead": st.integers(1, 2)}),
    "active": st.just({"active": False}),
    "pauses": st.fixed_dictionaries({"pauses": st.tuples(PAUSE, PAUSE)}),
    "limits": st.fixed_dictionaries(
        {
            "limits": st.tuples(LIMIT, LIMIT),
            "running": st.integers(0, 2),
            "running_elsewhere": st.integers(0, 1),
        }
    ),
    "worker": st.fixed_dictionaries({"worker": st.sampled_from(WORKERS)}),
    "lock": st.fixed_dictionaries({"lock": st.sampled_from(LOCKS)}),
}


def possible(abilities: Abilities) -> list[str]:
    """Returns the hindrances that an engine knows: only a caller's transaction holds the row of a job."""
    return [name for name in sorted(HINDRANCES) if name != "lock" or abilities.caller_transaction]


@st.composite
def histories(draw: st.DrawFn, abilities: Abilities) -> History:
    """Draws a few hindrances: with all of them at once, one that is forgotten would hide behind the others."""
    chosen = draw(st.lists(st.sampled_from(possible(abilities)), max_size=3, unique=True))
    return History(**{name: value for each in chosen for name, value in draw(HINDRANCES[each]).items()})


def each_alone(abilities: Abilities) -> Iterator[History]:
    """Yields each hindrance by itself, so that also an engine that gets few histories meets it."""
    yield History()
    yield from (History(job=job) for job in JOBS)
    yield from (History(ahead=ahead) for ahead in (1, 2))
    yield History(active=False)
    yield from (History(pauses=pauses) for pauses in product(PAUSES, PAUSES) if pauses.count("none") == 1)
    yield from (History(limits=(most, None), running=1) for most in (1, 2))
    yield from (History(limits=(None, most), running_elsewhere=1) for most in (1, 2))
    yield History(limits=(1, None), running_elsewhere=1, ahead=2)
    yield from (History(worker=worker) for worker in WORKERS)
    if "lock" in possible(abilities):
        yield from (History(lock=lock) for lock in LOCKS)


class RowLocks:
    """Transactions of others that hold the row of a job. Only for engines that have callers' transactions."""

    def __init__(self, *connections: "asyncpg.Connection[asyncpg.Record]") -> None:
        self._connections = connections

    @classmethod
    async def open(cls, url: str, abilities: Abilities) -> Self:
        return cls(*[await asyncpg.connect(url) for _ in range(2)] if abilities.caller_transaction else ())

    async def hold(self, lock: str, job: JobId) -> None:
        if lock == "none":
            return
        how = "for share" if lock == "several" else "for update"
        for connection in self._connections[: 2 if lock == "several" else 1]:
            await connection.execute("begin")
            await connection.execute(f"select from leasehold.jobs where id = '{job}' {how}")
        if lock == "over":
            await self.release()

    async def release(self) -> None:
        for connection in self._connections:
            await connection.execute("rollback")

    async def close(self) -> None:
        for connection in self._connections:
            await connection.close()


class Stage:
    """Makes a history come true, and asks whether a worker gets the job."""

    def __init__(self, bench: Bench, theirs: Bench, kind: str, locks: RowLocks) -> None:
        self.bench, self.theirs, self.kind, self.locks = bench, theirs, kind, locks
        self.store = bench.store

    async def set_up(self, history: History) -> tuple[JobId, Registration | None]:
        await self._run(self.bench, history.running)
        await self._run(self.theirs, history.running_elsewhere)
        job = await self._make_job(history)
        worker = await self._join(history.worker)
        await self.bench.move_clock(2 * HOUR)
        scopes = (Scope(ScopeKind.TENANT, self.bench.tenant), Scope(ScopeKind.DEFINITION, self.kind))
        now = await self.store.now()
        for scope, pause, limit in zip(scopes, history.pauses, history.limits, strict=True):
            if pause != "none":
                until = {"for ever": None, "for a year": now + 365 * 24 * HOUR, "over": now - HOUR}[pause]
                await self.store.pause(scope, Pause(pause, until))
            if limit is not None:
                await self.store.limit(scope, Limits(max_running=limit))
        if not history.active:
            await self.store.activate(self.kind, False)
        await self.locks.hold(history.lock, job)
        return job, worker

    async def _run(self, bench: Bench, jobs: int) -> None:
        if not jobs:
            return
        holder = await bench.join(self.kind, lease=LONG)
        for _ in range(jobs):
            await bench.running(self.kind, registration=holder)
        await self.store.leave(holder)  # its jobs still run

    async def _make_job(self, history: History) -> JobId:
        if history.job in ("running", "ended", "tried"):
            holder = await self.bench.join(self.kind, lease=LONG)
            claim = await self.bench.running(self.kind, registration=holder)
            if history.job == "ended":
                await self.bench.succeed(claim)
            elif history.job == "tried":
                await self.bench.fail(claim)  # and it is due again after a backoff of seconds
            await self.store.leave(holder)
            return claim.job
        await self.bench.enqueue_many(history.ahead, self.kind)
        delay = {"due": HOUR, "later": LONG}.get(history.job, timedelta())
        return await self.bench.enqueue(self.kind, delay=delay)

    async def _join(self, worker: str) -> Registration | None:
        match worker:
            case "none":
                return None
            case "elsewhere":
                return await self.bench.join(self.kind, tenants=(OTHER,), lease=LONG)
            case "other":
                return await self.bench.join("another", lease=LONG)
            case "lost":
                return await self.bench.join(self.kind, lease=LEASE)
        return await self.bench.join(self.kind, tenants=None if worker == "serves all" else (), lease=LONG)

    async def rounds_until_claimed(self, job: JobId, worker: Registration | None) -> int | None:
        """Claims as a worker with free slots does, and finishes all that comes before the job."""
        for number in range(ROUNDS if worker else 0):
            try:
                claims = await self.bench.claim(50, worker)
            except RegistrationLost:
                return None
            if job in {claim.job for claim in claims}:
                return number
            await self.bench.finish_all([(claim, Succeeded(None)) for claim in claims])
        return None

    async def clear_up(self, worker: Registration | None) -> None:
        await self.locks.release()
        if worker:
            await self.store.leave(worker)
