"""A job, the right to run it, and what is written down about it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Any, ClassVar, NewType, overload
from uuid import UUID

from leasehold.errors import InvalidInput
from leasehold.model.bounds import (
    EARLIEST,
    LATEST,
    MAX_PRIORITY,
    MIN_PRIORITY,
    problems_of_duration,
    problems_of_integer,
    problems_of_moment,
    problems_of_text,
)
from leasehold.model.dedupe import Dedupe
from leasehold.model.definition import Definition
from leasehold.model.duration import as_duration
from leasehold.model.hidden import problem_of_name
from leasehold.model.status import AttemptStatus, DisplayState, Status, display_state

TenantId = NewType("TenantId", str)
JobId = NewType("JobId", str)
WorkerId = NewType("WorkerId", str)
"""Unique per boot of a worker, never reused: two claims under one name are still told apart."""

# Neither control characters (C0, DEL, C1) nor lone surrogates, which Postgres can't store.
_NEVER = r"\x00-\x1f\x7f-\x9f\ud800-\udfff"
_AT_ONCE = timedelta()
_TENANT = re.compile(rf"[^\s{_NEVER}](?:[^{_NEVER}]{{0,98}}[^\s{_NEVER}])?")


def tenant_id(text: str | UUID) -> TenantId:
    if isinstance(text, UUID):
        return TenantId(str(text))
    tenant = stored_tenant_id(text)
    if hidden := _problem_of_name(tenant):
        raise _not_a_tenant(text, hidden)
    return tenant


def stored_tenant_id(text: str) -> TenantId:
    """As `tenant_id`, for one that may be stored already: it may have characters that are refused by now."""
    if not isinstance(text, str) or not _names_a_tenant(text):
        raise _not_a_tenant(text, "1 to 100 characters, no control characters, no outer spaces")
    return TenantId(text)


def _not_a_tenant(text: object, why: str) -> InvalidInput:
    return InvalidInput(
        f"{_shown(text)} is not a tenant id: {why}.", fix="Nothing was changed. Use the tenant's slug or UUID."
    )


_problem_of_name = lru_cache(1000)(problem_of_name)


@lru_cache(1000)
def _names_a_tenant(text: str) -> bool:
    return _TENANT.fullmatch(text) is not None


def job_id(text: str | UUID) -> JobId:
    """Any spelling of a UUID, as the one that is stored."""
    try:
        return JobId(str(UUID(str(text))))
    except ValueError as error:
        raise InvalidInput(
            f"{_shown(text)} is not a job id: it is a UUID.", fix="Nothing was changed. Copy the whole id."
        ) from error


def _shown(value: object) -> str:
    return repr(value[:120]) if isinstance(value, str) else f"{value!r:.120}"


class Source(StrEnum):
    MANUAL = "manual"
    EVENT = "event"
    SCHEDULE = "schedule"
    SYSTEM = "system"


# Without slots: what is left at its default need not be copied into each of a hundred thousand.
@dataclass(frozen=True, kw_only=True)
class NewJob:
    """What to enqueue. It has no tenant: the door it is handed to has one.

    `version` pins that version of the definition; None: the one that is current. `priority` and `max_attempts`
    default to what it says. `delay` counts from the database's clock; `at` is absolute and wins. An `id` that the
    caller brings makes the call repeatable: the second one creates nothing.
    """

    # Whether the payload was checked against the definition, as `of` says. Not a field: a copy by `replace` may have
    # another payload, and is checked again.
    fits: ClassVar[bool] = False

    definition: str
    version: int | None = None
    payload: Mapping[str, Any] = field(default_factory=dict)
    id: JobId | None = None
    priority: int | None = None
    max_attempts: int | None = None
    delay: timedelta = _AT_ONCE
    at: datetime | None = None
    deadline: datetime | None = None
    dedupe: Dedupe | None = None
    source: Source = Source.MANUAL
    source_ref: str | None = None
    correlation_id: str | None = None
    created_by: str | None = None

    def __post_init__(self) -> None:
        if self.delay is not _AT_ONCE:
            object.__setattr__(self, "delay", as_duration(self.delay))
        if problems := list(self._problems()):
            raise InvalidInput(
                f"The job of {self.definition!r:.120} can't be enqueued: {'; '.join(problems)}.",
                fix="Nothing was enqueued. Correct the values.",
            )

    @staticmethod
    def of(definition: str, payload: Mapping[str, Any]) -> "NewJob":
        """With nothing else said, for a key and a payload that were checked: 0.5 µs where the constructor takes 3."""
        job = object.__new__(NewJob)
        job.__dict__.update(definition=definition, payload=payload, fits=True)
        return job

    def with_fields(self, version: int | None, fields: Mapping[str, Any]) -> "NewJob":
        """The same with other values, which were checked; `replace` would check all of them again."""
        job = object.__new__(NewJob)
        job.__dict__.update(self.__dict__, **fields, version=version)
        return job

    def _problems(self) -> Iterator[str]:
        yield from problems_of_text("definition", self.definition)
        for name in ("source_ref", "correlation_id", "created_by"):
            if (text := getattr(self, name)) is not None:
                yield from problems_of_text(name, text)
        for name in ("at", "deadline"):
            if (moment := getattr(self, name)) is not None:
                yield from problems_of_moment(name, moment)
        if self.delay is not _AT_ONCE:
            yield from problems_of_duration("delay", self.delay)
        if self.version is not None:
            yield from problems_of_integer("version", self.version, 1, note=", None stands for the current one")
        if self.max_attempts is not None:
            yield from problems_of_integer("max_attempts", self.max_attempts, 1, note=", it counts the first try")
        if self.priority is not None:
            yield from problems_of_integer(
                "priority", self.priority, MIN_PRIORITY, MAX_PRIORITY, ", lower runs first"
            )
        if not isinstance(self.source, Source):
            yield f"source={self.source!r:.80} is not a Source"
        if not isinstance(self.dedupe, Dedupe | None):
            yield f"dedupe={self.dedupe!r:.80} is not a Dedupe"


@dataclass(frozen=True, slots=True)
class EnqueueResult:
    """The answer to an enqueue: this job was created, or that one already holds the key or the id.

    `replaced`: it holds the key, and has become what was asked for.
    """

    id: JobId
    created: bool
    replaced: bool = False


@dataclass(frozen=True, slots=True)
class AllCreated(Sequence[EnqueueResult]):
    """The answer to an enqueue of many that are all new. Each is made when it is looked at, which nobody may do."""

    ids: Sequence[JobId]

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, index: int) -> EnqueueResult: ...
    @overload
    def __getitem__(self, index: slice) -> "AllCreated": ...
    def __getitem__(self, index: int | slice) -> "EnqueueResult | AllCreated":
        return (
            AllCreated(self.ids[index]) if isinstance(index, slice) else EnqueueResult(self.ids[index], created=True)
        )


@dataclass(slots=True)
class Claim:
    """The right to run one attempt. Job, attempt, worker and batch are the fence: nothing finishes "a job".

    `batch` numbers the worker's claim statements and never repeats within a process. The attempt number can repeat: a
    crash of the database may undo a claim, and a brought id begins at 1 again once its job was pruned.

    Two claims are equal when their fences are; the rest is what running needs. `payload` is JSON text as stored:
    it is parsed by whoever runs it, so that one that can't be parsed spoils its own job and not the batch.

    Nobody changes a claim, though it is not frozen: making a frozen one takes ten times as long (1.9 against 0.2 µs),
    and workers make one for each job. For the same reason its two moments are seconds since 1970 until somebody asks.
    """

    tenant: TenantId
    job: JobId
    attempt: int
    worker: WorkerId
    batch: int
    definition: Definition = field(compare=False, repr=False)
    version: int = field(compare=False)
    payload: str = field(compare=False)
    max_attempts: int = field(compare=False)
    free_attempts: int = field(compare=False)
    queued: float = field(compare=False)
    started: float = field(compare=False)
    correlation_id: str | None = field(default=None, compare=False)
    cancel_requested: bool = field(default=False, compare=False)
    overdue: bool = field(default=False, compare=False)
    priority: int = field(default=100, compare=False)
    unusable: str | None = field(default=None, compare=False)
    """Why this job can't be run by this release, as when its version of the definition is gone: it fails alone."""

    def __hash__(self) -> int:
        return hash(self.job)

    @property
    def queued_at(self) -> datetime:
        return _moment(self.queued)

    @property
    def started_at(self) -> datetime:
        return _moment(self.started)

    @property
    def tries(self) -> int:
        """Which of its `max_attempts` tries this is: snoozes and hand-backs use none, a retry by hand starts anew."""
        return self.attempt - self.free_attempts


