"""Compares enqueued jobs with an expectation: a table of all jobs, and the near misses field by field."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Any

import orjson
from pydantic_core import PydanticSerializationError, to_jsonable_python

from leasehold.errors import InvalidInput
from leasehold.model.duration import as_duration
from leasehold.model.job import JobRecord, job_id

SHOWN_JOBS = 20
SHOWN_NEAR = 3
SHOWN_VALUE = 70
# The two times are read from the clock one after the other.
SAME_MOMENT = timedelta(seconds=1)

_OPTIONS: Mapping[str, Callable[[JobRecord], Any]] = {
    "at": lambda job: job.scheduled_for,
    "correlation_id": lambda job: job.correlation_id,
    "created_by": lambda job: job.created_by,
    "deadline": lambda job: job.deadline,
    "dedupe_key": lambda job: job.dedupe_key,
    "delay": lambda job: job.scheduled_for - job.queued_at,
    "id": lambda job: job.id,
    "max_attempts": lambda job: job.max_attempts,
    "priority": lambda job: job.priority,
    "source": lambda job: job.source,
    "status": lambda job: job.status,
}


@dataclass(frozen=True)
class Difference:
    field: str
    expected: Any
    was: Any


class _Nothing:
    def __repr__(self) -> str:
        return "nothing"


MISSING = _Nothing()


class Expectation:
    """A job of this definition; every given field must match too. The payload may be a part of the job's."""

    def __init__(
        self, definition: str, tenant: str | None, payload: Mapping[str, Any] | None, options: Mapping[str, Any]
    ) -> None:
        self.definition = definition
        self._tenant = tenant
        self._payload = None if payload is None else _as_json(payload)
        self._options = {name: _readable(name, value) for name, value in options.items()}

    def differences(self, job: JobRecord) -> list[Difference]:
        return list(self._compare(job))

    def _compare(self, job: JobRecord) -> Iterator[Difference]:
        if job.definition != self.definition:
            yield Difference("definition", self.definition, job.definition)
        if self._tenant is not None and job.tenant != self._tenant:
            yield Difference("tenant", self._tenant, job.tenant)
        if self._payload is not None:
            yield from _unlike(self._payload, job.payload, "payload")
        for name, expected in self._options.items():
            was = _OPTIONS[name](job)
            if not _same(expected, was):
                yield Difference(name, expected, was)

    def __str__(self) -> str:
        said = [self.definition]
        if self._tenant is not None:
            said.append(f"for tenant {self._tenant}")
        if self._payload is not None:
            said.append(f"with payload {_show(self._payload)}")
        said += [f"with {name} {_show(value)}" for name, value in self._options.items()]
        return " ".join(said)


def complaint(expected: Expectation, wanted: int | None, found: int, jobs: Sequence[JobRecord]) -> str:
    """Returns the message of an assertion that found no fitting job."""
    if wanted is None:
        head = f"no job was enqueued of {expected}."
    else:
        head = f"{wanted} job{'s were' if wanted != 1 else ' was'} expected of {expected}; there {_are(found)}."
    parts = [head, list_jobs(jobs)]
    if jobs and found < (wanted or 1):
        parts.append(_near_misses(expected, jobs))
    return "\n\n".join(part for part in parts if part)


def list_jobs(jobs: Sequence[JobRecord]) -> str:
    """Returns all enqueued jobs as a table."""
    if not jobs:
        return "Nothing was enqueued at all."
    rows = [("", "definition", "tenant", "state", "payload")]
    rows += [
        (f"#{number}", job.definition, job.tenant, str(job.display), _show(job.payload))
        for number, job in enumerate(jobs[:SHOWN_JOBS], 1)
    ]
    more = [f"  … and {len(jobs) - SHOWN_JOBS} more"] if len(jobs) > SHOWN_JOBS else []
    return "\n".join([f"Enqueued {'was' if len(jobs) == 1 else 'were'}, in this order:", *in_columns(rows), *more])


def in_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return [
        "  " + "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _near_misses(expected: Expectation, jobs: Sequence[JobRecord]) -> str:
    """Sorts by differences, fewest first; another definition counts as far."""
    judged = [(number, expected.differences(job)) for number, job in enumerate(jobs, 1)]
    missed = [(number, differences) for number, differences in judged if differences]
    missed.sort(key=lambda each: (any(d.field == "definition" for d in each[1]), len(each[1])))
    lines = []
    for number, differences in missed[:SHOWN_NEAR]:
        rows = [(d.field, f"expected {_show(d.expected)}", f"was {_show(d.was)}") for d in differences]
        lines += [f"#{number} differs in {_count(len(differences))}:", *in_columns(rows)]
    return "\n".join(["Closest:" if len(missed) else "", *lines]).strip()


def _unlike(expected: Any, was: Any, place: str) -> Iterator[Difference]:
    if isinstance(expected, dict) and isinstance(was, dict):
        for name, value in expected.items():
            yield from _unlike(value, was.get(name, MISSING), f"{place}.{name}")
    elif isinstance(expected, list) and isinstance(was, list) and len(expected) == len(was):
        for number, (value, other) in enumerate(zip(expected, was, strict=True)):
            yield from _unlike(value, other, f"{place}[{number}]")
    elif not _same(expected, was):
        yield Difference(place, expected, was)


def _same(expected: Any, was: Any) -> bool:
    """Compares as JSON does: True is not 1. Moments may differ, since the clock has gone on."""
    if isinstance(expected, datetime) and isinstance(was, datetime):
        return abs(expected - was) < SAME_MOMENT
    if isinstance(expected, timedelta) and isinstance(was, timedelta):
        return abs(expected - was) < SAME_MOMENT
    return bool(expected == was) and (isinstance(expected, bool) == isinstance(was, bool) or not _is_plain(expected))


def _is_plain(value: Any) -> bool:
    return isinstance(value, bool | int | float)


def _readable(name: str, value: Any) -> Any:
    if name not in _OPTIONS:
        near = get_close_matches(name, _OPTIONS, n=1)
        raise InvalidInput(
            f'a job has no option "{name}" to look at.' + (f' Did you mean "{near[0]}"?' if near else ""),
            fix=f"Nothing was changed. There are: {', '.join(_OPTIONS)}; arguments belong into payload={{…}}.",
        )
    if name == "delay":
        return as_duration(value)  # or an object with its own comparison, such as mock.ANY
    return job_id(value) if name == "id" else value


def _as_json(value: Any) -> Any:
    """Returns dates and the like as they are stored; leaves objects that JSON can't hold, such as mock.ANY."""
    if isinstance(value, Mapping):
        return {name: _as_json(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(each) for each in value]
    try:
        return to_jsonable_python(value)
    except (PydanticSerializationError, ValueError):
        return value


def _show(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="seconds")
    if isinstance(value, timedelta):
        return f"{value.total_seconds():g} s"
    try:
        text = orjson.dumps(value).decode()
    except TypeError:
        text = repr(value)
    return text if len(text) <= SHOWN_VALUE else text[: SHOWN_VALUE - 1] + "…"


def _are(found: int) -> str:
    return {0: "is none", 1: "is 1"}.get(found, f"are {found}")


def _count(differences: int) -> str:
    return "one thing" if differences == 1 else f"{differences} things"
