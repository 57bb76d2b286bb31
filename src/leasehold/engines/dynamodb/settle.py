"""Settles ledgers: finds out what became of their entries, from the jobs themselves."""

import logging
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from leasehold.engines.dynamodb import items, tally
from leasehold.engines.dynamodb.errors import ConditionFailed
from leasehold.engines.dynamodb.keys import JOB, read_job_pk, read_timestamp
from leasehold.engines.dynamodb.ledger import MOST_CLAIMS, Entry, Ledgers
from leasehold.engines.dynamodb.table import EXISTS, Table, Update, gather
from leasehold.engines.dynamodb.tally import Ended
from leasehold.engines.dynamodb.wire import Item
from leasehold.errors import LeaseholdError, RegistrationLost
from leasehold.model.job import WorkerId

log = logging.getLogger("leasehold.worker")

OF_ATTEMPTS = (
    *items.OF_FENCE,
    *("job_type", "worker_id", "started_at", "completed_at", "attempt_status", "details", "last_attempt"),
)


@dataclass(slots=True)
class Look:
    """The ends of a worker's entries, as their jobs tell them.

    held      jobs that it holds
    ended     attempts that have ended, with what they have used
    free      jobs that it has not claimed; they may be gone
    missing   entries whose jobs are gone, or are being pruned
    """

    held: list[str] = field(default_factory=list)
    ended: dict[Entry, Ended] = field(default_factory=dict)
    free: list[Entry] = field(default_factory=list)
    missing: list[Entry] = field(default_factory=list)


async def look(table: Table, worker: WorkerId, entries: Collection[Entry]) -> Look:
    """Looks at the jobs of a worker's entries, as they are now."""
    jobs = await table.get_many(((pk, JOB) for pk, _ in sorted(entries)), only=OF_ATTEMPTS)
    found = Look()
    moved_on: list[Entry] = []
    for entry in sorted(entries):
        pk, batch = entry
        job = jobs.get((pk, JOB))
        if job is None:
            found.missing.append(entry)
        elif (job.get("worker_id"), job.get("claim_batch")) == (worker, batch) and _tells(job):
            if job["status"] == items.RUNNING:
                found.held.append(pk)
            else:
                found.ended[entry] = _ended(job)
        elif job["attempts"]:
            moved_on.append(entry)
        else:
            found.free.append(entry)
    attempts = await gather(_attempts(table, pk) for pk, _ in moved_on)
    for entry, told in zip(moved_on, attempts, strict=True):
        job = jobs[entry[0], JOB]
        mine = [each for each in told if (each.get("worker_id"), each.get("claim_batch")) == (worker, entry[1])]
        if mine:
            found.ended[entry] = _ended(mine[0])
        elif len(told) < job["attempts"] - _tells(job):  # some were deleted since the job was read
            found.missing.append(entry)
        else:
            found.free.append(entry)
    found.free += found.missing
    return found


def _tells(job: Item) -> bool:
    """Returns whether the job tells of its last attempt itself, as a whole."""
    return job["status"] == items.RUNNING or ("attempt_status" in job and "last_attempt" not in job)


async def _attempts(table: Table, pk: str) -> list[Item]:
    """Returns the attempts that have items of their own: all but one of which the job tells itself."""
    values = {"pk": pk, "from": "attempt#", "until": "attempt#~"}
    return [item async for item in table.query("#PK = :pk AND #SK BETWEEN :from AND :until", values)]


def _ended(attempt: Item) -> Ended:
    """Reads what an attempt used, from its own item or from its job."""
    tenant, _ = read_job_pk(attempt["PK"])
    finished: Any = attempt["finished_at"] if "finished_at" in attempt else attempt["completed_at"]
    started = read_timestamp(attempt["started_at"])
    return tally.ended(tenant, attempt["job_type"], started, read_timestamp(finished), attempt.get("details"))


class Settling:
    def __init__(self, table: Table, ledgers: Ledgers) -> None:
        self._table = table
        self._ledgers = ledgers

    async def room(self, worker: WorkerId) -> int:
        """Returns how many jobs the worker may claim more. Looks which it still holds when these seem to be many."""
        if (room := await self._ledgers.room(worker)) >= MOST_CLAIMS / 2:
            return room
        await self.settle(worker)
        return await self._ledgers.room(worker)

    async def settle(self, worker: WorkerId) -> None:
        """Notes the ends of a worker of this process that it does not know of: answers were lost, or another process
        finished its attempts. Raises RegistrationLost if the worker is gone.
        """
        found = await look(self._table, worker, await self._ledgers.open_entries(worker))
        found = await self._bar_free(worker, found)
        self._ledgers.note_over(worker, {**found.ended, **dict.fromkeys(found.free)})

    async def add_up(self) -> None:
        """Moves the usage of this process's workers to the hours. One that fails does not stop the others."""
        for worker in self._ledgers.known():
            try:
                await self.settle(worker)
                await self._ledgers.move(worker)
            except RegistrationLost:
                continue
            except LeaseholdError as error:
                log.warning("the usage of worker %s is added up later: %s", worker, error)

    async def close(self, worker: WorkerId) -> bool:
        """Ends the ledger of a worker that is gone. Returns whether it is deleted, which is done once the worker
        holds no job.
        """
        if (ledger := await self._ledgers.close_for(worker)) is None:
            return True
        found = await look(self._table, worker, ledger.entries)
        if found.held or (found := await self._bar_free(worker, found)).held:
            return False
        return await self._ledgers.delete(worker, ledger, {**found.ended, **dict.fromkeys(found.free)})

    async def _bar_free(self, worker: WorkerId, found: Look) -> Look:
        """Bars entries that were not claimed, and looks at these again: then it is certain."""
        if not found.free:
            return found
        await gather(self._bar(worker, entry) for entry in found.free)
        again = await look(self._table, worker, found.free)
        return Look(found.held + again.held, found.ended | again.ended, again.free, again.missing)

    async def _bar(self, worker: WorkerId, entry: Entry) -> None:
        """Keeps a claim that was sent before from being accepted later: its entry leaves the ledger. The job keeps
        the mark of its last write, by which another worker may still have to know its claim again.
        """
        values = {"barred": {bar(worker, entry[1])}}
        with suppress(ConditionFailed):
            change = Update((entry[0], JOB), {}, EXISTS, values, "ADD #barred :barred")
            await self._table.update(change, returns="NONE", marks=False)


def bar(worker: WorkerId, batch: int) -> str:
    """Returns how a job names a batch that can't claim it."""
    return f"{worker}#{batch}"