def _moment(seconds: float) -> datetime:
    """Somebody may have written `infinity` into the table: the nearest moment that can be shown stands for it."""
    return datetime.fromtimestamp(min(max(seconds, EARLIEST.timestamp()), LATEST.timestamp()), UTC)


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job as it stood when it was read. `due` was judged by the database's clock.

    `unreadable` says what could not be read as it is stored, and what is shown instead; mostly there is nothing.
    """

    id: JobId
    tenant: TenantId
    definition: str
    version: int
    status: Status
    due: bool
    priority: int
    payload: Any
    attempt: int
    max_attempts: int
    free_attempts: int
    scheduled_for: datetime
    queued_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    deadline: datetime | None
    worker: WorkerId | None
    lease_expires_at: datetime | None
    cancel_requested_at: datetime | None
    result: Any
    last_error: str | None
    last_error_code: str | None
    dedupe_key: str | None
    source: Source
    source_ref: str | None
    correlation_id: str | None
    created_by: str | None
    unreadable: tuple[str, ...] = ()

    @property
    def tries(self) -> int:
        """How many of its `max_attempts` tries are used: snoozes and hand-backs use none."""
        return self.attempt - self.free_attempts

    @property
    def display(self) -> DisplayState:
        return display_state(self.status, due=self.due, attempts=self.attempt)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run of a job, by its claim number. `worker` is None only for what ended before it ran."""

    number: int
    status: AttemptStatus
    worker: WorkerId | None
    started_at: datetime
    finished_at: datetime | None
    error: str | None = None
    error_code: str | None = None
    exit_code: int | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


class LineKind(StrEnum):
    LOG = "log"
    PROGRESS = "progress"
    STDOUT = "stdout"
    STDERR = "stderr"


@dataclass(frozen=True, slots=True)
class LogLine:
    """Something a handler said. Numbered by its worker within the attempt, so that a repeated write adds nothing."""

    number: int
    text: str
    kind: LineKind = LineKind.LOG
    progress: float | None = None
    at: datetime | None = None
