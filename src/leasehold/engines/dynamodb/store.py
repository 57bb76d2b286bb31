"""An open DynamoDB store: everything that workers ask for. tenant.py has the jobs of a tenant."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import NoReturn

from leasehold.engines.dynamodb import items
from leasehold.engines.dynamodb.administration import DynamoAdministration
from leasehold.engines.dynamodb.claim import Claiming
from leasehold.engines.dynamodb.clock import Clock
from leasehold.engines.dynamodb.definitions import Definitions
from leasehold.engines.dynamodb.due import DueIndex
from leasehold.engines.dynamodb.event_triggers import EventTriggers
from leasehold.engines.dynamodb.events import EventParts
from leasehold.engines.dynamodb.finish import Finishing
from leasehold.engines.dynamodb.fleet_snapshot import DynamoSnapshots
from leasehold.engines.dynamodb.holds import HoldStore
from leasehold.engines.dynamodb.keys import JOB, timestamp
from leasehold.engines.dynamodb.ledger import Ledgers
from leasehold.engines.dynamodb.limits import RunningLimits
from leasehold.engines.dynamodb.logs import Logs
from leasehold.engines.dynamodb.operations import DynamoOperations
from leasehold.engines.dynamodb.prune import Pruning
from leasehold.engines.dynamodb.refusals import no_caller_transaction
from leasehold.engines.dynamodb.registrations import Registrations
from leasehold.engines.dynamodb.removal import Removal
from leasehold.engines.dynamodb.saved_views import DynamoSavedViews
from leasehold.engines.dynamodb.series import NoSeries
from leasehold.engines.dynamodb.sessions import DynamoSessions
from leasehold.engines.dynamodb.settle import Settling
from leasehold.engines.dynamodb.table import Table
from leasehold.engines.dynamodb.tenant import DynamoTenantJobs
from leasehold.engines.dynamodb.tenants import Tenants
from leasehold.engines.dynamodb.tokens import DynamoTokens
from leasehold.engines.dynamodb.trigger_store import DynamoTriggerStore
from leasehold.engines.dynamodb.usage import DynamoUsage
from leasehold.engines.dynamodb.wakes import Wakes
from leasehold.engines.dynamodb.watching import DynamoWatcher
from leasehold.engines.dynamodb.wire import Item
from leasehold.errors import Unreachable
from leasehold.model.fleet_snapshot import FleetSnapshot
from leasehold.model.job import Claim, LogLine, TenantId, WorkerId
from leasehold.model.outcome import Verdict
from leasehold.model.usage import UsageQuery, UsageRow
from leasehold.store import (
    Abilities,
    Claimed,
    DueWork,
    NextFire,
    Registration,
    Renewal,
    Subscription,
    Wake,
    WorkerFacts,
    WorkerRecord,
)

# How long the looks of a heartbeat may take at most. Its lease is renewed before, whatever comes of them.
LOOKS = timedelta(seconds=5)


class DynamoStore(DynamoAdministration, DynamoTriggerStore, NoSeries):
    """An open engine on one table."""

    abilities = Abilities(
        caller_transaction=False,
        exact_caps=False,
        priorities=False,
        exact_fairness=False,
        atomic_bulk=False,
        wakes=False,
        adaptive_polling=True,
        fenced_logs=True,
        schedules=True,
        atomic_audit=False,
        series=False,
        upkeep=True,
    )

    def __init__(self, table: Table, clock: Clock) -> None:
        address = table.client.address
        definitions = Definitions(table)
        due = DueIndex(table, address.items, address.skew)
        limits = RunningLimits(table, due)
        holds = HoldStore(table, definitions)
        self._ledgers = Ledgers(table)
        settling = Settling(table, self._ledgers)
        registrations = Registrations(table, clock, address.skew, self._ledgers, settling)
        super().__init__(table, clock, definitions, Tenants(table, clock), holds, limits, registrations)
        self._begin_triggers(EventParts(table, clock, EventTriggers(table, definitions)), self.tenant)
        self.tokens = DynamoTokens(table, clock)
        self.sessions = DynamoSessions(table, clock)
        self.saved_views = DynamoSavedViews(table, clock)
        self._snapshots = DynamoSnapshots(table, clock, definitions, holds, registrations)
        self._skew = address.skew
        self._usage = DynamoUsage(table, clock, self._tenants, self._ledgers, settling, registrations)
        self._claiming = Claiming(
            table, clock, definitions, holds, registrations, self._ledgers, settling, due, limits
        )
        self._finishing = Finishing(table, clock, holds, limits, self._ledgers)
        self._logs = Logs(table, clock)
        self._pruning = Pruning(table, self._usage)
        removal = Removal(table, clock, self._tenants, holds, limits, self._usage, address.skew)
        self.operations = DynamoOperations(table, clock, self._tenants, removal, self.tenant)
        self._wakes = Wakes(address.url, self._claiming.work_waits, address.poll.total_seconds())

    def tenant(self, tenant: TenantId) -> DynamoTenantJobs:
        return DynamoTenantJobs(
            self._table,
            self._clock,
            tenant,
            self._tenants,
            self._definitions,
            self._poke,
            self._tell_cancel,
            self._lanes,
            self._usage,
        )

    async def close(self) -> None:
        await self._table.client.close()

    # ------------------------------------------------------------------------------------------------ registrations

    async def join(self, serves: Subscription, facts: WorkerFacts, lease: timedelta) -> Registration:
        return await self._registrations.join(serves, facts, lease)

    async def renew(
        self,
        registration: Registration,
        held: Sequence[Claim],
        lease: timedelta,
        *,
        look: bool = False,
        probe: bool = False,
    ) -> Renewal:
        """Extends the lease and the locks first. The looks that follow may fail: a later heartbeat looks again."""
        worker, now = registration.worker, await self._clock.now()
        alive = await self._registrations.extend(worker, now, lease)
        if not alive:
            return Renewal(False, await self._lost(held), frozenset(), False, False, None)
        lost, cancels = await self._registrations.extend_claims(worker, held, now, lease)
        if probe:
            self._wakes.tell(worker, Wake.HEARTBEAT)
        looks = None
        with suppress(TimeoutError, Unreachable):
            async with asyncio.timeout(min(LOOKS, lease / 6).total_seconds()):
                gone = await self._registrations.end_expired(now, spare=worker)
                looks = await asyncio.gather(
                    self._has_orphans(gone),
                    self._registrations.has_strays(worker, held, now, lease),
                    self._claiming.next_due(registration),
                    self._work_waits(registration, look=look),
                    self.schedules.next_fire(now),
                )
                await self._registrations.settle(gone)
        if looks is None:
            return Renewal(True, lost, cancels, False, False, None)
        orphans, strays, next_due, work_waits, (next_fire, _) = looks
        next_operation = timedelta() if self._holds.open_operations else None
        return Renewal(True, lost, cancels, orphans, strays, next_due, work_waits, next_fire, next_operation)

    async def _has_orphans(self, gone: Sequence[WorkerId]) -> bool:
        return bool(await self._registrations.orphans(gone, 1) or await self._expired())

    async def _work_waits(self, registration: Registration, *, look: bool) -> bool:
        return look and await self._claiming.work_waits(registration)

    async def _lost(self, held: Sequence[Claim]) -> frozenset[Claim]:
        found = await self._table.get_many((items.key_of(claim) for claim in held), only=items.OF_FENCE)
        return frozenset(claim for claim in held if not items.holds(found.get(items.key_of(claim)), claim))

    async def leave(self, registration: Registration, *, has_claimed: bool = True) -> None:
        self._claiming.forget(registration.worker)
        await self._registrations.leave(registration)

    async def note_drain(self, registration: Registration) -> None:
        await self._registrations.note_drain(registration.worker)

    async def evict(self, limit: int) -> Sequence[Claim]:
        now = await self._clock.now()
        gone = await self._registrations.end_expired(now)
        orphans = await self._registrations.orphans(gone, limit)
        if len(orphans) < limit:
            known = {item["PK"] for item in orphans}
            orphans += [item for item in await self._expired() if item["PK"] not in known]
        if not orphans:  # jobs that wait for another worker come first
            await self._registrations.settle(gone)
        return await self._claiming.read(orphans[:limit], now)

    async def _expired(self) -> list[Item]:
        """Returns running jobs whose lock has run out, of those that claims have come across."""
        seen, latest = self._claiming.expired, timestamp(await self._clock.now() - self._skew)
        found = await self._table.get_many((pk, JOB) for pk in tuple(seen))
        expired = [
            item for item in found.values() if item["status"] == items.RUNNING and item["lock_expires_at"] < latest
        ]
        seen.intersection_update({item["PK"] for item in expired})
        return expired

    async def held(self, registration: Registration) -> Sequence[Claim]:
        found = await self._registrations.held(registration.worker)
        return await self._claiming.read(found, await self._clock.now())

    async def workers(self) -> Sequence[WorkerRecord]:
        return await self._registrations.workers()

    # ------------------------------------------------------------------------------------------ claims and finishes

    async def claim(self, registration: Registration, limit: int) -> Claimed:
        claimed = await self._claiming.claim(registration, limit)
        self._wakes.note_claim(registration.worker, found=bool(claimed.claims) or claimed.more)
        return claimed

    async def prepare_to_sleep(self, registration: Registration, limit: int = 1) -> Claimed:
        return await self.claim(registration, limit)

    async def finish(self, done: Sequence[tuple[Claim, Verdict]], *, reclaimed: bool = False) -> frozenset[Claim]:
        refused = await self._finishing.finish(done)
        if any(not verdict.status.final for _, verdict in done) or (await self._holds.latest()).limits:
            self._poke()
        return refused

    async def append_log(self, lines: Sequence[tuple[Claim, LogLine]]) -> frozenset[Claim]:
        return await self._logs.append(lines)

    def transaction(self, claim: Claim, given: object | None) -> NoReturn:
        raise no_caller_transaction()

    async def prune(self, limit: int) -> int:
        return await self._pruning.prune(limit, await self._clock.now())

    async def roll_up(self) -> bool:
        """Adds up usage: that of the workers of this process."""
        await self._usage.add_up()
        return False

    async def usage(self, query: UsageQuery, limit: int) -> Sequence[UsageRow]:
        return await self._usage.read(query, limit)

    async def fleet_snapshot(self, max_age: timedelta) -> FleetSnapshot | None:
        return await self._snapshots.read(max_age)

    def watch_changes(self) -> DynamoWatcher:
        return DynamoWatcher(self._table, self._tenants)

    # -------------------------------------------------------------------------------------------------------- wakes

    def wakes(self, registration: Registration) -> AsyncGenerator[Wake | DueWork | NextFire, None]:
        return self._wakes.listen(registration)

    async def wake_another(self, registration: Registration) -> None:
        self._poke()

    def poke(self) -> None:
        """Makes the workers of this store look for work now, as for a message of a channel of the user's."""
        self._wakes.poke()

    def _poke(self) -> None:
        self._wakes.poke()

    def _tell_cancel(self, worker: WorkerId) -> None:
        self._wakes.tell(worker, Wake.CANCEL)
