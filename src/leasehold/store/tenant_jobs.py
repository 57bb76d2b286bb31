"""One tenant's jobs: enqueue, read, cancel, retry, reschedule."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from leasehold.errors import InvalidInput
from leasehold.model.bounds import problems_of_moment, problems_of_text
from leasehold.model.definition import Registered
from leasehold.model.duration import Duration
from leasehold.model.error_group import problems_of_error_group
from leasehold.model.facts import JobFacts
from leasehold.model.job import Attempt, EnqueueResult, JobId, JobRecord, LineKind, LogLine, NewJob, Source
from leasehold.model.series import Figure, Window
from leasehold.model.status import Status
from leasehold.model.usage import UsageQuery, UsageRow
from leasehold.store.error_groups import ErrorGroups
from leasehold.store.traits import Traits
from leasehold.store.transactions import BulkTransaction, Prepared


class CancelAnswer(StrEnum):
    """Canceled at once, or requested of the worker that runs the job; ended and unknown jobs stay as they are."""

    CANCELED = "canceled"
    REQUESTED = "requested"
    ENDED = "ended"
    UNKNOWN = "unknown"


class RetryAnswer(StrEnum):
    QUEUED = "queued"
    ACTIVE = "active"
    CHANGED = "changed"
    DUPLICATE = "duplicate"
    UNKNOWN = "unknown"


class RescheduleAnswer(StrEnum):
    RESCHEDULED = "rescheduled"
    NOT_WAITING = "not_waiting"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Filter:
    """A job must match every field that is set; an empty tuple matches anything.

    `due` and `tried` tell queued jobs apart: by the engine's clock, and by whether they have been tried. Jobs that
    do not wait are due. Only failed and dead jobs have an error group. A page by traits looks at a part of the jobs.
    """

    statuses: tuple[Status, ...] = ()
    definitions: tuple[str, ...] = ()
    source: Source | None = None
    correlation_id: str | None = None
    due: bool | None = None
    tried: bool | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    error_group: str | None = None
    traits: Traits | None = None

    def __post_init__(self) -> None:
        if problems := list(self._problems()):
            raise InvalidInput(
                f"Nothing can be listed by this filter: {'; '.join(problems)}.",
                fix="Nothing was read. Correct the values.",
            )

    def _problems(self) -> Iterator[str]:
        for name in ("created_after", "created_before"):
            if (moment := getattr(self, name)) is not None:
                yield from problems_of_moment(name, moment)
        if self.correlation_id is not None:
            yield from problems_of_text("correlation_id", self.correlation_id)
        for definition in self.definitions:
            yield from problems_of_text("definition", definition)
        if self.error_group is not None:
            yield from problems_of_error_group(self.error_group)


@dataclass(frozen=True, slots=True)
class Page:
    """Jobs, newest first. `next` is an opaque cursor for the following page; None: this was the last page.

    A page of all tenants, or by traits, may have fewer jobs than were asked for, even none, and yet a `next`: it has
    looked at enough jobs, down to the id `down_to`.
    """

    jobs: Sequence[JobRecord]
    next: str | None
    down_to: JobId | None = None


class TenantJobs(Protocol):
    """The jobs of one tenant. No verb takes a tenant id, and none can reach another tenant."""

    async def prepare(self, jobs: Sequence[NewJob], *, wakes: bool = True) -> Prepared[Sequence[EnqueueResult]]:
        """Does all work that needs no `Caller`, so that its transaction holds no lock meanwhile.

        Without `wakes` the enqueue wakes no worker when it is committed.
        """

    def prepare_known(
        self, jobs: Sequence[NewJob], *, wakes: bool = True
    ) -> Prepared[Sequence[EnqueueResult]] | None:
        """Returns what `prepare` would, without I/O and in any thread; None if the tenant has to be looked up."""

    async def enqueue(self, jobs: Sequence[NewJob], within: object | None = None) -> Sequence[EnqueueResult]:
        """Enqueues all or none, in the order given; within a caller's transaction, if one is passed that is awaited.

        Checks that payloads are plain JSON. The app checks them by their definition's schema before this, and the
        worker before it runs them.
        """

    def bulk_transaction(self) -> AbstractAsyncContextManager[BulkTransaction]:
        """Returns a transaction for more jobs than one call should hold: any number of enqueues, all or none."""

    async def get(self, job: JobId) -> JobRecord | None: ...

    async def get_many(self, jobs: Sequence[JobId]) -> Sequence[JobRecord]:
        """Returns the jobs that exist, by one statement, in any order."""

    async def find(self, where: Filter, cursor: str | None, limit: int) -> Page: ...

    async def counts(self, cap: int) -> Mapping[Status, int]:
        """Counts jobs by status, each up to `cap` and no further."""

    async def error_groups(self, limit: int, counted: int, only: str | None = None) -> ErrorGroups:
        """Returns up to `limit` error groups, each with the figures of its newest `counted` jobs.

        With `only`, returns that group alone, or none.
        """

    async def taken_keys(self, jobs: Sequence[JobId]) -> frozenset[JobId]:
        """Returns those of these ended jobs that a retry would refuse: an active job holds their dedupe key, or
        another one of them does, which is named before.
        """

    async def oldest_queued(self) -> datetime | None:
        """Returns when the oldest job that waits was queued; None if none waits. Ids that callers supplied, which
        are not ordered by time, may hide it.
        """

    async def attempts(self, job: JobId) -> Sequence[Attempt]: ...

    async def lines(self, job: JobId, attempt: int, after: int = 0) -> Sequence[LogLine]: ...

    async def last_lines(
        self, job: JobId, since: int, limit: int, kind: LineKind | None = None
    ) -> Sequence[tuple[int, LogLine]]:
        """Returns the last lines of the attempts from `since` on, each with its attempt, in their order.

        With `kind`, only lines of that kind.
        """

    async def facts(self, job: JobId) -> JobFacts | None:
        """Returns what decides whether a claim takes the job, for leasehold.model.explain; None for an unknown job.

        Reads a bounded number of rows. The facts name no other tenant, and none of its jobs.
        """

    async def figures(self, definitions: Sequence[str], window: Window) -> Sequence[Figure]:
        """Returns figures over time by definition, for each step that has any; '' stands for all definitions."""

    async def usage(self, query: UsageQuery, limit: int) -> Sequence[UsageRow]:
        """Returns the tenant's usage, as UsageStore does."""

    async def wait_until_final(self, job: JobId, wait: Duration) -> JobRecord | None:
        """Returns the job once it is final, woken not polled; None when `wait` is over or the job is unknown."""

    async def cancel(self, jobs: Sequence[JobId]) -> Mapping[JobId, CancelAnswer]:
        """Cancels waiting jobs at once; requests it for running jobs, and wakes their workers."""

    async def retry(self, seen: Mapping[JobId, int]) -> Mapping[JobId, RetryAnswer]:
        """Queues final jobs again: same id, history kept, fresh allowance, dedupe checked again.

        The caller names the attempt it saw, so that two retries make one run.
        """

    async def reschedule(
        self, jobs: Sequence[JobId], delay: Duration | None = None, priority: int | None = None
    ) -> Mapping[JobId, RescheduleAnswer]:
        """Moves waiting jobs; a delay of zero means now. None changes nothing."""

    async def definitions(self) -> Sequence[Registered]: ...
