"""Registrations of workers: join, heartbeats, leave, and the claims of workers that are gone."""

import logging
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from uuid import uuid4

import orjson

from leasehold.engines.dynamodb import items
from leasehold.engines.dynamodb.clock import Clock
from leasehold.engines.dynamodb.errors import ConditionFailed
from leasehold.engines.dynamodb.keys import FLEET, Key, job_key, job_pk, read_timestamp, timestamp, worker_sk
from leasehold.engines.dynamodb.ledger import ALIVE, Ledgers, ledger_key, lost, new_ledger
from leasehold.engines.dynamodb.settle import Settling
from leasehold.engines.dynamodb.table import Delete, Put, Table, Update, gather
from leasehold.engines.dynamodb.wire import Item
from leasehold.errors import LeaseholdError
from leasehold.model.job import Claim, TenantId, WorkerId
from leasehold.store import Registration, Subscription, WorkerFacts, WorkerRecord

log = logging.getLogger("leasehold.worker")

# Workers that are gone and whose ledgers are read at once.
GONE_AT_ONCE = 16


def _key(worker: WorkerId) -> Key:
    return FLEET, worker_sk(worker)


class Registrations:
    def __init__(self, table: Table, clock: Clock, skew: timedelta, ledgers: Ledgers, settling: Settling) -> None:
        self._table = table
        self._clock = clock
        self._skew = skew
        self._ledgers = ledgers
        self._settling = settling
        self._leases: dict[WorkerId, Item] = {}
        """The registrations of this process's workers as they were last written."""

    async def join(self, serves: Subscription, facts: WorkerFacts, lease: timedelta) -> Registration:
        registration = Registration(WorkerId(str(uuid4())), serves)
        now = await self._clock.now()
        pk, sk = _key(registration.worker)
        item = {
            "PK": pk,
            "SK": sk,
            "host": facts.host,
            "pid": facts.pid,
            "version": facts.version,
            "slots": facts.slots,
            "metadata": orjson.dumps(facts.metadata).decode(),
            "definitions": list(serves.definitions),
            "tenants": None if serves.tenants is None else list(serves.tenants),
            "started_at": timestamp(now),
            "last_seen_at": timestamp(now),
            "lease_expires_at": timestamp(now + lease),
        }
        await self._table.transact([Put(item), new_ledger(registration.worker)])
        self._leases[registration.worker] = item
        self._ledgers.begin(registration.worker)
        return registration

    async def leave(self, registration: Registration) -> None:
        """Marks the worker as gone first. If its usage can't be added up in time, another worker does it."""
        worker = registration.worker
        self._leases.pop(worker, None)
        self._ledgers.forget(worker)
        try:
            await self._table.update(Update(_key(worker), {"gone": True}, ALIVE))
        except ConditionFailed:
            return
        await self.settle([worker])

    async def note_drain(self, worker: WorkerId) -> None:
        """Notes since when a worker drains. One that is gone stays gone."""
        with suppress(ConditionFailed):
            await self._table.update(
                Update(_key(worker), {"drains_since": timestamp(await self._clock.now())}, ALIVE)
            )

    async def lease_of(self, worker: WorkerId, now: datetime) -> Item:
        """Returns the registration of a worker that claims. Raises RegistrationLost if it is gone, or if its lease is
        over: the lock of a job that it claimed would be over as well, and cost the job a try.

        Heartbeats may be sent by another store of the worker, so it is read again once half of its lease is over.
        """
        if (known := self._leases.get(worker)) is not None and _is_fresh(known, now):
            return known
        item = await self._table.get(_key(worker))
        if item is None or "gone" in item or read_timestamp(item["lease_expires_at"]) <= now:
            raise lost(worker)
        self._leases[worker] = item
        return item

    async def require(self, worker: WorkerId) -> None:
        """Raises RegistrationLost if the worker is gone."""
        ledger = await self._table.get(ledger_key(worker))
        if ledger is None or "gone" in ledger:
            self._leases.pop(worker, None)
            self._ledgers.forget(worker)
            raise lost(worker)

    # --------------------------------------------------------------------------------------------------- heartbeats

    async def extend(self, worker: WorkerId, now: datetime, lease: timedelta) -> bool:
        """Extends the lease of a registration. Returns False if it is gone."""
        change = Update(
            _key(worker), {"lease_expires_at": timestamp(now + lease), "last_seen_at": timestamp(now)}, ALIVE
        )
        try:
            item = await self._table.update(change)
        except ConditionFailed:
            self._leases.pop(worker, None)
            self._ledgers.forget(worker)
            return False
        if worker in self._leases:
            self._leases[worker] = item
        return True

    async def extend_claims(
        self, worker: WorkerId, held: Sequence[Claim], now: datetime, lease: timedelta
    ) -> tuple[frozenset[Claim], frozenset[Claim]]:
        """Extends the locks of claims. Returns those that are lost, and those that shall be canceled."""
        mine = [claim for claim in held if claim.worker == worker]
        answers = await gather(self._extend_claim(claim, now + lease) for claim in mine)
        cancels = {claim for claim, answer in zip(mine, answers, strict=True) if answer is True}
        gone = {claim for claim, answer in zip(mine, answers, strict=True) if answer is None}
        return frozenset(gone | {claim for claim in held if claim.worker != worker}), frozenset(cancels)

    async def _extend_claim(self, claim: Claim, until: datetime) -> bool | None:
        """Extends one lock. Returns whether a cancel is requested; None if the claim is lost.

        A cancel request makes the first write fail, and the failure brings the item: no other answer needs it.
        """
        place = items.Place(claim.tenant, claim.job, self._table.shards)
        key, sets, values = job_key(claim.tenant, claim.job), place.locked(until), items.fence_values(claim)
        try:
            condition = f"{items.FENCE} AND attribute_not_exists(#cancel_requested_at)"
            await self._table.update(Update(key, sets, condition, values), returns="NONE")
            return False
        except ConditionFailed as failed:
            if not items.holds(failed.item, claim):
                return None
        try:
            await self._table.update(Update(key, sets, items.FENCE, values), returns="NONE")
        except ConditionFailed:
            return None
        return True

    async def has_strays(self, worker: WorkerId, held: Sequence[Claim], now: datetime, lease: timedelta) -> bool:
        """Returns whether the worker holds claims that it did not name, and that began more than a lease ago."""
        known = {(job_pk(claim.tenant, claim.job), claim.attempt, claim.batch) for claim in held}
        only = (*items.OF_FENCE, "started_at")
        found = await self._ledgers.held(worker, await self._ledgers.maybe_held(worker), only=only)
        return any(
            (item["PK"], item["attempts"], item["claim_batch"]) not in known
            and item["started_at"] < timestamp(now - lease)
            for item in found
        )

    # ------------------------------------------------------------------------------------------------------ orphans

    async def end_expired(self, now: datetime, spare: WorkerId | None = None) -> list[WorkerId]:
        """Ends registrations whose lease ran out. Returns the workers that are gone and may still hold claims."""
        gone: list[WorkerId] = []
        for item in await self._all():
            worker = WorkerId(item["SK"].removeprefix("worker#"))
            if "gone" not in item:
                if worker == spare or item["lease_expires_at"] >= timestamp(now - self._skew):
                    continue
                if not await self._end(worker, now):
                    continue
            gone.append(worker)
        return gone

    async def _end(self, worker: WorkerId, now: datetime) -> bool:
        condition = f"{ALIVE} AND #lease_expires_at < :latest"
        change = Update(_key(worker), {"gone": True}, condition, {"latest": timestamp(now - self._skew)})
        try:
            await self._table.update(change, returns="NONE")
        except ConditionFailed:
            return False
        return True

    async def orphans(self, gone: Sequence[WorkerId], limit: int) -> list[Item]:
        """Returns jobs that these workers hold. They claim nothing from now on."""
        found: list[Item] = []
        for begin in range(0, len(gone), GONE_AT_ONCE):
            for held in await gather(self._orphans_of(worker) for worker in gone[begin : begin + GONE_AT_ONCE]):
                found += held
            if len(found) >= limit:
                break
        return found[:limit]

    async def _orphans_of(self, worker: WorkerId) -> list[Item]:
        ledger = await self._ledgers.close_for(worker)
        return await self._ledgers.held(worker, {pk for pk, _ in ledger.entries}) if ledger else []

    async def settle(self, gone: Sequence[WorkerId]) -> None:
        """Adds up the usage of these workers, and forgets those that hold no job. None of them stops the others."""
        for begin in range(0, len(gone), GONE_AT_ONCE):
            await gather(self._settle_one(worker) for worker in gone[begin : begin + GONE_AT_ONCE])

    async def _settle_one(self, worker: WorkerId) -> None:
        """Deletes the ledger of a worker before the registration, by which it is found."""
        try:
            if await self._settling.close(worker):
                await self._table.delete(Delete(_key(worker)))
        except LeaseholdError as error:
            log.warning("the usage of worker %s, which is gone, is added up later: %s", worker, error)

    async def held(self, worker: WorkerId, *, only: Sequence[str] = ()) -> list[Item]:
        return await self._ledgers.held(worker, await self._ledgers.read(worker), only=only)

    # ------------------------------------------------------------------------------------------------------ listing

    async def _all(self) -> list[Item]:
        return [item async for item in self._table.query("#PK = :pk", {"pk": FLEET})]

    async def living(self) -> list[WorkerRecord]:
        """Returns workers that have not left and were not evicted, without their numbers of running jobs."""
        return [_record(item, 0) for item in await self._all() if "gone" not in item]

    async def workers(self) -> list[WorkerRecord]:
        registered = [item for item in await self._all() if "gone" not in item]
        names = [WorkerId(item["SK"].removeprefix("worker#")) for item in registered]
        held = await gather(self.held(worker, only=items.OF_FENCE) for worker in names)
        return [_record(item, len(jobs)) for item, jobs in zip(registered, held, strict=True)]


def _is_fresh(registration: Item, now: datetime) -> bool:
    seen, ends = read_timestamp(registration["last_seen_at"]), read_timestamp(registration["lease_expires_at"])
    return ends - now > (ends - seen) / 2


def _record(item: Item, running: int) -> WorkerRecord:
    tenants = item.get("tenants")
    return WorkerRecord(
        id=WorkerId(item["SK"].removeprefix("worker#")),
        facts=WorkerFacts(item["host"], item["pid"], item["version"], item["slots"], orjson.loads(item["metadata"])),
        serves=Subscription(
            tuple(item["definitions"]), None if tenants is None else tuple(TenantId(name) for name in tenants)
        ),
        running=running,
        started_at=read_timestamp(item["started_at"]),
        last_seen_at=read_timestamp(item["last_seen_at"]),
        lease_expires_at=read_timestamp(item["lease_expires_at"]),
        drains_since=read_timestamp(item["drains_since"]) if item.get("drains_since") else None,
    )
