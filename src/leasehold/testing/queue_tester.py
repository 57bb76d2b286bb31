"""The fixture `leasehold`: an app on the test's own database, and everything that a test can do with it."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from typing import Any, ParamSpec, TypeVar

from leasehold.app import Leasehold, TypedDefinition
from leasehold.model.duration import Duration, read_duration
from leasehold.model.job import NewJob, tenant_id
from leasehold.testing.clock import Clock
from leasehold.testing.crashes import Crashes, CrashKit
from leasehold.testing.draining import Drain
from leasehold.testing.effects import Effect
from leasehold.testing.execution import Execution, make_claim, refuse_to_block, result_of
from leasehold.testing.injection import Injected, Raises
from leasehold.testing.inline import inline
from leasehold.testing.process import WorkerProcess, target_of
from leasehold.testing.records import Definition, JobRecords, key_of
from leasehold.testing.server import run_in_thread

P = ParamSpec("P")
R = TypeVar("R")


class QueueTester(JobRecords):
    """An app in a test. Jobs are enqueued for real, in a database of this test, and wait until the test runs them:
    by `inline()`, `drain()` or `worker()`, a worker in a process of its own.

    Methods that read block for a moment, in async tests too; each method that runs handlers has an async twin.
    """

    def __init__(self, app: Leasehold, url: str, target: str | None = None) -> None:
        super().__init__(url, app.settings.schema)
        self.app = app
        self.clock = Clock(url, app.settings.schema)
        self._target = target
        self._injected = Injected(app.handlers)

    def close(self) -> None:
        self._injected.take_back()
        self.rest()

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
        claim = make_claim(tenant_id(tenant), handler.definition, definition.bind(*args, **kwargs))
        return Execution(handler, claim, self.app.state_without_worker)

    def inline(self) -> AbstractContextManager[None]:
        """Within the block, an enqueue runs its job at once, and raises the handler's error.

        A job that is enqueued within a transaction is not run, and warns so (NotRunInline): drain it after the
        commit.
        """
        return inline(self.app)

    def drain(self, *, advance: bool = False, max_jobs: int = 10_000, slots: int = 1) -> int:
        """Fires due schedules, then runs all due jobs, and those that they enqueue, by a real worker. Returns how
        many handlers ran.

        The first drain also saves the triggers that the app declares, as a worker does. With `advance`, the clock is
        moved over delays and backoffs until nothing is left; it is not moved to the next fire of a schedule. Errors
        of handlers are in the jobs' records, as in production. With one slot, one job runs after the other.
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


def _seconds(length: Duration) -> str:
    return f"{read_duration(length).total_seconds():f}s"
