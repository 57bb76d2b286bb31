"""Limits of running jobs while workers of several processes claim at once."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from tests.store.bench import Bench
from tests.tenant_kit import ACME

from leasehold.engines.dynamodb.client import Answer, Send
from leasehold.engines.dynamodb.test_kit import DynamoTestKit
from leasehold.model.limits import Limits, Scope, ScopeKind

TENANT = Scope(ScopeKind.TENANT, ACME)


async def lose_a_race(kit: DynamoTestKit, bench: Bench, win: Callable[[], Awaitable[Any]]) -> Any:
    """Lets a worker choose a job that another claims before it is counted. Returns what the other got."""
    won: list[Any] = []

    async def first(send: Send, operation: str, parameters: Mapping[str, Any]) -> Answer:
        counts = operation == "UpdateItem" and parameters["Key"]["PK"]["S"].startswith("running#")
        if counts and not won:
            won.append(await win())
        return await send(operation, parameters)

    slow = await kit.open_with(first)
    assert not (await slow.claim(await bench.join(store=slow), 1)).claims
    await slow.close()
    (got,) = won
    return got


async def test_a_lost_race_makes_no_room_beside_the_winner(kit: DynamoTestKit, bench: Bench) -> None:
    """Both have counted the job. The loser must not take it out again while the winner runs it."""
    await bench.store.limit(TENANT, Limits(max_running=1))
    await bench.enqueue_many(2)
    claim = await lose_a_race(kit, bench, bench.claim_one)
    assert await bench.claim(10) == []
    await bench.succeed(claim)
    assert len(await bench.claim(10)) == 1


async def test_a_lost_race_for_a_job_that_ended_leaves_room(kit: DynamoTestKit, bench: Bench) -> None:
    await bench.store.limit(TENANT, Limits(max_running=1))
    await bench.enqueue_many(2)

    async def run_one() -> None:
        await bench.succeed(await bench.claim_one())

    await lose_a_race(kit, bench, run_one)
    assert len(await bench.claim(10)) == 1
