"""The jobs that each worker may have claimed, written before it claims them.

An index by worker would lag behind, and the claims of a worker must be known for certain: to the worker after an
answer was lost, and to the others when it is gone. So a worker writes the keys of the jobs that it is about to claim
into one item of its own. The jobs themselves tell which of them it really holds.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from leasehold.engines.dynamodb.errors import ConditionFailed
from leasehold.engines.dynamodb.items import OF_FENCE, RUNNING
from leasehold.engines.dynamodb.keys import CLAIMS, JOB, Key
from leasehold.engines.dynamodb.table import EXISTS, Delete, Put, Table, Update
from leasehold.engines.dynamodb.wire import Item
from leasehold.errors import RegistrationLost
from leasehold.model.job import WorkerId

# An item holds 400 KB, and a key takes up to 480 bytes.
MOST_CLAIMS = 800
MOST_NAMES = 10_000


def ledger_key(worker: WorkerId) -> Key:
    return f"worker#{worker}", CLAIMS


def new_ledger(worker: WorkerId) -> Put:
    pk, sk = ledger_key(worker)
    return Put({"PK": pk, "SK": sk, "jobs": []})


@dataclass(slots=True)
class _Known:
    """The jobs that a worker of this process may have claimed, those it is claiming, and a turn to write them."""

    jobs: set[str] = field(default_factory=set)
    claiming: set[str] = field(default_factory=set)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class Ledgers:
    """The ledgers of this process's workers, and those of others by reading."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._known: dict[WorkerId, _Known] = {}
        self.names: dict[WorkerId, tuple[str, int]] = {}
        """Hosts and process numbers of the workers whose claims were read here."""

    def begin(self, worker: WorkerId) -> None:
        """Notes a worker that joined here: all of its claims pass through this store."""
        self._known[worker] = _Known()

    def note_name(self, worker: WorkerId, host: str, pid: int) -> None:
        """Notes the name of a worker, for the records of its attempts."""
        if len(self.names) >= MOST_NAMES:
            self.names.clear()
        self.names[worker] = host, pid

    def forget(self, worker: WorkerId) -> None:
        self._known.pop(worker, None)

    async def reserve(self, worker: WorkerId, jobs: Sequence[str]) -> None:
        """Writes down that the worker is about to claim these jobs. Raises RegistrationLost if it is gone."""
        known = self._known.get(worker)
        if known is None:
            known = self._known[worker] = _Known(set(await self.read(worker)))
        async with known.turn:
            known.jobs |= set(jobs)
            known.claiming |= set(jobs)
            change = Update(ledger_key(worker), {"jobs": sorted(known.jobs)}, ALIVE)
            try:
                await self._table.update(change, returns="NONE")
            except ConditionFailed as failed:
                self.forget(worker)
                raise lost(worker) from failed

    async def room(self, worker: WorkerId) -> int:
        """Returns how many jobs the worker may claim more. Looks which it still holds when these seem to be many."""
        known = self._known.get(worker)
        if known is not None and len(known.jobs) > MOST_CLAIMS / 2:
            async with known.turn:
                held = await self.held(worker, known.jobs, only=OF_FENCE)
                known.jobs = {item["PK"] for item in held} | known.claiming
        return MOST_CLAIMS - (len(known.jobs) if known else 0)

    def note_claimed(self, worker: WorkerId, jobs: Iterable[str]) -> None:
        """Notes that the claims of these jobs are over, whatever came of them."""
        if known := self._known.get(worker):
            known.claiming -= set(jobs)

    def note_not_held(self, worker: WorkerId, jobs: Iterable[str]) -> None:
        """Notes that the worker surely does not hold these jobs: it finished them, or another was faster."""
        if known := self._known.get(worker):
            known.jobs -= set(jobs)

    async def read(self, worker: WorkerId) -> Sequence[str]:
        """Returns the jobs that the worker may hold, as it wrote them down."""
        item = await self._table.get(ledger_key(worker))
        return item["jobs"] if item else ()

    async def maybe_held(self, worker: WorkerId) -> set[str]:
        """Returns the jobs that the worker may hold: from memory, if all its claims pass through this store."""
        if (known := self._known.get(worker)) is not None:
            return set(known.jobs)
        return set(await self.read(worker))

    async def held(self, worker: WorkerId, jobs: Iterable[str], *, only: Sequence[str] = ()) -> list[Item]:
        """Returns those of these jobs that the worker holds; with `only`, no more of each than these attributes."""
        found = await self._table.get_many(((pk, JOB) for pk in sorted(jobs)), only=only)
        return [item for item in found.values() if item["status"] == RUNNING and item["locked_by"] == worker]

    async def close_for(self, worker: WorkerId) -> Sequence[str]:
        """Ends the ledger: the worker claims nothing from now on. Returns the jobs that it may hold."""
        item = await self._table.get(ledger_key(worker))
        if item is not None and "gone" not in item:
            try:
                item = await self._table.update(Update(ledger_key(worker), {"gone": True}, EXISTS))
            except ConditionFailed:
                return ()  # deleted before
        return item["jobs"] if item else ()

    async def delete(self, worker: WorkerId) -> None:
        await self._table.delete(Delete(ledger_key(worker)))


ALIVE = "attribute_exists(#PK) AND attribute_not_exists(#gone)"


def lost(worker: WorkerId) -> RegistrationLost:
    return RegistrationLost(
        f"worker {worker} was evicted: its lease ran out. Nothing was claimed.",
        fix="Stop what it runs, and join again.",
    )
