"""Claims: finds due jobs in the index, and takes each by one conditional write, which decides."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count, cycle, islice
from random import randrange

from leasehold.engines.dynamodb import items
from leasehold.engines.dynamodb.clock import Clock
from leasehold.engines.dynamodb.definitions import Definitions
from leasehold.engines.dynamodb.due import Accepts, DueIndex, Entry, Look, Positions
from leasehold.engines.dynamodb.errors import ConditionFailed
from leasehold.engines.dynamodb.holds import Holds, HoldStore
from leasehold.engines.dynamodb.keys import JOB, read_job_pk, read_timestamp, timestamp
from leasehold.engines.dynamodb.ledger import Ledgers
from leasehold.engines.dynamodb.limits import RunningLimits
from leasehold.engines.dynamodb.registrations import Registrations
from leasehold.engines.dynamodb.settle import Settling, bar
from leasehold.engines.dynamodb.table import Table, Update, gather
from leasehold.engines.dynamodb.wire import Item
from leasehold.errors import RegistrationLost
from leasehold.model.job import Claim, TenantId, WorkerId
from leasehold.model.limits import ScopeKind
from leasehold.store import Claimed, Registration

MOST_AT_ONCE = 100
BARRED = "contains(#barred, :mine)"
MOST_REMEMBERED = 10_000
# It begins anywhere, because a worker over HTTP claims through several server processes.
_batches = count(randrange(2**40))
# By table, for all stores of this process: a worker's heartbeats, which tell of them, have a store of their own.
_expired: dict[str, set[str]] = {}


@dataclass(slots=True)
class _Turn:
    """The memory of a worker from one claim to the next."""

    positions: Positions = field(default_factory=Positions)
    contended: bool = False
    """Others were faster at the last claim: this one begins at another place of the queue."""
    served: dict[TenantId, int] = field(default_factory=dict)
    """The batch in which each tenant last had a turn, the latest last."""

    def note_served(self, tenants: Iterable[TenantId], batch: int) -> None:
        for tenant in tenants:
            self.served.pop(tenant, None)
            self.served[tenant] = batch
        while len(self.served) > MOST_REMEMBERED:
            del self.served[next(iter(self.served))]


@dataclass(frozen=True, slots=True)
class _Scene:
    """The view of one claim: the moment, held scopes, and the definitions and tenants that may start."""

    now: datetime
    held: Holds
    definitions: Sequence[str]
    accepts: Accepts


@dataclass(frozen=True, slots=True)
class _Missed:
    """A job that a claim did not get. `in_doubt`: an answer was lost, so it may have got it. `runs`: the job runs, so
    it still counts for its limits, mostly as another worker's.
    """

    in_doubt: bool
    runs: bool


class Claiming:
    def __init__(
        self,
        table: Table,
        clock: Clock,
        definitions: Definitions,
        holds: HoldStore,
        registrations: Registrations,
        ledgers: Ledgers,
        settling: Settling,
        due: DueIndex,
        limits: RunningLimits,
    ) -> None:
        self._table = table
        self._clock = clock
        self._definitions = definitions
        self._holds = holds
        self._registrations = registrations
        self._ledgers = ledgers
        self._settling = settling
        self._due = due
        self._limits = limits
        self._turns: dict[WorkerId, _Turn] = {}
        self.expired = _expired.setdefault(table.client.address.url, set())
        """Running jobs whose lock was seen to have run out; `evict` looks at them."""

    def forget(self, worker: WorkerId) -> None:
        self._turns.pop(worker, None)

    async def claim(self, registration: Registration, limit: int) -> Claimed:
        worker = registration.worker
        turn = self._turns.setdefault(worker, _Turn())
        limit = min(limit, MOST_AT_ONCE, await self._settling.room(worker))
        scene = await self._scene(registration)
        look = await self._look(scene, limit, turn)
        self.expired.update(look.expired)
        chosen = await self._limits.choose(_in_order(look.entries, limit, turn), max(limit, 0), scene.held)
        if not chosen:
            await self._registrations.require(worker)
            return Claimed((), look.more, None if look.more else await self._next_due(scene))
        taken = await self._take(worker, chosen, scene)
        turn.contended = len(taken) < len(chosen)
        turn.note_served((entry.tenant for entry in chosen), next(_batches))
        more = look.more or turn.contended or len(look.entries) > len(chosen)
        return Claimed(await self.read(taken, scene.now), more, None)

    async def work_waits(self, registration: Registration) -> bool:
        scene = await self._scene(registration)
        look = await self._look(scene, 1, _Turn())
        return bool(look.entries) or look.more

    async def next_due(self, registration: Registration) -> timedelta | None:
        """Returns how long it is until a job is due that the worker may start."""
        return await self._next_due(await self._scene(registration))

    async def _scene(self, registration: Registration) -> _Scene:
        now, held = await asyncio.gather(self._clock.now(), self._holds.read())
        full = await self._limits.full(held) if held.limits else frozenset()
        serves = registration.serves
        served = None if serves.tenants is None else frozenset(serves.tenants)

        def accepts(tenant: TenantId) -> bool:
            is_served = served is None or tenant in served
            return is_served and not held.is_paused(tenant, now) and (ScopeKind.TENANT, tenant) not in names

        names = {(scope.kind, scope.key) for scope in full}
        definitions = [key for key in dict.fromkeys(serves.definitions) if held.may_start(key, now)]
        return _Scene(now, held, [key for key in definitions if (ScopeKind.DEFINITION, key) not in names], accepts)

    async def _look(self, scene: _Scene, limit: int, turn: _Turn) -> Look:
        """Looks at the oldest due jobs; if all belong to one tenant with more than fits, at the newest, too."""
        look = await self._due.look(scene.definitions, scene.now, max(1, limit), scene.accepts, turn.positions)
        if look.more and len({entry.tenant for entry in look.entries}) == 1:
            (big,) = {entry.tenant for entry in look.entries}
            others = await self._due.look_behind(
                scene.definitions, scene.now, lambda tenant: tenant != big and scene.accepts(tenant)
            )
            look.entries += others
        return look

    async def _next_due(self, scene: _Scene) -> timedelta | None:
        due = await self._due.next_due(scene.definitions, scene.now, scene.accepts)
        moments = [moment for moment in (due, scene.held.next_end(scene.now)) if moment is not None]
        return min(moments) - scene.now if moments else None

    # ------------------------------------------------------------------------------------------------------- taking

    async def _take(self, worker: WorkerId, chosen: Sequence[Entry], scene: _Scene) -> list[Item]:
        """Claims jobs one by one. Returns those that were still free."""
        batch = next(_batches)
        entries = [(entry.pk, batch) for entry in chosen]
        try:
            registration = await self._registrations.lease_of(worker, scene.now)
            await self._ledgers.reserve(worker, entries)
            taken = await gather(self._take_one(entry, registration, batch, scene.now) for entry in chosen)
        except RegistrationLost:
            await self._limits.release(_places(chosen), scene.held)
            raise
        finally:
            self._ledgers.note_claimed(worker, entries)
        missed = [(entry, each) for entry, each in zip(chosen, taken, strict=True) if isinstance(each, _Missed)]
        self._ledgers.note_over(worker, {(entry.pk, batch): None for entry, each in missed if not each.in_doubt})
        await self._limits.release(_places([entry for entry, each in missed if not each.runs]), scene.held)
        return [item for item in taken if not isinstance(item, _Missed)]

    async def _take_one(self, entry: Entry, registration: Item, batch: int, now: datetime) -> Item | _Missed:
        """Claims one job, and returns it as it is then, if no other was faster."""
        worker = WorkerId(registration["SK"].removeprefix("worker#"))
        tenant, job = read_job_pk(entry.pk)
        place = items.Place(tenant, job, self._table.shards)
        sets = {
            "status": items.RUNNING,
            "locked_by": worker,
            "claim_batch": batch,
            "started_at": timestamp(now),
            "worker_id": worker,
            "worker_host": registration["host"],
            "worker_pid": registration["pid"],
            **place.running(read_timestamp(registration["lease_expires_at"])),
        }
        condition = f"{items.WAITS} AND #scheduled_for <= :now AND #job_type = :definition AND NOT {BARRED}"
        values = {**items.WORDS, "now": timestamp(now), "definition": entry.definition, "one": 1}
        values["mine"] = bar(worker, batch)
        try:
            return await self._table.update(Update((entry.pk, JOB), sets, condition, values, "ADD #attempts :one"))
        except ConditionFailed as failed:
            runs = failed.item is not None and failed.item["status"] == items.RUNNING
            return _Missed(failed.in_doubt, runs)

    async def read(self, found: Sequence[Item], now: datetime) -> list[Claim]:
        """Makes claims of jobs. One whose version is gone or unreadable is claimed as unusable, and fails alone."""
        await self._definitions.learn((item["job_type"], item["version"]) for item in found)
        claims = []
        for item in found:
            definition, why = self._definitions.get(item["job_type"], item["version"])
            claim = items.read_claim(item, definition, now)
            self._ledgers.note_name(claim.worker, item["worker_host"], item["worker_pid"])
            if why:
                claim.unusable = why
            claims.append(claim)
        return claims


def _in_order(entries: list[Entry], limit: int, turn: _Turn) -> list[Entry]:
    """Returns the candidates of a claim: tenants in turn, first those that waited longest for theirs, each by age.

    After a lost race it begins at another place.
    """
    by_tenant: dict[TenantId, list[Entry]] = {}
    for entry in entries:
        by_tenant.setdefault(entry.tenant, []).append(entry)
    turns = sorted(by_tenant, key=lambda tenant: turn.served.get(tenant, 0))
    ordered = list(_by_turns([iter(by_tenant[tenant]) for tenant in turns]))
    if turn.contended and len(ordered) > limit:
        start = randrange(len(ordered))
        ordered = list(islice(cycle(ordered), start, start + len(ordered)))
    return ordered


def _by_turns(lines: list[Iterator[Entry]]) -> Iterator[Entry]:
    while lines:
        left = []
        for line in lines:
            if (entry := next(line, None)) is not None:
                yield entry
                left.append(line)
        lines = left


def _places(entries: Sequence[Entry]) -> list[tuple[str, str, TenantId]]:
    return [(entry.pk, entry.definition, entry.tenant) for entry in entries]
