"""The activity of a queue in DynamoDB, from the due index. Ends are not indexed by time, so it tells none."""

from collections import Counter

from leasehold.engines.dynamodb import keys
from leasehold.engines.dynamodb.clock import Clock
from leasehold.engines.dynamodb.definitions import Definitions
from leasehold.engines.dynamodb.items import RUNNING
from leasehold.engines.dynamodb.table import DUE, Page, Table, gather
from leasehold.model.bounds import LONGEST
from leasehold.model.job import TenantId
from leasehold.store import Activity, LaneActivity

# A look costs two requests for each of these definitions and each shard.
MOST_DEFINITIONS = 25
MOST_ENTRIES = 100


async def look(table: Table, clock: Clock, definitions: Definitions) -> Activity:
    """Counts entries of the due index: those that are due wait, and a running job stands at the end of its lock."""
    now, names = await clock.now(), await definitions.names()
    due, beyond = keys.due_until(now), keys.due_until(now + LONGEST)
    partitions = [
        (definition, keys.due_pk(definition, shard, table.shards))
        for definition in names[:MOST_DEFINITIONS]
        for shard in range(table.shards)
    ]
    spans = [(keys.DUE_FROM, due), (due, beyond)]
    wanted = [(definition, pk, *span) for definition, pk in partitions for span in spans]
    pages = await gather(_page(table, pk, begin, end) for _, pk, begin, end in wanted)
    counts: dict[tuple[str, TenantId], Counter[str]] = {}
    for (definition, _, begin, _), page in zip(wanted, pages, strict=True):
        for item in page.items:
            runs, is_due = item["status"] == RUNNING, begin == keys.DUE_FROM
            if runs or is_due:  # others are scheduled
                lane = definition, keys.read_job_pk(item["PK"])[0]
                counts.setdefault(lane, Counter())["running" if runs else "ready"] += 1
    is_whole = len(names) <= MOST_DEFINITIONS and all(page.next is None for page in pages)
    lanes = [LaneActivity(*lane, counted) for lane, counted in counts.items()]
    return Activity(now, None, None, lanes, is_whole)


async def _page(table: Table, pk: str, begin: str, end: str) -> Page:
    return await table.page(
        "#due_pk = :pk AND #due_sk BETWEEN :from AND :until",
        {"pk": pk, "from": begin, "until": end},
        index=DUE,
        limit=MOST_ENTRIES,
    )
