"""Reads the jobs of a test's database, and asserts which were enqueued and how they ended."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar
from uuid import UUID

from leasehold.app import Enqueued, TypedDefinition
from leasehold.app.background import Background
from leasehold.app.database_settings import DatabaseSettings
from leasehold.app.open_store import OpenStore
from leasehold.errors import InvalidInput, UnknownJob
from leasehold.model.duration import Duration, read_duration
from leasehold.model.job import Attempt, JobRecord
from leasehold.model.status import Status, parse_status
from leasehold.store import Filter
from leasehold.testing.enqueued import Expectation, complaint, list_jobs
from leasehold.testing.process import PATIENCE
from leasehold.worker import Handlers

T = TypeVar("T")

Definition = TypedDefinition[..., Any] | str
Which = str | UUID | Enqueued[Any] | JobRecord
PAGE = 500


class JobRecords:
    """The jobs of one database, read by a store on a thread: tests with and without a loop may call."""

    def __init__(self, url: str, schema: str) -> None:
        self.url = url
        settings = DatabaseSettings()
        settings.configure(url, schema, None)
        self._background = Background(lambda: settings.open(Handlers()))

    def rest(self) -> None:
        """Closes the connections of reading methods; the next one opens them again."""
        self._background.close()

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
            raise AssertionError(f"no job{of}{to} was expected.\n\n{list_jobs(found)}")

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
