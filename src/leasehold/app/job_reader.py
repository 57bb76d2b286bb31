"""Reads a tenant's jobs: each verb blocking and awaited, so that a page of an app needs no SQL."""

from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypedDict, Unpack
from uuid import UUID

from leasehold.app.app_store import AppStore
from leasehold.app.background import Operation
from leasehold.errors import InvalidInput
from leasehold.model.bounds import problems_of_integer
from leasehold.model.duration import Duration
from leasehold.model.explanation import Explanation
from leasehold.model.job import Attempt, JobRecord, Source, TenantId, job_id
from leasehold.model.status import Status
from leasehold.operations import jobs as operations
from leasehold.operations import reading
from leasehold.operations.explain import explain
from leasehold.operations.lookup import as_filters, read_states
from leasehold.operations.reading import JobLine, JobPage, LinePage
from leasehold.store import Filter

MOST = 1000
COUNTED = 10_000


class JobWhere(TypedDict, total=False):
    """Which jobs to list: see JobReader.list."""

    states: Iterable[str] | str
    definitions: Iterable[str] | str
    source: Source | str | None
    correlation_id: str | None
    after: datetime | None
    before: datetime | None


@dataclass(frozen=True, slots=True)
class JobReader:
    """Reads the jobs of one tenant. Each verb comes twice: blocking, and with an `a` in front to be awaited.

    Nothing here changes a job. Payloads, results and texts are as stored: what a page shows is for the app to decide.
    """

    tenant: TenantId
    _store: AppStore = field(repr=False)

    def list(self, *, cursor: str | None = None, limit: int = 50, **where: Unpack[JobWhere]) -> JobPage:
        """Returns jobs, newest first, at most `limit` of up to 1,000, from `cursor` on: `next` of the page before.

        states          "ready", "running", "dead-letter" …, as people see them; one or several
        definitions     keys of definitions
        source          "manual", "event", "schedule" or "system"
        correlation_id  the jobs with this one
        after, before   enqueued at or after that moment, enqueued before it
        """
        filters = _filters(limit, **where)
        return self._store.call(
            lambda opened: reading.list_jobs(opened.store, self.tenant, filters, cursor, limit), "alist"
        )

    async def alist(self, *, cursor: str | None = None, limit: int = 50, **where: Unpack[JobWhere]) -> JobPage:
        filters = _filters(limit, **where)
        return await self._store.acall(
            lambda opened: reading.list_jobs(opened.store, self.tenant, filters, cursor, limit)
        )

    def counts(self, cap: int = COUNTED) -> Mapping[Status, int]:
        """Counts the jobs by status, each status up to `cap`, and no further."""
        return self._store.call(lambda opened: operations.counts(opened.store, self.tenant, cap), "acounts")

    async def acounts(self, cap: int = COUNTED) -> Mapping[Status, int]:
        return await self._store.acall(lambda opened: operations.counts(opened.store, self.tenant, cap))

    def get(self, job: str | UUID) -> JobRecord:
        """Returns the job as it stands. Raises UnknownJob."""
        return self._store.call(lambda opened: operations.get(opened.store, self.tenant, job_id(job)), "aget")

    async def aget(self, job: str | UUID) -> JobRecord:
        return await self._store.acall(lambda opened: operations.get(opened.store, self.tenant, job_id(job)))

    def attempts(self, job: str | UUID) -> Sequence[Attempt]:
        """Returns the attempts of a job, oldest first, each with its try. Raises UnknownJob."""
        return self._store.call(lambda opened: reading.attempts(opened.store, self.tenant, job_id(job)), "aattempts")

    async def aattempts(self, job: str | UUID) -> Sequence[Attempt]:
        return await self._store.acall(lambda opened: reading.attempts(opened.store, self.tenant, job_id(job)))

    def progress(self, job: str | UUID) -> JobLine | None:
        """Returns the last progress that the handler told in this attempt, if any. Raises UnknownJob."""
        return self._store.call(lambda opened: reading.progress(opened.store, self.tenant, job_id(job)), "aprogress")

    async def aprogress(self, job: str | UUID) -> JobLine | None:
        return await self._store.acall(lambda opened: reading.progress(opened.store, self.tenant, job_id(job)))

    # -------------------------------------------------------------------------------------------------------- lines

    def lines(self, job: str | UUID, after: str | None = None) -> LinePage:
        """Returns log lines of all tries, at most 1,000, from the cursor `after` on. Raises UnknownJob.

        A page that asks every second, with `next` of its last answer, shows each line once.
        """
        return self._store.call(lambda opened: reading.lines(opened.store, self.tenant, job_id(job), after), "alines")

    async def alines(self, job: str | UUID, after: str | None = None) -> LinePage:
        return await self._store.acall(lambda opened: reading.lines(opened.store, self.tenant, job_id(job), after))

    def follow(self, job: str | UUID, after: str | None = None) -> Iterator[JobLine]:
        """Yields the log lines so far and those that come, until the job has ended. Raises UnknownJob."""
        page = LinePage((), after, False)
        while not page.ended:
            page = self._store.call(self._next_lines(job, page.next), "afollow")
            yield from page.lines

    async def afollow(self, job: str | UUID, after: str | None = None) -> AsyncGenerator[JobLine, None]:
        page = LinePage((), after, False)
        while not page.ended:
            page = await self._store.acall(self._next_lines(job, page.next))
            for line in page.lines:
                yield line

    def _next_lines(self, job: str | UUID, after: str | None) -> Operation[LinePage]:
        return lambda opened: reading.next_lines(opened.store, self.tenant, job_id(job), after)

    # ------------------------------------------------------------------------------------------------ wait, explain

    def wait_until_final(self, job: str | UUID, wait: Duration) -> JobRecord | None:
        """Returns the job once it has ended, woken not polled; None when `wait` is over or the job is unknown."""
        return self._store.call(
            lambda opened: reading.wait_until_final(opened.store.tenant(self.tenant), job_id(job), wait),
            "await_until_final",
        )

    async def await_until_final(self, job: str | UUID, wait: Duration) -> JobRecord | None:
        return await self._store.acall(
            lambda opened: reading.wait_until_final(opened.store.tenant(self.tenant), job_id(job), wait)
        )

    def explain(self, job: str | UUID) -> Explanation:
        """Tells why the job does not run: each condition of a claim, and what to do if it does not hold.

        Raises UnknownJob.
        """
        return self._store.call(lambda opened: explain(opened.store, self.tenant, job_id(job)), "aexplain")

    async def aexplain(self, job: str | UUID) -> Explanation:
        return await self._store.acall(lambda opened: explain(opened.store, self.tenant, job_id(job)))


def _filters(
    limit: int,
    *,
    states: Iterable[str] | str = (),
    definitions: Iterable[str] | str = (),
    source: Source | str | None = None,
    correlation_id: str | None = None,
    after: datetime | None = None,
    before: datetime | None = None,
) -> tuple[Filter, ...]:
    if problems := list(problems_of_integer("limit", limit, 1, MOST)):
        raise InvalidInput(f"The jobs can't be listed: {'; '.join(problems)}.", fix="Nothing was read. Correct it.")
    return as_filters(
        read_states(_several(states)),
        definitions=tuple(_several(definitions)),
        source=None if source is None else _source(source),
        correlation_id=correlation_id,
        created_after=after,
        created_before=before,
    )


def _several(given: Iterable[str] | str) -> Iterable[str]:
    return (given,) if isinstance(given, str) else given


def _source(given: Source | str) -> Source:
    try:
        return Source(given)
    except ValueError as error:
        known = ", ".join(Source)
        raise InvalidInput(f"{given!r:.80} is not a source.", fix=f"Nothing was read. There are: {known}.") from error
