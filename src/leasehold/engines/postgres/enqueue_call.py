"""One call that enqueues: its statement, its arguments, and the meaning of its answer. Drivers share it; no I/O."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from leasehold.engines.postgres.caller_statement import CallerStatement, Row
from leasehold.engines.postgres.plain_jobs import encode_payloads
from leasehold.engines.postgres.statements import Statement
from leasehold.errors import DuplicateJob, InvalidInput, LeaseholdError
from leasehold.model.dedupe import Always, Dedupe, WhileActive, Within
from leasehold.model.job import EnqueueResult, JobId, NewJob, TenantId, job_id


@dataclass(frozen=True, slots=True)
class EnqueueCall(CallerStatement):
    """The statement enqueue_jobs.sql."""

    tenant: TenantId
    jobs: str
    count: int
    wakes: bool = True

    @property
    def arguments(self) -> tuple[str, str, bool]:
        return self.tenant, self.jobs, self.wakes

    def read_answer(self, rows: Sequence[Row]) -> list[EnqueueResult]:
        """Returns the results in the order of the jobs. Raises a refusal: then nothing was enqueued."""
        if len(rows) == 1 and rows[0][4] is not None:
            raise refusal(*(rows[0][place] for place in (4, 5, 6, 7)))
        placed = [EnqueueResult(JobId(row[1]), row[2], row[3]) for row in sorted(rows, key=lambda row: int(row[0]))]
        assert len(placed) == self.count, f"{self.count} jobs, {len(placed)} answers"
        return placed


def enqueue_call(statement: Statement, schema: str, tenant: TenantId, jobs: Sequence[NewJob]) -> EnqueueCall:
    payloads = encode_payloads(jobs)
    document = orjson.dumps([dict(fields_of(job, text)) for job, text in zip(jobs, payloads, strict=True)]).decode()
    return EnqueueCall(statement, schema, tenant, document, len(jobs))


def refusal(state: str, happened: str, fix: str, about: str | None) -> LeaseholdError:
    """Returns the error for a refusal by SQL: state L1002 stands for LH-1002, with which the message begins."""
    code = f"LH-{state[1:]}"
    error = _KINDS[code](happened.removeprefix(f"{code}: "), fix=fix)
    if isinstance(error, DuplicateJob):
        error.job = about
    elif isinstance(error, InvalidInput) and about:
        error.number = int(about)
    return error


def _kinds(of: type[LeaseholdError]) -> Iterator[tuple[str, type[LeaseholdError]]]:
    for kind in of.__subclasses__():
        yield from _kinds(kind)
        yield kind.code, kind


_KINDS: Mapping[str, type[LeaseholdError]] = dict(_kinds(LeaseholdError))


_OPTIONAL = ("version", "priority", "max_attempts", "source_ref", "correlation_id", "created_by", "trace_context")


def fields_of(job: NewJob, payload: str) -> Iterator[tuple[str, Any]]:
    """Yields the fields that the job sets; the definition has the others."""
    yield "definition", job.definition
    yield "payload", orjson.Fragment(payload)
    yield "source", job.source.value
    for name in _OPTIONAL:
        if (value := getattr(job, name)) is not None:
            yield name, value
    if job.id is not None:
        yield "id", job_id(job.id)
    if job.delay:
        yield "delay", _seconds(job.delay)
    if job.at is not None:
        yield "at", _moment(job.at)
    if job.deadline is not None:
        yield "deadline", _moment(job.deadline)
    if job.dedupe is not None:
        yield from _dedupe(job.dedupe)


def _dedupe(dedupe: Dedupe) -> Iterator[tuple[str, Any]]:
    yield "dedupe", _MODES[type(dedupe.mode)]
    yield "on_conflict", dedupe.on_conflict.value
    if dedupe.key is not None:
        yield "dedupe_key", dedupe.key
    if dedupe.held_for is not None:
        yield "dedupe_for", _seconds(dedupe.held_for)


_MODES: Mapping[type, str] = {WhileActive: "active", Within: "window", Always: "always"}


def _moment(moment: datetime) -> str:
    """Writes the moment in UTC: Python takes an offset down to the microsecond, Postgres does not."""
    return moment.astimezone(UTC).isoformat()


def _seconds(length: timedelta) -> str:
    """Writes no days: on the day that clocks change, a day of Postgres has 23 hours or 25."""
    micros = length // timedelta(microseconds=1)
    return f"{micros // 1_000_000}.{micros % 1_000_000:06} seconds"
