"""Deletes ended jobs whose retention is over, with their attempts, log lines and keys."""

from collections.abc import Sequence
from datetime import datetime

from leasehold.engines.dynamodb import items, keys
from leasehold.engines.dynamodb.enqueue_plan import ACTIVE
from leasehold.engines.dynamodb.errors import ConditionFailed
from leasehold.engines.dynamodb.keys import JOB
from leasehold.engines.dynamodb.table import PRUNE, Delete, Table, gather
from leasehold.engines.dynamodb.usage import DynamoUsage
from leasehold.engines.dynamodb.wire import Item

AT_ONCE = 100


class Pruning:
    def __init__(self, table: Table, usage: DynamoUsage) -> None:
        self._table = table
        self._usage = usage

    async def prune(self, limit: int, now: datetime) -> int:
        """Deletes up to `limit` jobs. Expired keys of windows are left to the TTL of the table: no read sees them."""
        pruned = 0
        for shard in range(self._table.shards):
            while pruned < limit:
                found = await self._settled(await self._over(shard, now, min(AT_ONCE, limit - pruned)))
                gone = sum(await gather(self._prune_one(pk, now) for pk in found))
                pruned += gone
                if not gone:
                    break
        return pruned

    async def _over(self, shard: int, now: datetime, limit: int) -> Sequence[str]:
        page = await self._table.page(
            "#prune_pk = :pk AND #prune_sk <= :now",
            {"pk": keys.prune_pk(shard), "now": f"{keys.timestamp(now)}~"},
            index=PRUNE,
            limit=limit,
        )
        return [item["PK"] for item in page.items]

    async def _settled(self, found: Sequence[str]) -> Sequence[str]:
        """Leaves out jobs whose attempts are not added up. Those of workers elsewhere are pruned another time."""
        if found and (unsettled := await self._usage.unsettled()).intersection(found):
            await self._usage.add_up_gone()
            unsettled = await self._usage.unsettled()
            return [pk for pk in found if pk not in unsettled]
        return found

    async def _prune_one(self, pk: str, now: datetime) -> bool:
        """Deletes what belongs to the job, and then the job: a crash between leaves a job that is pruned later."""
        job = await self._table.get((pk, JOB))
        if job is None or not items.status_of(job).final or job.get("prune_sk", "~") > f"{keys.timestamp(now)}~":
            return False
        listed = self._table.query("#PK = :pk", {"pk": pk})
        await self._table.delete_many([(pk, item["SK"]) async for item in listed if item["SK"] != JOB])
        condition = f"{items.ENDED} AND #prune_sk = :seen"
        try:
            await self._table.delete(Delete((pk, JOB), condition, {**items.WORDS, "seen": job["prune_sk"]}))
        except ConditionFailed:
            return False
        await self._release_key(job)
        return True

    async def _release_key(self, job: Item) -> None:
        if job.get("hold_sk") != ACTIVE:
            return
        _, mine = keys.read_job_pk(job["PK"])
        try:
            await self._table.delete(Delete((job["hold_pk"], ACTIVE), "#job_id = :mine", {"mine": mine}))
        except ConditionFailed:
            return  # another job holds it
