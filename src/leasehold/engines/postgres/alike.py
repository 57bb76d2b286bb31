"""The plain way in, for jobs that nobody can hold back: no dedupe key, and an id of ours, which nobody else has.

Nearly all jobs are such, and those of one call mostly differ in nothing but their payloads. So what they share goes
to the server once, and no conflict is looked for: each of a thousand takes 8 µs of the server's time instead of 20.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from uuid_utils import uuid7

from leasehold.errors import PayloadInvalid
from leasehold.model import payload
from leasehold.model.job import AllCreated, JobId, NewJob

_SHARED = (
    *("definition", "version", "priority", "max_attempts", "delay", "at", "deadline"),
    *("source", "source_ref", "correlation_id", "created_by"),
)
_shared = attrgetter(*_SHARED)
_looks = attrgetter("id", "dedupe", *_SHARED)
_said = attrgetter("id", "dedupe", *(name for name in _SHARED if name not in ("definition", "version", "source")))
_NOTHING_SAID = _said(NewJob(definition=""))

# Of payloads in one statement, in characters: the server holds all of it at once.
MAX_SIZE = 16 * 1024 * 1024


def encoded(jobs: Sequence[NewJob]) -> list[str]:
    """Their payloads as JSON. Of several, a refusal says which one it is about."""
    try:
        return [payload.encode(job.payload) for job in jobs]
    except PayloadInvalid:
        if len(jobs) == 1:
            raise
    for number, job in enumerate(jobs, 1):
        try:
            payload.encode(job.payload)
        except PayloadInvalid as error:
            error.number = number
            raise
    raise AssertionError("a payload was refused, and then was not")


def says_nothing_more(job: NewJob) -> bool:
    """Than what it is: a definition's version and a payload. One at a time, nearly all of them are so."""
    said: tuple[Any, ...] = _said(job)
    return said == _NOTHING_SAID


@dataclass(frozen=True, slots=True)
class Alike:
    jobs: Sequence[NewJob]
    ids: Sequence[JobId]
    payloads: Sequence[str]

    @staticmethod
    def of(jobs: Sequence[NewJob]) -> "Alike | None":
        """None: they differ in more than their payloads, or somebody may hold one of them back."""
        first = jobs[0]
        if first.id is not None or first.dedupe is not None:
            return None
        if len(jobs) > 1 and not all(map(_looks(first).__eq__, map(_looks, jobs))):
            return None
        return Alike(jobs, [JobId(str(uuid7())) for _ in jobs], encoded(jobs))

    @property
    def too_large(self) -> bool:
        """For one statement."""
        return len(self.payloads) > 1 and sum(map(len, self.payloads)) > MAX_SIZE

    def pieces(self) -> Iterator["Alike"]:
        """Each small enough for a statement."""
        begin = size = 0
        for end, text in enumerate(self.payloads):
            size += len(text)
            if size > MAX_SIZE and end > begin:
                yield self._piece(begin, end)
                begin, size = end, len(text)
        yield self._piece(begin, len(self.jobs)) if begin else self

    def _piece(self, begin: int, end: int) -> "Alike":
        return Alike(self.jobs[begin:end], self.ids[begin:end], self.payloads[begin:end])

    def columns(self) -> dict[str, Any]:
        """As two texts, which the server splits: no line break is in JSON as we write it. As arrays they took the
        driver 1.5 µs a job, for it looks at each item to see whether it is an array, too."""
        shared = dict(zip(_SHARED, _shared(self.jobs[0]), strict=True))
        shared["source"] = shared["source"].value
        return {"ids": ",".join(self.ids), "payloads": "\n".join(self.payloads), **shared}

    def placed(self) -> AllCreated:
        return AllCreated(self.ids)
