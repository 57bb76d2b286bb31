"""Log lines and progress: in chunks, one item for the lines of a claim that come together.

The key of a chunk has the attempt and its worker, so that lines of a stale worker can't pass for those of another.
"""

import logging
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import orjson

from leasehold.engines.dynamodb import items
from leasehold.engines.dynamodb.clock import Clock
from leasehold.engines.dynamodb.keys import job_key, job_pk, log_prefix, log_sk, read_timestamp, timestamp
from leasehold.engines.dynamodb.table import Table
from leasehold.engines.dynamodb.wire import body_size
from leasehold.model.job import Claim, JobId, LineKind, LogLine, TenantId
from leasehold.model.payload import make_storable

log = logging.getLogger("leasehold.worker")

LONGEST_LINE = 10_000
LINES_AT_ONCE = 1000
# An item holds 400 KB.
MOST_IN_CHUNK = 300_000


class Logs:
    def __init__(self, table: Table, clock: Clock) -> None:
        self._table = table
        self._clock = clock

    async def append(self, lines: Sequence[tuple[Claim, LogLine]]) -> frozenset[Claim]:
        """Appends lines of claims that still hold. Returns the others."""
        if not lines:
            return frozenset()
        claims = list(dict.fromkeys(claim for claim, _ in lines))
        now = await self._clock.now()
        wanted = [job_key(claim.tenant, claim.job) for claim in claims]
        found = await self._table.get_many(wanted, only=items.OF_FENCE)
        held = {claim for claim in claims if items.holds(found.get(job_key(claim.tenant, claim.job)), claim)}
        chunks = [
            chunk
            for claim in claims
            if claim in held
            for chunk in _chunks(claim, [line for of, line in lines if of == claim], now)
        ]
        await self._table.put_many(chunks)
        return frozenset(claims) - held

    async def lines(self, tenant: TenantId, job: JobId, attempt: int, after: int) -> list[LogLine]:
        """Returns the lines of an attempt behind a number, a bounded number of them."""
        found: dict[int, LogLine] = {}
        listed = self._table.query(
            "#PK = :pk AND #SK BETWEEN :from AND :until",
            {
                "pk": job_pk(tenant, job),
                "from": f"{log_prefix(attempt)}{after + 1:010d}",
                "until": f"{log_prefix(attempt)}~",
            },
        )
        async for chunk in listed:
            for line in _read(chunk):
                if line.number > after:
                    found.setdefault(line.number, line)
            if len(found) > 2 * LINES_AT_ONCE:
                break
        return [found[number] for number in sorted(found)][:LINES_AT_ONCE]

    async def last_lines(
        self, tenant: TenantId, job: JobId, since: int, limit: int, kind: LineKind | None = None
    ) -> list[tuple[int, LogLine]]:
        """Returns the last lines of the attempts from `since` on, in their order; with `kind`, those of that kind."""
        found: dict[tuple[int, int], LogLine] = {}
        listed = self._table.query(
            "#PK = :pk AND #SK BETWEEN :from AND :until",
            {"pk": job_pk(tenant, job), "from": log_prefix(max(0, since)), "until": "log#~"},
            backward=True,
        )
        async for chunk in listed:
            for line in _read(chunk):
                if kind in (None, line.kind):
                    found.setdefault((chunk["attempt"], line.number), line)
            if len(found) >= limit + LINES_AT_ONCE:
                break
        last = sorted(found)[-limit:] if limit > 0 else []
        return [(attempt, found[attempt, number]) for attempt, number in last]


def _chunks(claim: Claim, lines: Iterable[LogLine], now: datetime) -> Iterable[dict[str, Any]]:
    """Yields items for lines, by their numbers. The same lines make the same items: a repeated call adds nothing."""
    by_number = {line.number: line for line in reversed(list(lines))}
    part: list[LogLine] = []
    size = 0
    for number in sorted(by_number):
        line = by_number[number]
        length = body_size({"text": line.text[:LONGEST_LINE]})
        if part and size + length > MOST_IN_CHUNK:
            yield _item(claim, part, now)
            part, size = [], 0
        part.append(line)
        size += length
    if part:
        yield _item(claim, part, now)


def _item(claim: Claim, lines: Sequence[LogLine], now: datetime) -> dict[str, Any]:
    return {
        "PK": job_pk(claim.tenant, claim.job),
        "SK": log_sk(claim.attempt, claim.worker, lines[-1].number, lines[0].number),
        "attempt": claim.attempt,
        "worker_id": claim.worker,
        "at": timestamp(now),
        "lines": orjson.dumps([_written(line) for line in lines]).decode(),
    }


def _written(line: LogLine) -> list[Any]:
    progress = line.progress and min(1.0, max(0.0, line.progress))
    return [line.number, make_storable(line.text, LONGEST_LINE), line.kind.value, progress]


def _read(chunk: dict[str, Any]) -> list[LogLine]:
    at = read_timestamp(chunk["at"])
    return [
        LogLine(number, text, LineKind(kind), progress, at)
        for number, text, kind, progress in orjson.loads(chunk["lines"])
    ]
