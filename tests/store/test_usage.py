"""Usage equals the attempts: of any mix of ends, at every moment, before and after they are added up and pruned."""

from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random

import pytest
from tests.store.bench import LEASE, REPORT, Bench
from tests.store.test_operations import run
from tests.tenant_kit import ACME, DAY, HOUR, OTHER

from leasehold.errors import InvalidInput
from leasehold.model.definition import Retention
from leasehold.model.job import Attempt, Claim, JobId, NewJob
from leasehold.model.operation import OperationKind
from leasehold.model.outcome import (
    Canceled,
    Outcome,
    Raised,
    Released,
    Snoozed,
    Succeeded,
    TimedOut,
    decide,
    with_cpu,
)
from leasehold.model.status import AttemptStatus
from leasehold.model.usage import Usage
from leasehold.operations import usage
from leasehold.store import NewOperation
from leasehold.store.reclaim import reclaim_orphans

MINUTE = timedelta(minutes=1)
Figures = tuple[int, timedelta, timedelta, int]
Sums = dict[tuple[str, datetime], Figures]


async def add_up(bench: Bench) -> None:
    """Adds up all that has ended: the first round notes a moment, the second one adds what ended before it."""
    for _ in range(2):
        await bench.move_clock(MINUTE)
        while await bench.store.roll_up():
            continue


class Mix:
    """Jobs that end in random ways, and all of their attempts, each noted when it had ended."""

    def __init__(self, bench: Bench, seed: int) -> None:
        self._bench = bench
        self._random = Random(seed)
        self._ended: dict[tuple[JobId, int], tuple[str, Attempt]] = {}
        self._jobs: dict[JobId, str] = {}
        self._tried: set[JobId] = set()

    async def go_on(self, steps: int) -> None:
        ways: list[Callable[[], Awaitable[None]]] = [
            *(self._run, self._run, self._run, self._run, self._kill, self._cancel_a_waiting_one, self._retry),
            *(self._pass_time, self._add_up, self._prune),
        ]
        for _ in range(steps):
            await self._random.choice(ways)()
            await self._note(self._tried)
            self._tried.clear()
        await self._note(set(self._jobs))

    async def _run(self) -> None:
        await self._enqueue()
        ends: list[Outcome] = [
            *(Succeeded(), Succeeded("1"), Raised("Unlucky", "no"), Raised("Unlucky", "never", final=True)),
            *(TimedOut(MINUTE), Canceled(), Snoozed(timedelta()), Released()),
        ]
        for claim in await self._bench.claim(self._random.randint(1, 3)):
            self._tried.add(claim.job)
            await self._bench.move_clock(timedelta(milliseconds=self._random.randint(0, 5000)))
            await self._end(claim, self._random.choice(ends))

    async def _end(self, claim: Claim, outcome: Outcome) -> None:
        verdict = decide(outcome, claim, jitter=0)
        if self._random.random() < 0.5:
            verdict = with_cpu(verdict, self._random.randint(0, 3_000_000) / 1_000_000)
        await self._bench.store.finish([(claim, verdict)])

    async def _kill(self) -> None:
        """Ends a worker as kill -9 does: its lease runs out, and others reclaim its jobs."""
        await self._enqueue()
        self._tried |= {claim.job for claim in await self._bench.claim(2, await self._bench.join(lease=LEASE))}
        await self._bench.move_clock(LEASE + MINUTE)
        await reclaim_orphans(self._bench.store)

    async def _cancel_a_waiting_one(self) -> None:
        await self._enqueue()
        await self._bench.jobs.cancel([self._random.choice(list(self._jobs))])

    async def _retry(self) -> None:
        if self._jobs:
            job = await self._bench.jobs.get(self._random.choice(list(self._jobs)))
            if job is not None and job.status.final:
                await self._bench.jobs.retry({job.id: job.attempt})

    async def _enqueue(self) -> None:
        definition = self._random.choice(["report", "email"])
        self._jobs[await self._bench.enqueue(definition, max_attempts=3)] = definition

    async def _pass_time(self) -> None:
        await self._bench.move_clock(self._random.choice([MINUTE, timedelta(minutes=40), 3 * HOUR]))

    async def _add_up(self) -> None:
        while await self._bench.store.roll_up():
            continue

    async def _prune(self) -> None:
        await self._bench.store.prune(self._random.randint(1, 100))

    async def _note(self, jobs: set[JobId]) -> None:
        for job in jobs:
            for attempt in await self._bench.jobs.attempts(job):
                if attempt.finished_at is not None:
                    self._ended[job, attempt.number] = self._jobs[job], attempt

    def sums(self) -> Sums:
        """Adds up the attempts themselves."""
        found: Sums = defaultdict(lambda: (0, timedelta(), timedelta(), 0))
        for definition, attempt in self._ended.values():
            assert attempt.finished_at is not None
            cpu = attempt.details.get("cpu_seconds")
            at = attempt.finished_at.replace(minute=0, second=0, microsecond=0)
            attempts, run_time, cpu_time, unknown = found[definition, at]
            found[definition, at] = (
                attempts + 1,
                run_time + (attempt.finished_at - attempt.started_at),
                cpu_time + timedelta(seconds=cpu or 0),
                unknown + (cpu is None),
            )
        return dict(found)


def sums_of(found: Usage) -> Sums:
    return {
        (row.definition or "", row.at): (row.attempts, row.run, row.cpu, row.unknown)
        for row in found.rows
        if row.at is not None
    }


