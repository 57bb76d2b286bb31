"""Results of jobs: those that were too large for the job's own item, and waiting for them."""

import asyncio
from collections.abc import Sequence
from time import monotonic

from leasehold.engines.dynamodb.items import ENDED_WORDS
from leasehold.engines.dynamodb.keys import Key
from leasehold.engines.dynamodb.table import Table
from leasehold.engines.dynamodb.wire import Item

FIRST_PAUSE, LONGEST_PAUSE = 0.02, 1.0


async def with_results(table: Table, found: Sequence[Item]) -> list[Item]:
    """Adds results that are kept with the last attempt."""
    apart = {(item["PK"], item["last_attempt"]) for item in found if "last_attempt" in item}
    if not apart:
        return list(found)
    attempts = await table.get_many(apart)
    return [_with_result(item, attempts) for item in found]


def _with_result(item: Item, attempts: dict[Key, Item]) -> Item:
    attempt = attempts.get((item["PK"], item.get("last_attempt", "")))
    return {**item, "result": attempt["result"]} if attempt and "result" in attempt else item


async def wait_until_final(table: Table, key: Key, seconds: float) -> Item | None:
    """Returns the job once it is final; None when the time is over, or the job does not exist.

    DynamoDB sends no wakes, so this looks again, ever less often, down to once a second.
    """
    until, pause = monotonic() + seconds, FIRST_PAUSE
    while True:
        item = await table.get(key, only=("status",))
        if item is None or item["status"] in ENDED_WORDS:
            return await table.get(key)
        left = until - monotonic()
        if left <= 0:
            return None
        await asyncio.sleep(min(pause, left))
        pause = min(1.5 * pause, LONGEST_PAUSE)
