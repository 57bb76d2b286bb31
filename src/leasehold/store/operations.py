"""Operations on many jobs, as an engine keeps and runs them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol

from leasehold.errors import InvalidInput
from leasehold.model.bounds import problems_of_moment, problems_of_text
from leasehold.model.job import JobId, Source, TenantId
from leasehold.model.operation import OperationId, OperationKind, OperationState, Pace
from leasehold.model.status import Status
from leasehold.store.tenant_jobs import Filter

# Jobs that can be named one by one.
MOST_CHOSEN = 1000


@dataclass(frozen=True, slots=True)
class NewOperation:
    """An operation to begin. `where` must name at least one status, all of which its kind can change.

    With `jobs`, it changes those of them that have such a status, instead of those that match. Jobs that ended, or
    were enqueued, after `as_of` are left alone; None: after it began. With `canary`, one job is retried first, and
    the others only after it has succeeded. `total` is how many jobs matched when it was planned; `total_is_cap`:
    there were more. `reason` is for people.
    """

    kind: OperationKind
    tenant: TenantId
    where: Filter = field(default_factory=Filter)
    pace: Pace | None = None
    canary: bool = False
    total: int | None = None
    total_is_cap: bool = False
    created_by: str | None = None
    jobs: tuple[JobId, ...] = ()
    as_of: datetime | None = None
    reason: str | None = None

    def __post_init__(self) -> None:
        if problems := list(self._problems()):
            raise InvalidInput(
                f"The operation can't be begun: {'; '.join(problems)}.", fix="Nothing was changed. Correct it."
            )

    def _problems(self) -> Any:
        if self.created_by is not None:
            yield from problems_of_text("created_by", self.created_by)
        if self.reason is not None:
            yield from problems_of_text("reason", self.reason)
        if self.as_of is not None:
            yield from problems_of_moment("as_of", self.as_of)
        if len(self.jobs) > MOST_CHOSEN:
            yield f"{len(self.jobs):,} jobs are named, of at most {MOST_CHOSEN:,}"
        if self.where.traits is not None:
            yield "it can't choose jobs by worker, dedupe key, priority, duration or payload; name them one by one"
        if self.where.error_group is not None and self.kind is not OperationKind.RETRY:
            yield "only ended jobs have an error group, and a cancel changes none of them"
        if wrong := sorted(set(self.where.statuses) - self.kind.statuses):
            yield f"a {self.kind} changes no job that is {', '.join(wrong)}"
        if not self.where.statuses and self.kind.statuses:
            yield "its filter names no status"
        if self.canary and self.kind is not OperationKind.RETRY:
            yield "only a retry has a canary"


@dataclass(frozen=True, slots=True)
class Plan:
    """The effect that an operation would have. `matching` are counted up to 10,000; `is_cap`: there may be more.

    `duplicates` are those of the first 1,000 that a retry skips, since another job holds their dedupe key.
    """

    operation: NewOperation
    matching: int
    is_cap: bool
    sample: Sequence[JobId]
    duplicates: int = 0


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation as it stands.

    `done` counts changed jobs (removed rows, for a tenant's removal), `skipped` those that had changed before their
    turn, `refused` those whose dedupe key another job holds; `details` has counts by reason. `place` is for engines.
    `due_at` is when its next batch may begin; None: it has ended.
    """

    id: OperationId
    kind: OperationKind
    tenant: TenantId
    state: OperationState
    where: Filter
    pace: Pace | None
    canary: bool
    canary_job: JobId | None
    place: str | None
    total: int | None
    total_is_cap: bool
    done: int
    skipped: int
    refused: int
    details: Mapping[str, int]
    error: str | None
    created_by: str | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    due_at: datetime | None
    jobs: tuple[JobId, ...] = ()
    as_of: datetime | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class SeenJob:
    """A job that matches. `later`: it ended, or was enqueued, after the operation began, so it is left alone."""

    id: JobId
    attempt: int
    later: bool


