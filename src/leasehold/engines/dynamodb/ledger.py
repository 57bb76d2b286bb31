"""The jobs that each worker may have claimed, written before it claims them, and what its ended attempts have used.

An index by worker would lag behind, and the claims of a worker must be known for certain: to the worker after an
answer was lost, and to the others when it is gone. So a worker writes the keys of the jobs that it is about to claim
into one item of its own. The jobs themselves tell which of them it really holds.

An entry leaves a ledger by a write that adds its attempt to the usage in the same item, and usage leaves it by a
transaction that adds it to the hours. So each attempt counts once, whatever process ends in between.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from leasehold.engines.dynamodb import hours, tally
from leasehold.engines.dynamodb.errors import ConditionFailed
from leasehold.engines.dynamodb.items import RUNNING
from leasehold.engines.dynamodb.keys import CLAIMS, FLEET, JOB, Key
from leasehold.engines.dynamodb.table import EXISTS, Delete, Put, Table, Update
from leasehold.engines.dynamodb.tally import Ended, Figures, Hour
from leasehold.engines.dynamodb.wire import Item
from leasehold.errors import RegistrationLost, TransactionConflict
from leasehold.model.job import WorkerId

# An item holds 400 KB. An entry takes up to 460 bytes, and an hour of usage, for which it is exchanged, up to 900.
MOST_CLAIMS = 700
MOST_NAMES = 10_000
# Bytes up to which a ledger carries usage from claim to claim. Claims that move usage write items that others write.
LARGEST = 200_000
# Entries that one write exchanges for usage: so many fit beside the others, and a claim of 100 needs one write.
ENDS_AT_ONCE = 200
# A worker over HTTP may claim through several servers, each of which then reads the ledger again.
TRIES = 20

Entry = tuple[str, int]
"""The PK of a job, and the number of the batch in which the worker claims it."""


def ledger_key(worker: WorkerId) -> Key:
    return f"worker#{worker}", CLAIMS


@dataclass(frozen=True, slots=True)
class Ledger:
    """A ledger as its item is. `edition` counts its changes, and `moves` those that moved usage to the hours."""

    entries: frozenset[Entry] = frozenset()
    usage: Mapping[Hour, Figures] = field(default_factory=dict)
    edition: int = 0
    moves: int = 0

    def attributes(self) -> dict[str, Any]:
        entries = sorted(self.entries)
        return {
            "jobs": [pk for pk, _ in entries],
            "batches": [batch for _, batch in entries],
            "usage": tally.to_lists(self.usage),
            "edition": self.edition,
            "moves": self.moves,
        }

    def after(self, over: Mapping[Entry, Ended | None], begun: Iterable[Entry] = ()) -> "Ledger":
        """Returns the ledger without the entries that are over, with their usage, and with those that begin."""
        ends = [each for entry, each in over.items() if entry in self.entries and each is not None]
        return Ledger(
            (self.entries - over.keys()) | frozenset(begun),
            tally.add([*self.usage.items(), *ends]),
            self.edition + 1,
            self.moves,
        )

    def without(self, moved: Collection[Hour]) -> "Ledger":
        kept = {hour: figures for hour, figures in self.usage.items() if hour not in moved}
        return Ledger(self.entries, kept, self.edition, self.moves + 1)

    def step(self, over: Mapping[Entry, Ended | None], begun: Collection[Entry], largest: int) -> "Step":
        """Returns the next write of a ledger that is to lose these entries, and usage while it is above a size."""
        left = dict(islice(over.items(), ENDS_AT_ONCE))
        after, moved = self.after(left, begun), dict[Hour, Figures]()
        if after.usage and after.size > largest:
            moved = dict(islice(after.usage.items(), hours.MOST_AT_ONCE))
            after = after.without(moved)
        is_last = len(left) == len(over) and (not after.usage or after.size <= largest)
        return Step(after, left, moved, is_last)

    @property
    def size(self) -> int:
        """Bytes that the item takes at most."""
        return sum(len(pk.encode()) + 12 for pk, _ in self.entries) + sum(map(tally.size_of, self.usage))


@dataclass(frozen=True, slots=True)
class Step:
    """A write of a ledger.

    ledger   the ledger as it is then
    over     entries that leave it
    moved    usage that goes to the hours
    """

    ledger: Ledger
    over: Mapping[Entry, Ended | None]
    moved: Mapping[Hour, Figures]
    is_last: bool


def read_ledger(item: Item) -> Ledger:
    entries = frozenset(zip(item["jobs"], item["batches"], strict=True))
    return Ledger(entries, tally.from_lists(item["usage"]), item["edition"], item["moves"])


def new_ledger(worker: WorkerId) -> Put:
    pk, sk = ledger_key(worker)
    return Put({"PK": pk, "SK": sk, **Ledger().attributes()})


@dataclass(slots=True)
class _Known:
    """The ledger of a worker of this process as it was last written; None: it has to be read.

    over       entries that are to leave it, with what they have used; None: they were never claimed
    claiming   entries whose claims are under way
    """

    ledger: Ledger | None = None
    over: dict[Entry, Ended | None] = field(default_factory=dict)
    claiming: set[Entry] = field(default_factory=set)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def jobs(self) -> set[str]:
        entries = frozenset() if self.ledger is None else self.ledger.entries
        return {pk for pk, _ in (entries - self.over.keys()) | self.claiming}


class Ledgers:
    """The ledgers of this process's workers, and those of others by reading."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._known: dict[WorkerId, _Known] = {}
        self.names: dict[WorkerId, tuple[str, int]] = {}
        """Hosts and process numbers of the workers whose claims were read here."""

    def begin(self, worker: WorkerId) -> None:
        """Notes a worker that joined here: all of its claims pass through this store."""
        self._known[worker] = _Known(Ledger())

    def note_name(self, worker: WorkerId, host: str, pid: int) -> None:
        """Notes the name of a worker, for the records of its attempts."""
        if len(self.names) >= MOST_NAMES:
            self.names.clear()
        self.names[worker] = host, pid

    def forget(self, worker: WorkerId) -> None:
        self._known.pop(worker, None)

    def known(self) -> list[WorkerId]:
        """Returns the workers that claim through this store."""
        return list(self._known)

    async def reserve(self, worker: WorkerId, entries: Collection[Entry]) -> None:
        """Writes down that the worker is about to claim these jobs. Raises RegistrationLost if it is gone."""
        known = self._known.setdefault(worker, _Known())
        async with known.turn:
            known.claiming |= set(entries)
            while not await self._write(worker, known, entries, LARGEST):
                continue

    async def room(self, worker: WorkerId) -> int:
        """Returns how many jobs the worker may claim more. From now on this store adds up its usage, too. Raises
        RegistrationLost if the worker is gone and its ledger has to be read.
        """
        known = self._known.setdefault(worker, _Known())
        async with known.turn:
            if known.ledger is None:
                known.ledger = self._living(worker, await self._table.get(ledger_key(worker)))
            return MOST_CLAIMS - len(known.jobs)

    def note_claimed(self, worker: WorkerId, entries: Collection[Entry]) -> None:
        """Notes that the claims of these jobs are over, whatever came of them."""
        if known := self._known.get(worker):
            known.claiming -= set(entries)

    def note_over(self, worker: WorkerId, over: Mapping[Entry, Ended | None]) -> None:
        """Notes that these attempts have ended; None: another was faster, so the worker surely never had the job."""
        if known := self._known.get(worker):
            known.over.update(over)

    async def move(self, worker: WorkerId) -> None:
        """Moves all usage of a worker of this process to the hours, if there is any."""
        known = self._known.get(worker)
        if known is None or (known.ledger is not None and not known.over and not known.ledger.usage):
            return
        is_last = False
        while not is_last:
            async with known.turn:  # claims have theirs between two writes
                is_last = await self._write(worker, known, (), 0)

    async def open_entries(self, worker: WorkerId) -> frozenset[Entry]:
        """Returns the entries of a worker of this process that are not known to be over. Reads the ledger for them,
        since another process may have written it. Raises RegistrationLost if it is gone.
        """
        known = self._known.get(worker)
        if known is None or (known.ledger is not None and not known.jobs):
            return frozenset()
        async with known.turn:
            known.ledger = self._living(worker, await self._table.get(ledger_key(worker)))
            return known.ledger.entries - known.over.keys() - known.claiming

    async def _write(self, worker: WorkerId, known: _Known, begun: Collection[Entry], largest: int) -> bool:
        """Writes the ledger with entries that begin, and without those that are over. Returns whether that was the
        last step.
        """
        for _ in range(TRIES):
            before, over = known.ledger, dict(known.over)
            known.ledger = None  # until the answer comes, it is not known which of the two is written
            if before is None:
                before = self._living(worker, await self._table.get(ledger_key(worker)))
            step = before.step(over, begun, largest)
            change = Update(ledger_key(worker), step.ledger.attributes(), IS_SEEN, {"seen": before.edition})
            try:
                await self._table.transact([change, *await hours.additions(self._table, step.moved)])
            except ConditionFailed as failed:
                known.ledger = self._living(worker, failed.item)
                continue
            known.ledger = step.ledger
            for entry in step.over:
                known.over.pop(entry, None)
            return step.is_last
        raise TransactionConflict(
            f"other processes changed the ledger of worker {worker} all the time. The last try changed nothing.",
            fix="Let each worker use one URL only.",
        )

    def _living(self, worker: WorkerId, item: Item | None) -> Ledger:
        if item is None or "gone" in item:
            self.forget(worker)
            raise lost(worker)
        return read_ledger(item)

    # ------------------------------------------------------------------------------------------- ledgers in the table

    async def read(self, worker: WorkerId) -> Sequence[str]:
        """Returns the jobs that the worker may hold, as it wrote them down."""
        item = await self._table.get(ledger_key(worker))
        return item["jobs"] if item else ()

    async def read_all(self) -> dict[WorkerId, Ledger]:
        """Returns the ledgers of all workers, also of those that are gone."""
        listed = self._table.query("#PK = :pk", {"pk": FLEET})
        workers = [WorkerId(item["SK"].removeprefix("worker#")) async for item in listed]
        found = await self._table.get_many(ledger_key(worker) for worker in workers)
        return {worker: read_ledger(found[key]) for worker in workers if (key := ledger_key(worker)) in found}

    async def maybe_held(self, worker: WorkerId) -> set[str]:
        """Returns the jobs that the worker may hold: from memory, if all its claims pass through this store."""
        known = self._known.get(worker)
        if known is not None and known.ledger is not None:
            return known.jobs
        return set(await self.read(worker))

    async def held(self, worker: WorkerId, jobs: Iterable[str], *, only: Sequence[str] = ()) -> list[Item]:
        """Returns those of these jobs that the worker holds; with `only`, no more of each than these attributes."""
        found = await self._table.get_many(((pk, JOB) for pk in sorted(jobs)), only=only)
        return [item for item in found.values() if item["status"] == RUNNING and item["locked_by"] == worker]

    async def close_for(self, worker: WorkerId) -> Ledger | None:
        """Ends the ledger: the worker claims nothing from now on. Returns it; None if it was deleted before."""
        item = await self._table.get(ledger_key(worker))
        if item is not None and "gone" not in item:
            try:
                item = await self._table.update(Update(ledger_key(worker), {"gone": True}, EXISTS))
            except ConditionFailed:
                return None
        return read_ledger(item) if item else None

    async def delete(self, worker: WorkerId, seen: Ledger, over: Mapping[Entry, Ended | None]) -> bool:
        """Moves all usage of a closed ledger, with that of its last entries, and deletes it. Returns whether it is
        gone: another process may do the same at once, and then goes on with it.
        """
        key, step = ledger_key(worker), seen.step(over, (), 0)
        is_seen = {"seen": seen.edition}
        change = Delete(key, SEEN, is_seen) if step.is_last else Update(key, step.ledger.attributes(), SEEN, is_seen)
        try:
            await self._table.transact([change, *await hours.additions(self._table, step.moved)])
        except ConditionFailed as failed:
            return failed.item is None
        if step.is_last:
            return True
        left = {entry: ended for entry, ended in over.items() if entry not in step.over}
        return await self.delete(worker, step.ledger, left)


ALIVE = "attribute_exists(#PK) AND attribute_not_exists(#gone)"
SEEN = "#edition = :seen"
IS_SEEN = f"{ALIVE} AND {SEEN}"


def lost(worker: WorkerId) -> RegistrationLost:
    return RegistrationLost(
        f"worker {worker} was evicted: its lease ran out. Nothing was claimed.",
        fix="Stop what it runs, and join again.",
    )
