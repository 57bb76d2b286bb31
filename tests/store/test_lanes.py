"""The state of a lane whose jobs are due and do not run."""

from datetime import UTC, datetime, timedelta

from tests.store.bench import LEASE, Bench
from tests.tenant_kit import ACME, HOUR, OTHER

from leasehold.model.explain import waiting_reasons
from leasehold.model.facts import LaneState
from leasehold.model.limits import Limits, Pause, Scope, ScopeKind

TENANT = Scope(ScopeKind.TENANT, ACME)
DEFINITION = Scope(ScopeKind.DEFINITION, "email")


async def lane(bench: Bench, definition: str = "email") -> LaneState:
    (state,) = await bench.store.lanes([(definition, ACME)])
    return state


async def reasons(bench: Bench) -> list[str]:
    return waiting_reasons(await lane(bench))


async def test_a_lane_that_a_worker_serves_is_held_by_nothing(bench: Bench) -> None:
    await bench.worker()
    assert await reasons(bench) == []


async def test_a_lane_that_is_served_for_other_tenants_says_so(bench: Bench) -> None:
    await bench.join("report")
    await bench.join("email", tenants=(OTHER,))
    assert (await lane(bench)).workers == 0
    assert await reasons(bench) == ["no live worker serves it for this tenant"]


async def test_a_definition_that_no_worker_serves_says_so(bench: Bench) -> None:
    await bench.join("report")
    assert await reasons(bench) == ["no live worker serves it"]


async def test_a_worker_whose_lease_is_over_does_not_count(bench: Bench) -> None:
    await bench.join("email", lease=LEASE)
    await bench.move_clock(2 * LEASE)
    assert (await lane(bench)).workers == 0


async def test_an_inactive_definition_is_a_reason(bench: Bench) -> None:
    await bench.worker()
    await bench.store.activate("email", False)
    assert await reasons(bench) == ["its definition is inactive"]


async def test_a_pause_is_a_reason_with_its_own_words(bench: Bench) -> None:
    await bench.worker()
    await bench.store.pause(TENANT, Pause("unpaid"))
    until = datetime.now(UTC) + timedelta(days=1)
    await bench.store.pause(DEFINITION, Pause("outage", until))
    assert await reasons(bench) == [
        f"its definition is paused until {until:%Y-%m-%d %H:%M:%S} UTC: outage",
        "its tenant is paused: unpaid",
    ]


async def test_a_pause_is_shown_with_the_time_of_its_begin(bench: Bench) -> None:
    before = await bench.store.now()
    await bench.store.pause(TENANT, Pause("unpaid"))
    await bench.store.pause(DEFINITION, Pause("outage"))
    after = await bench.store.now()
    await bench.move_clock(HOUR)
    shown = [scope.paused_since for scope in (await lane(bench)).scopes]
    assert [since is not None and before <= since <= after for since in shown] == [True, True]


async def test_a_pause_that_is_over_is_not_a_reason(bench: Bench) -> None:
    await bench.worker()
    await bench.store.pause(TENANT, Pause("unpaid", datetime.now(UTC) + HOUR))
    await bench.move_clock(2 * HOUR)
    assert await reasons(bench) == []


async def test_a_cap_is_a_reason_once_it_is_reached(bench: Bench) -> None:
    await bench.store.limit(TENANT, Limits(max_running=2))
    await bench.store.limit(DEFINITION, Limits(max_running=1))
    await bench.worker()
    assert await reasons(bench) == []
    await bench.running("email")
    assert await reasons(bench) == ["its definition runs 1 job, which is its limit"]
    await bench.running("report")
    assert await reasons(bench) == [
        "its definition runs 1 job, which is its limit",
        "its tenant runs 2 jobs, which is its limit",
    ]


async def test_lanes_are_answered_in_the_order_asked(bench: Bench) -> None:
    await bench.store.activate("report", False)
    states = await bench.store.lanes([("report", ACME), ("email", ACME), ("unknown", OTHER)])
    assert [state.active for state in states] == [False, True, False]
    assert await bench.store.lanes([]) == []
