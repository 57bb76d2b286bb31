"""Definitions that many processes sync at once, as a fleet does when it starts."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from tests.conftest import Raw
from tests.postgres.race_tools import at_once
from tests.store.bench import REPORT

from leasehold.store import Store


async def test_syncs_follow_each_other_under_any_isolation(
    open_stores: Callable[[int], Awaitable[list[Store]]], observer: Raw
) -> None:
    """The lock must come before the snapshot: otherwise a sync that waited does not see what was added meanwhile."""
    name = await observer.fetchval("select current_database()")
    await observer.execute(f"alter database \"{name}\" set default_transaction_isolation = 'repeatable read'")
    stores = await open_stores(8)
    for version in range(1, 4):
        sync = replace(REPORT, max_attempts=version)
        changes = await at_once(*(partial(store.sync_definitions, [sync]) for store in stores))
        assert {change.version for (change,) in changes} == {version}
