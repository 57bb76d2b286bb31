"""Enqueues jobs of one tenant: reads what decides, plans, and writes jobs and keys by one transaction."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from random import random

from uuid_utils import uuid7

from leasehold.engines.dynamodb.clock import Clock
from leasehold.engines.dynamodb.definitions import Definitions
from leasehold.engines.dynamodb.enqueue_plan import Plan, Request
from leasehold.engines.dynamodb.errors import ConditionFailed
from leasehold.engines.dynamodb.table import MOST_IN_TRANSACTION, Put, Table, Write
from leasehold.engines.dynamodb.tenants import Tenants
from leasehold.engines.dynamodb.wire import MOST_IN_REQUEST, Item, body_size
from leasehold.errors import (
    InactiveDefinition,
    InvalidInput,
    PartlyEnqueued,
    PayloadInvalid,
    TransactionConflict,
    UnknownDefinition,
)
from leasehold.model import payload as payloads
from leasehold.model.definition import unknown_definition
from leasehold.model.job import EnqueueResult, JobId, NewJob, TenantId, job_id

TRIES = 50
FIRST_PAUSE, LONGEST_PAUSE = 0.002, 0.25
# A job with a key takes up to three writes of a transaction.
WRITES_OF_A_JOB = 3
MICROSECOND = timedelta(microseconds=1)


class Enqueueing:
    """The enqueues of one tenant."""

    def __init__(
        self,
        table: Table,
        clock: Clock,
        tenant: TenantId,
        tenants: Tenants,
        definitions: Definitions,
        poke: Callable[[], None],
    ) -> None:
        self._table = table
        self._clock = clock
        self._tenant = tenant
        self._tenants = tenants
        self._definitions = definitions
        self._poke = poke

    async def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[EnqueueResult]:
        if not jobs:
            return []
        requests = await self._requests(jobs)
        parts = list(_parts(requests))
        if len(parts) > 1:
            await self._planned(requests)  # a refusal comes before anything is written
        placed: list[EnqueueResult] = []
        try:
            for part in parts:
                placed += await self._write(part)
        except (Exception, asyncio.CancelledError) as error:
            if placed and isinstance(error, Exception):
                raise _partly(placed, len(jobs), error) from error
            raise
        finally:
            if any(each.created or each.replaced for each in placed):
                self._poke()
        return placed

    async def _write(self, requests: Sequence[Request]) -> list[EnqueueResult]:
        """Writes jobs, all or none. Looks again if others took a key or an id meanwhile."""
        pause = FIRST_PAUSE
        for _ in range(TRIES):
            plan, placed = await self._planned(requests)
            try:
                await self._table.transact(list(plan.writes.values())) if plan.writes else None
                return placed
            except ConditionFailed:
                await asyncio.sleep(pause * (0.5 + random()))
                pause = min(2 * pause, LONGEST_PAUSE)
        raise TransactionConflict(
            "a dedupe key or an id was taken and freed by others all the time. Nothing was enqueued.",
            fix="Try again.",
        )

    async def _planned(self, requests: Sequence[Request]) -> tuple[Plan, list[EnqueueResult]]:
        plan = Plan(self._tenant, self._table.shards, await self._clock.now())
        await self.read_for(plan, requests)
        return plan, [plan.add(request) for request in requests]

    async def read_for(self, plan: Plan, requests: Sequence[Request]) -> None:
        """Reads what decides about requests: items under their ids, who holds their keys, and those jobs."""
        if needed := [key for key in plan.needs(requests) if key not in plan.found]:
            found = await self._table.get_many(needed)
            plan.found |= found
            if holders := [key for key in plan.holders(found) if key not in plan.found]:
                plan.found |= await self._table.get_many(holders)

    # ----------------------------------------------------------------------------------------------------- requests

    async def _requests(self, jobs: Sequence[NewJob]) -> list[Request]:
        """Adds what definitions and the clock say. Raises a refusal; nothing is written yet."""
        texts = _encode(jobs)
        await self._tenants.admit(self._tenant)
        current = await self._definitions.current({job.definition for job in jobs})
        pinned = {(job.definition, job.version) for job in jobs if job.version is not None}
        await self._definitions.learn(pinned)
        for job in jobs:
            await self._require_accepted(job, current.get(job.definition))
        now = await self._clock.now()
        # A microsecond apart, so that jobs of one call are claimed in their order whatever ids they have.
        moments = [now - number * MICROSECOND for number in reversed(range(len(jobs)))]
        return [
            self._request(job, text, current[job.definition], moment)
            for job, text, moment in zip(jobs, texts, moments, strict=True)
        ]

    def _request(self, job: NewJob, text: str, current: Item, now: datetime) -> Request:
        version = job.version or current["version"]
        priority, max_attempts = current["priority"], current["max_attempts"]
        if version != current["version"]:
            definition, _ = self._definitions.get(job.definition, version)
            priority, max_attempts = definition.priority, definition.max_attempts
        return Request(
            job,
            JobId(str(uuid7())) if job.id is None else job_id(job.id),
            text,
            version,
            priority if job.priority is None else job.priority,
            max_attempts if job.max_attempts is None else job.max_attempts,
            now,
            job.at or now + job.delay,
        )

    async def _require_accepted(self, job: NewJob, current: Item | None) -> None:
        if current is None:
            raise unknown_definition(job.definition, await self._definitions.names())
        if not current["active"]:
            raise InactiveDefinition(
                f"{job.definition!r} is inactive: it takes nothing new. Nothing was enqueued.",
                fix=f"Run: leasehold definitions activate {job.definition}",
            )
        if job.version is not None and await self._definitions.version(job.definition, job.version) is None:
            raise UnknownDefinition(
                f"version {job.version} of {job.definition!r} does not exist; version {current['version']} is "
                "current. Nothing was enqueued.",
                fix="Run: leasehold definitions sync app.py, with the code that enqueues; or leave the version out.",
            )

    # --------------------------------------------------------------------------------------------------------- bulk

    @asynccontextmanager
    async def bulk_transaction(self) -> AsyncIterator["DynamoBulk"]:
        await self._tenants.admit(self._tenant)
        bulk = DynamoBulk(self, Plan(self._tenant, self._table.shards, await self._clock.now()))
        yield bulk
        await self._commit(bulk)

    async def _commit(self, bulk: "DynamoBulk") -> None:
        written = 0
        try:
            for writes in _transactions(bulk.plan):
                await self._table.transact(writes)
                written += len(writes)
        except ConditionFailed as failed:
            if written:
                raise _partly(bulk.placed, len(bulk.placed), failed) from failed
            raise TransactionConflict(
                "a dedupe key or an id was taken by others before the bulk was written. Nothing was enqueued.",
                fix="Run the whole bulk again.",
            ) from failed
        finally:
            if written:
                self._poke()

    async def requests(self, jobs: Sequence[NewJob]) -> list[Request]:
        return await self._requests(jobs)

    async def admit(self) -> None:
        """Lists the tenant at its first use. Raises UnknownTenant if tenants are strict."""
        await self._tenants.admit(self._tenant)

    def poke(self) -> None:
        """Wakes the workers of this process."""
        self._poke()


class DynamoBulk:
    """Many enqueues that are written at the end of a block; more than 100 items by several transactions."""

    def __init__(self, enqueueing: Enqueueing, plan: Plan) -> None:
        self._enqueueing = enqueueing
        self.plan = plan
        self.placed: list[EnqueueResult] = []
        self._turn = asyncio.Lock()

    async def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[EnqueueResult]:
        async with self._turn:
            if not jobs:
                return []
            requests = await self._enqueueing.requests(jobs)
            plan = self.plan.copy()
            await self._enqueueing.read_for(plan, requests)
            placed = [plan.add(request) for request in requests]
            self.plan = plan
            self.placed += placed
            return placed


def _encode(jobs: Sequence[NewJob]) -> list[str]:
    """Returns their payloads as JSON. If one of several is refused, the error has its number."""
    texts = []
    for number, job in enumerate(jobs, 1):
        try:
            texts.append(payloads.encode(job.payload))
        except PayloadInvalid as error:
            if len(jobs) > 1:
                error.number = number
            raise
    return texts


def _parts(requests: Sequence[Request]) -> Iterator[list[Request]]:
    """Yields parts that each fit into a transaction."""
    part: list[Request] = []
    writes = size = 0
    for request in requests:
        takes = 1 if request.job.dedupe is None else WRITES_OF_A_JOB
        if part and (writes + takes > MOST_IN_TRANSACTION or size + request.size > MOST_IN_REQUEST):
            yield part
            part, writes, size = [], 0, 0
        part.append(request)
        writes, size = writes + takes, size + request.size
    yield part


def _transactions(plan: Plan) -> Iterator[list[Write]]:
    """Yields the writes of a bulk in their order. A key and its job stay together: they are planned together."""
    writes = list(plan.writes.values())
    part: list[Write] = []
    size = 0
    for write in writes:
        length = body_size(write.item if isinstance(write, Put) else {})
        is_full = len(part) >= MOST_IN_TRANSACTION - WRITES_OF_A_JOB or size + length > MOST_IN_REQUEST
        if part and is_full and "payload" in getattr(part[-1], "item", {}):
            yield part
            part, size = [], 0
        part.append(write)
        size += length
    if part:
        yield part


def _partly(placed: Sequence[EnqueueResult], count: int, error: Exception) -> PartlyEnqueued:
    why = error.happened if isinstance(error, InvalidInput) else f"{type(error).__name__}: {error!s:.300}"
    return PartlyEnqueued(
        f"{len(placed):,} of {count:,} jobs are enqueued, the rest is not ({why}).",
        fix="DynamoDB writes at most 100 items at once. Enqueue the rest again, with ids of your own.",
        placed=placed,
    )