@dataclass(frozen=True, slots=True)
class Looked:
    """Matching jobs among the next ones that were looked at, and the place to go on from; None: that was all."""

    jobs: Sequence[SeenJob]
    place: str | None


@dataclass(frozen=True, slots=True)
class Removed:
    """One batch of a tenant's removal: rows by what they were. `over`: nothing is left, the tenant is gone.

    `waits` is why the rest can't be removed yet; None: at once.
    """

    rows: Mapping[str, int]
    over: bool
    waits: str | None = None


@dataclass(frozen=True, slots=True)
class Stepped:
    """The operation whose batch was done, after it; None: none was due, or another runner has it.

    `wait` is how long until the next batch of any operation is due; None: there is none.
    """

    operation: Operation | None
    wait: timedelta | None


@dataclass(frozen=True, slots=True)
class OperationPage:
    """Operations, newest first. `next` is a cursor; None: this was the last page."""

    operations: Sequence[Operation]
    next: str | None


class OperationStore(Protocol):
    """Operations of all tenants."""

    async def begin(self, new: NewOperation) -> Operation:
        """Writes an operation, due now. A removal that is under way for the tenant is returned as it stands.

        A removal closes the tenant in the same step: nothing new is accepted for it. Raises UnknownTenant for the
        removal of one that is not registered.
        """

    async def get(self, operation: OperationId, tenant: TenantId | None = None) -> Operation | None:
        """Returns an operation; None if it is unknown, or not of the tenant that is named."""

    async def list(self, tenant: TenantId | None, cursor: str | None, limit: int) -> OperationPage:
        """Returns operations of one tenant, or of all."""

    async def abort(self, operation: OperationId, tenant: TenantId | None = None) -> Operation | None:
        """Ends an operation before its next batch. One that has ended stays as it is; None if it is unknown, or not
        of the tenant that is named.

        Jobs that were changed stay changed. A tenant whose removal is aborted is open again, without what is gone.
        """

    async def look(self, new: NewOperation, place: str | None, scan: int, limit: int) -> Looked:
        """Finds up to `limit` jobs that the operation would change, among the next `scan` jobs. Changes nothing."""

    async def step(self, only: OperationId | None = None) -> Stepped:
        """Runs one batch of an operation that is due. Two runners never run the same batch."""


def filter_document(where: Filter) -> dict[str, Any]:
    """Returns the fields of a filter that are set, as JSON holds them."""
    fields: dict[str, Any] = {
        "statuses": [status.value for status in where.statuses],
        "definitions": list(where.definitions),
        "source": where.source and where.source.value,
        "correlation_id": where.correlation_id,
        "due": where.due,
        "tried": where.tried,
        "created_after": where.created_after and where.created_after.isoformat(),
        "created_before": where.created_before and where.created_before.isoformat(),
        "error_group": where.error_group,
    }
    return {name: value for name, value in fields.items() if value not in (None, [])}


def selection_document(of: NewOperation | Operation) -> dict[str, Any]:
    """Returns the filter of an operation, with the jobs that it names and its moment, as JSON holds them."""
    chosen = {"jobs": list(of.jobs), "as_of": of.as_of and of.as_of.isoformat()}
    return filter_document(of.where) | {name: value for name, value in chosen.items() if value}


def read_selection(document: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of an operation that `selection_document` has written."""
    as_of = document.get("as_of")
    return {
        "where": read_filter(document),
        "jobs": tuple(document.get("jobs", ())),
        "as_of": as_of and datetime.fromisoformat(as_of),
    }


def read_filter(document: Mapping[str, Any]) -> Filter:
    after, before = document.get("created_after"), document.get("created_before")
    return Filter(
        statuses=tuple(Status(status) for status in document.get("statuses", ())),
        definitions=tuple(document.get("definitions", ())),
        source=None if document.get("source") is None else Source(document["source"]),
        correlation_id=document.get("correlation_id"),
        due=document.get("due"),
        tried=document.get("tried"),
        created_after=after and datetime.fromisoformat(after),
        created_before=before and datetime.fromisoformat(before),
        error_group=document.get("error_group"),
    )
