"""Conditions on jobs that no index serves. A listing by them looks at a bounded number of jobs."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from leasehold.errors import InvalidInput
from leasehold.model.bounds import (
    MAX_PRIORITY,
    MIN_PRIORITY,
    problems_of_duration,
    problems_of_integer,
    problems_of_text,
)
from leasehold.model.job import JobRecord
from leasehold.model.status import Status

DEEPEST_PATH = 8
LONGEST_VALUE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """A job must match every field that is set. All bounds are included.

    A job has a duration once it runs: until its end, or until now. `payload_path` names a field of the payload, one
    inside of another; its text, number or truth value must read as `payload_value`.
    """

    worker: str | None = None
    dedupe_key: str | None = None
    lowest_priority: int | None = None
    highest_priority: int | None = None
    shortest: timedelta | None = None
    longest: timedelta | None = None
    payload_path: tuple[str, ...] = ()
    payload_value: str | None = None

    def __post_init__(self) -> None:
        if problems := list(self._problems()):
            raise InvalidInput(
                f"Nothing can be listed by this filter: {'; '.join(problems)}.",
                fix="Nothing was read. Correct the values.",
            )

    def _problems(self) -> Iterator[str]:
        if self.worker is not None and not _is_uuid(self.worker):
            yield f"worker={self.worker!r:.80} is not the id of a worker, which is a UUID"
        if self.dedupe_key is not None:
            yield from problems_of_text("dedupe_key", self.dedupe_key)
        for name in ("lowest_priority", "highest_priority"):
            if (number := getattr(self, name)) is not None:
                yield from problems_of_integer(name, number, MIN_PRIORITY, MAX_PRIORITY)
        for name in ("shortest", "longest"):
            if (length := getattr(self, name)) is not None:
                yield from problems_of_duration(name, length)
        if (self.payload_value is None) != (not self.payload_path):
            yield "a field of a payload needs a path and a value"
        yield from self._problems_of_payload()

    def _problems_of_payload(self) -> Iterator[str]:
        if len(self.payload_path) > DEEPEST_PATH:
            yield f"the path has {len(self.payload_path)} names, of at most {DEEPEST_PATH}"
        for name in self.payload_path[:DEEPEST_PATH]:
            yield from problems_of_text("name of a field", name) if name else ("a name of the path is empty",)
        if self.payload_value is not None and len(self.payload_value) > LONGEST_VALUE:
            yield f"the value has {len(self.payload_value):,} characters, of at most {LONGEST_VALUE:,}"
        elif self.payload_value:
            yield from problems_of_text("value", self.payload_value)

    def match(self, job: JobRecord, now: datetime) -> bool:
        """Returns whether a job has these traits, as the statements of Postgres decide."""
        return (
            self.worker in (None, job.worker)
            and self.dedupe_key in (None, job.dedupe_key)
            and (self.lowest_priority is None or job.priority >= self.lowest_priority)
            and (self.highest_priority is None or job.priority <= self.highest_priority)
            and self._match_duration(job, now)
            and (not self.payload_path or _text_at(job.payload, self.payload_path) == self.payload_value)
        )

    def _match_duration(self, job: JobRecord, now: datetime) -> bool:
        if self.shortest is None and self.longest is None:
            return True
        if job.started_at is None or job.status in (Status.QUEUED, Status.BLOCKED):
            return False
        took = (job.finished_at or now) - job.started_at
        return (self.shortest is None or took >= self.shortest) and (self.longest is None or took <= self.longest)


def _is_uuid(text: object) -> bool:
    try:
        return isinstance(text, str) and str(UUID(text)) == text
    except ValueError:
        return False


def _text_at(payload: Any, path: tuple[str, ...]) -> str | None:
    """Returns the text of a plain value of a payload; None if it is not there, or not plain."""
    found = payload
    for name in path:
        found = _inside(found, name)
    if isinstance(found, bool):
        return "true" if found else "false"
    return str(found) if isinstance(found, str | int | float) else None


def _inside(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return value.get(name)
    try:
        return value[int(name)] if isinstance(value, list) else None
    except (ValueError, IndexError):
        return None
