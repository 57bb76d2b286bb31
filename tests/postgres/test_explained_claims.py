"""The blocking reasons of a job are none if, and only if, a live worker that serves it gets it.

Each history is a new tenant and a new definition in the same database. Jobs that are ahead of the job in a limited
scope come first: the worker claims and finishes them, and only then must the job have come.
"""

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from typing import Any

import asyncpg
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.conftest import Clock, Raw
from tests.postgres_parts import engine_on, open_parts
from tests.store.bench import LEASE, Bench
from tests.tenant_kit import HOUR, OTHER

from leasehold.errors import RegistrationLost
from leasehold.model.definition import Definition
from leasehold.model.explain import explain
from leasehold.model.job import JobId, tenant_id
from leasehold.model.limits import Limits, Pause, Scope, ScopeKind
from leasehold.model.outcome import Succeeded
from leasehold.store import Registration

LONG = timedelta(days=3650)
ROUNDS = 6
_numbers = count()


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


PAUSE = st.sampled_from(["none", "for ever", "for a year", "over"])
LIMIT = st.sampled_from([None, 1, 2, 3])
HINDRANCES: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "job": st.fixed_dictionaries({"job": st.sampled_from(["due", "later", "running", "ended", "tried"])}),
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
    "worker": st.fixed_dictionaries(
        {"worker": st.sampled_from(["serves all", "elsewhere", "other", "lost", "none"])}
    ),
    "lock": st.fixed_dictionaries({"lock": st.sampled_from(["one", "several", "over"])}),
}


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Draws a few hindrances: with all of them at once, one that is forgotten would hide behind the others."""
    chosen = draw(st.lists(st.sampled_from(sorted(HINDRANCES)), max_size=3, unique=True))
    return History(**{name: value for each in chosen for name, value in draw(HINDRANCES[each]).items()})


class Stage:
    """Makes a history come true, and asks whether a worker gets the job."""

    def __init__(
        self, bench: Bench, theirs: Bench, kind: str, locks: list["asyncpg.Connection[asyncpg.Record]"]
    ) -> None:
        self.bench, self.theirs, self.kind, self.locks = bench, theirs, kind, locks
        self.store = bench.store

    async def set_up(self, history: History) -> tuple[JobId, Registration | None]:
        for bench, jobs in ((self.bench, history.running), (self.theirs, history.running_elsewhere)):
            holder = await bench.join(self.kind, lease=LONG)
            for _ in range(jobs):
                await bench.running(self.kind, registration=holder)
            await self.store.leave(holder)  # its jobs still run
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
        await self._lock(history.lock, job)
        return job, worker

    async def _make_job(self, history: History) -> JobId:
        if history.job in ("running", "ended", "tried"):
            holder = await self.bench.join(self.kind, lease=LONG)
            claim = await self.bench.running(self.kind, registration=holder)
            if history.job == "ended":
                await self.bench.succeed(claim)
            elif history.job == "tried":
                await self.bench.fail(claim)  # and it is due again after a backoff of seconds
            await self.store.leave(holder)
            job = claim.job
        else:
            await self.bench.enqueue_many(history.ahead, self.kind)
            delay = {"due": HOUR, "later": LONG}.get(history.job, timedelta())
            job = await self.bench.enqueue(self.kind, delay=delay)
        return job

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

    async def _lock(self, lock: str, job: JobId) -> None:
        if lock == "none":
            return
        how = "for share" if lock == "several" else "for update"
        for connection in self.locks[: 2 if lock == "several" else 1]:
            await connection.execute("begin")
            await connection.execute(f"select from leasehold.jobs where id = '{job}' {how}")
        if lock == "over":
            await self.locks[0].execute("rollback")

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
        for connection in self.locks:
            await connection.execute("rollback")
        if worker:
            await self.store.leave(worker)


def test_reasons_are_none_exactly_if_a_worker_gets_the_job(database_url: str, clock: Clock) -> None:
    with asyncio.Runner() as runner:
        store = runner.run(open_parts(database_url))
        locks: list[Raw] = [runner.run(asyncpg.connect(database_url)) for _ in range(2)]
        outcomes: set[bool] = set()

        async def check(history: History) -> None:
            number = next(_numbers)
            kind = f"kind-{number}"
            await store.sync_definitions([Definition(kind, max_attempts=3), Definition("another")])
            engine = engine_on(store, database_url, clock)
            theirs = Bench(engine, tenant_id(f"beside-{number}"))
            stage = Stage(Bench(engine, tenant_id(f"tenant-{number}")), theirs, kind, locks)
            job, worker = await stage.set_up(history)
            try:
                facts = await store.tenant(stage.bench.tenant).facts(job)
                assert facts is not None
                reasons = [check.text for check in explain(facts).blocking]
                rounds = await stage.rounds_until_claimed(job, worker)
                outcomes.add(rounds is not None)
                assert (rounds is not None) == (not reasons), (reasons, rounds)
                if rounds is not None and not facts.ahead:
                    assert rounds == 0
            finally:
                await stage.clear_up(worker)

        @settings(
            max_examples=120,
            phases=[Phase.explicit, Phase.generate],  # to shrink one takes minutes, and it is short as it is
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=[HealthCheck.too_slow],
        )
        @given(history=histories())
        def check_all(history: History) -> None:
            runner.run(check(history))

        try:
            check_all()
        finally:
            for connection in locks:
                runner.run(connection.close())
            runner.run(store.close())
    assert outcomes == {True, False}


async def test_the_last_worker_of_a_definition_is_found(bench: Bench) -> None:
    await bench.succeeded(definition="report")
    await bench.succeeded(definition="email")
    last = await bench.worker()
    await bench.store.leave(last)
    facts = await bench.jobs.facts(await bench.enqueue(definition="report"))
    assert facts is not None
    assert facts.last_worker is not None
    assert facts.last_worker.id == last.worker
    assert facts.last_worker.name
