"""The fixture `leasehold`: an app on the test's own database, and everything that a test can do with it."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from typing import Any, ParamSpec, TypeVar
from uuid import UUID

from leasehold.app import Enqueued, Leasehold, TypedDefinition
from leasehold.app.background import Background
from leasehold.app.database_settings import DatabaseSettings
from leasehold.app.open_store import OpenStore
from leasehold.errors import InvalidInput, UnknownJob
from leasehold.model.duration import Duration, read_duration
from leasehold.model.job import Attempt, JobRecord, NewJob, tenant_id
from leasehold.model.status import Status, parse_status
from leasehold.store import Filter
from leasehold.testing.clock import Clock
from leasehold.testing.crashes import Crashes, CrashKit
from leasehold.testing.draining import Drain
from leasehold.testing.effects import Effect
from leasehold.testing.enqueued import Expectation, complaint, listed
from leasehold.testing.execution import Execution, made_up_claim, refuse_to_block, result_of
from leasehold.testing.injection import Injected, Raises
from leasehold.testing.inline import inline
from leasehold.testing.process import PATIENCE, WorkerProcess, target_of
from leasehold.testing.server import run_in_thread
from leasehold.worker import Handlers

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

Definition = TypedDefinition[..., Any] | str
Which = str | UUID | Enqueued[Any] | JobRecord
PAGE = 500


class QueueTester:
    """An app in a test. Jobs are enqueued for real, in a database of this test, and wait until the test runs them:
    by `inline()`, `drain()` or `worker()`, a worker in a process of its own.

    Methods that read block for a moment, in async tests too; each method that runs handlers has an async twin.
    """

    def __init__(self, app: Leasehold, url: str, target: str | None = None) -> None:
        self.app = app
        self.url = url
        self.clock = Clock(url, app.settings.schema)
        self._target = target
        self._injected = Injected(app.handlers)
        settings = DatabaseSettings()
        settings.configure(url, app.settings.schema, None)
        self._background = Background(lambda: settings.open(Handlers()))

    def close(self) -> None:
        self._injected.take_back()
        self.rest()

    def rest(self) -> None:
        """Closes the connections of reading methods; the next one opens them again."""
        self._background.close()

    # --------------------------------------------------------------------------------------------------------- record

    def jobs(
        self, definition: Definition | None = None, *, tenant: str | None = None, status: str | Status | None = None
    ) -> list[JobRecord]:
        """Returns the enqueued jobs as they are now, in the order of the enqueues."""
        key = None if definition is None else key_of(definition)
        wanted = None if status is None else parse_status(status)
        return [
            job
            for job in self._ask(_all_jobs)
            if key in (None, job.definition) and tenant in (None, job.tenant) and wanted in (None, job.status)
        ]

    def job(self, job: Which | None = None) -> JobRecord:
        """Returns this job as it is now; without an argument, the job that was enqueued last."""
        everything = self.jobs()
        wanted = everything[-1:] if job is None else [each for each in everything if each.id == id_of(job)]
        if not wanted:
            raise UnknownJob(
                f"this test's database has no job{'' if job is None else f' {id_of(job)}'}.",
                fix="Nothing was changed. Was it enqueued, and committed?",
            )
        return wanted[-1]

    def attempts(self, job: Which | None = None) -> list[Attempt]:
        """Returns the attempts of a job, the first one first: how each ended, and with what error."""
        record = self.job(job)

        async def ask(opened: OpenStore) -> list[Attempt]:
            found = await opened.store.tenant(record.tenant).attempts(record.id)
            return sorted(found, key=lambda attempt: attempt.number)

        return self._ask(ask)

    def assert_enqueued(
        self,
        definition: Definition,
        *,
        tenant: str | None = None,
        payload: Mapping[str, Any] | None = None,
        count: int | None = None,
        **options: Any,
    ) -> JobRecord:
        """Returns the job that fits, the last one if several do. Raises an AssertionError that shows all jobs.

        `payload` may be a part of the job's. `count` asks for exactly so many. Options are those of an enqueue, as
        delay, at, priority, dedupe_key, correlation_id; and status.
        """
        __tracebackhide__ = True
        expected = Expectation(key_of(definition), tenant, payload, options)
        if count is not None and count < 1:
            raise InvalidInput(f"count={count} is not at least 1. Nothing was changed.", fix="Use assert_none(…).")
        jobs = self.jobs()
        fitting = [job for job in jobs if not expected.differences(job)]
        if not fitting or count not in (None, len(fitting)):
            raise AssertionError(complaint(expected, count, len(fitting), jobs))
        return fitting[-1]

    def assert_none(self, definition: Definition | None = None, *, tenant: str | None = None) -> None:
        """Raises an AssertionError if a job was enqueued: of this definition, for this tenant, or at all."""
        __tracebackhide__ = True
        if found := self.jobs(definition, tenant=tenant):
            of = "" if definition is None else f" of {key_of(definition)}"
            to = "" if tenant is None else f" for tenant {tenant}"
            raise AssertionError(f"no job{of}{to} was expected.\n\n{listed(found)}")

    # ---------------------------------------------------------------------------------------------------------- run

    def call(self, tenant: str, definition: TypedDefinition[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Calls the handler without a queue. Arguments and result go through JSON, as in a worker."""
        if self._injected.handler(key_of(definition)).is_async:
            refuse_to_block("acall")
        return result_of(self._execution(tenant, definition, args, kwargs).run())

    async def acall(
        self, tenant: str, definition: TypedDefinition[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> Any:
        return result_of(await self._execution(tenant, definition, args, kwargs).arun())

    def _execution(
        self, tenant: str, definition: TypedDefinition[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Execution:
        handler = self._injected.handler(key_of(definition))
        claim = made_up_claim(tenant_id(tenant), handler.definition, definition.bind(*args, **kwargs))
        return Execution(handler, claim)

    def inline(self) -> AbstractContextManager[None]:
        """Within the block, an enqueue runs its job at once, and raises the handler's error.

        A job that is enqueued within a transaction is not run, and warns so (NotRunInline): drain it after the
        commit.
        """
        return inline(self.app)

    def drain(self, *, advance: bool = False, max_jobs: int = 10_000, slots: int = 1) -> int:
        """Runs all due jobs, and those that they enqueue, by a real worker. Returns how many handlers ran.

        With `advance`, the clock is moved over delays and backoffs until nothing is left. Errors of handlers are in
        the jobs' records, as in production. With one slot, one job runs after the other.
        """
        refuse_to_block("adrain")
        return run_in_thread(self.adrain(advance=advance, max_jobs=max_jobs, slots=slots))

    async def adrain(self, *, advance: bool = False, max_jobs: int = 10_000, slots: int = 1) -> int:
        """As `drain`, on this event loop."""
        drain = Drain(self.app, self.url, slots=slots, max_jobs=max_jobs)
        return await (drain.until_nothing_is_left() if advance else drain.until_nothing_is_due())

    def fail(self, definition: Definition, error: Raises, times: int = 1) -> None:
        """Makes its next `times` runs raise this error instead of calling the handler."""
        self._injected.add(key_of(definition), error, times)

    def freeze(self, at: str | datetime | None = None) -> datetime:
        """Stops the database's clock, as in freeze("2027-03-13T12:00Z"). `clock.advance("1h")` still moves it."""
        return self.clock.freeze(at)

    @contextmanager
    def worker(self, *, slots: int = 10, lease: Duration = "30s", grace: Duration = "30s") -> Iterator[WorkerProcess]:
        """Runs a worker in a process of its own, within the block.

        While it is idle, and a moment after, its lease is three times as long: after two minutes it is over.
        """
        options = ("--slots", str(slots), "--lease", _seconds(lease), "--grace", _seconds(grace))
        process = WorkerProcess(self._target or target_of(self.app), self.url, self.app.settings.schema, *options)
        try:
            process.start()
            yield process
        finally:
            process.close()

    def wait_for(self, job: Which, within: Duration = PATIENCE) -> JobRecord:
        """Waits until the job has ended, and returns it; is woken, does not poll."""
        record = self.job(job)

        async def ask(opened: OpenStore) -> JobRecord | None:
            return await opened.store.tenant(record.tenant).wait_until_final(record.id, read_duration(within))

        if ended := self._ask(ask):
            return ended
        raise AssertionError(f"job {record.id} has not ended within {within}; it is {self.job(record).display}.")

    async def await_for(self, job: Which, within: Duration = PATIENCE) -> JobRecord:
        return await asyncio.to_thread(self.wait_for, job, within)

    # --------------------------------------------------------------------------------------------------------- crash

    def crashes(
        self,
        tenant: str,
        job: NewJob | Callable[[int], NewJob],
        *,
        effects: Sequence[Callable[..., Any] | Effect] = (),
        count: Callable[[], int] | None = None,
        in_child: Callable[[], object] | None = None,
    ) -> Crashes:
        """Runs the job once undisturbed, then once for each crash point, and counts its effects.

            leasehold.crashes("acme", charge_order.bind(order=7), effects=[payments.charge]).assert_once()

        job       what `definition.bind(…)` makes; or a function of the run's number, to begin each on fresh data
        effects   functions whose calls are effects, and places to stop; an Effect names the key of a call
        count     counts effects itself, as rows of a database, instead of the calls
        in_child  called first in each process, as to drop connections that it has inherited

        Each run is a worker in a process forked from this one: what the test has patched is patched there, and what
        it changes in memory is gone with it.
        """
        refuse_to_block("acrashes")
        return CrashKit(self, tenant, job, effects, count, in_child).run()

    async def acrashes(self, *args: Any, **kwargs: Any) -> Crashes:
        """As `crashes`, from an async test."""
        return await asyncio.to_thread(self.crashes, *args, **kwargs)

    def _ask(self, ask: Callable[[OpenStore], Coroutine[Any, Any, T]]) -> T:
        return self._background.submit(ask).result()


def key_of(definition: Definition) -> str:
    if isinstance(definition, str):
        return definition
    if not isinstance(definition, TypedDefinition):
        raise InvalidInput(
            f"{definition!r} is not a definition. Nothing was changed.",
            fix="Pass a function that @app.job made one, or its key.",
        )
    return definition.key


def id_of(job: Which) -> str:
    return job.id if isinstance(job, Enqueued | JobRecord) else str(UUID(str(job)))


async def _all_jobs(opened: OpenStore) -> list[JobRecord]:
    jobs: list[JobRecord] = []
    cursor = None
    while True:
        page = await opened.store.find_all_tenants(Filter(), cursor, PAGE)
        jobs += page.jobs
        cursor = page.next
        if cursor is None:
            return sorted(jobs, key=lambda job: (job.queued_at, job.id))


def _seconds(length: Duration) -> str:
    return f"{read_duration(length).total_seconds():f}s"