@pytest.mark.parametrize("seed", range(4))
async def test_usage_equals_the_attempts_of_any_mix(bench: Bench, seed: int) -> None:
    short = Retention(succeeded=MINUTE, canceled=MINUTE, failed=timedelta(hours=2), dead_letter=None)
    await bench.store.sync_definitions([replace(REPORT, retention=short)])
    mix = Mix(bench, seed)
    for _ in range(4):
        await mix.go_on(20)
        found = await usage.read(bench.store, ACME, "30d", by="definition,hour")
        assert sums_of(found) == mix.sums()
    await add_up(bench)
    assert sums_of(await usage.read(bench.store, ACME, "30d", by="definition,hour")) == mix.sums()
    everyones = await usage.read(bench.store, None, "30d", by="tenant,definition,hour")
    assert sums_of(Usage(everyones.query, [row for row in everyones.rows if row.tenant == ACME])) == mix.sums()


async def test_usage_stays_when_its_jobs_are_pruned(bench: Bench) -> None:
    claim = await bench.running()
    await bench.move_clock(timedelta(seconds=7))
    await bench.succeed(claim)
    before = await usage.read(bench.store, ACME, "60d")
    await add_up(bench)
    await bench.move_clock(31 * DAY)
    assert await bench.store.prune(100) >= 1
    after = await usage.read(bench.store, ACME, "60d")
    assert after.rows == before.rows
    assert (after.total.attempts, after.total.unknown) == (1, 1)


async def test_a_job_that_is_pruned_before_it_is_added_up_counts_once(bench: Bench) -> None:
    await bench.store.sync_definitions([replace(REPORT, retention=Retention(succeeded=timedelta()))])
    await bench.succeeded()
    assert await bench.store.prune(100) == 1
    await add_up(bench)
    assert (await usage.read(bench.store, ACME)).total.attempts == 1


async def test_usage_is_pruned_after_400_days(bench: Bench) -> None:
    await bench.succeeded()
    since = await bench.store.now() - HOUR
    await add_up(bench)
    await bench.move_clock(399 * DAY)
    await bench.store.prune(100)
    assert (await usage.read(bench.store, ACME, since, since + DAY)).total.attempts == 1
    await bench.move_clock(2 * DAY)
    await bench.store.prune(100)
    assert (await usage.read(bench.store, ACME, since, since + DAY)).total.attempts == 0


async def test_an_attempt_that_is_killed_has_unknown_processor_time(bench: Bench) -> None:
    claim = await bench.running(registration=await bench.join(lease=LEASE))
    await bench.move_clock(LEASE + MINUTE)
    await reclaim_orphans(bench.store)
    (row,) = (await usage.read(bench.store, ACME)).rows
    (attempt,) = await bench.jobs.attempts(claim.job)
    assert attempt.status is AttemptStatus.CRASHED
    assert attempt.finished_at is not None
    assert (row.attempts, row.run, row.unknown) == (1, attempt.finished_at - attempt.started_at, 1)
    document = usage.as_document(await usage.read(bench.store, ACME))
    assert document["total"]["cpu_seconds"] is None


async def test_usage_is_divided_as_asked(bench: Bench) -> None:
    for definition in ("report", "report", "email"):
        await bench.succeeded(definition=definition)
    by_definition = await usage.read(bench.store, ACME)
    assert {(row.tenant, row.definition): row.attempts for row in by_definition.rows} == {
        (None, "report"): 2,
        (None, "email"): 1,
    }
    (by_tenant,) = (await usage.read(bench.store, ACME, by="tenant")).rows
    assert (by_tenant.tenant, by_tenant.definition, by_tenant.attempts) == (ACME, None, 3)
    (by_day,) = (await usage.read(bench.store, ACME, by=["day"])).rows
    assert by_day.at is not None
    assert (by_day.at.hour, by_day.attempts) == (0, 3)
    (of_one,) = (await usage.read(bench.store, None, by="definition", definition="email")).rows
    assert (of_one.tenant, of_one.definition) == (None, "email")


async def test_running_attempts_and_those_of_others_do_not_count(bench: Bench) -> None:
    await bench.store.tenant(OTHER).enqueue([NewJob(definition="report")])
    await bench.running()
    assert list((await usage.read(bench.store, ACME)).rows) == []


async def test_usage_goes_with_its_tenant(bench: Bench) -> None:
    await bench.succeeded()
    await add_up(bench)
    await run(bench, await bench.store.operations.begin(NewOperation(OperationKind.DELETE_TENANT, ACME)))
    assert list((await usage.read(bench.store, ACME)).rows) == []


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"by": "week"}, "there are tenant, definition, hour, day"),
        ({"by": "hour,day"}, "by hour and by day"),
        ({"since": "401d"}, "at most 400 days"),
        ({"since": "2030-13-01"}, "not a time"),
        ({"since": "soon"}, "not a duration"),
        ({"since": "1h", "until": "3h"}, "no time is from"),
        ({"since": datetime(2030, 1, 1)}, "no timezone"),
    ],
)
async def test_a_time_or_division_that_makes_no_sense_is_refused(
    bench: Bench, asked: dict[str, str | datetime], why: str
) -> None:
    with pytest.raises(InvalidInput, match=why):
        await usage.read(bench.store, ACME, **asked)  # type: ignore[arg-type]


async def test_all_tenants_are_added_up_for_a_month_at_most(bench: Bench) -> None:
    with pytest.raises(InvalidInput, match="at most 31 days of all tenants"):
        await usage.read(bench.store, None, "40d")
