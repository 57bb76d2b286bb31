"""Pins every statement's plan: its buffers do not grow with backlog, history, future jobs or lanes.

Two databases are compared, one a thousand times the other. Then two are filled under plans that were made when the
tables were empty, as the long-lived connections of a worker do after a quiet night.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from tests.database_server import DatabaseServer
from tests.postgres.plan_cases import EVERY, OF_EACH_TENANT, ON_LINKS, PLANNED_EACH_TIME, WITH_ONE_PLAN
from tests.postgres.plan_database import (
    GROWING,
    SMALL,
    Size,
    connected,
    copy,
    empty,
    fill,
    leave_few,
    load,
    no_autovacuum,
)
from tests.postgres.plans import Case, Plan, Plans, plans_of

if TYPE_CHECKING:
    from leasehold.engines.postgres.database import Connection

LARGE = Size(
    queued=100_000, future=100_000, due=5_000, ended=100_000, lanes=5_000, per_lane=20, schedules=10_000, decisions=20
)
# A database with one tenant: to the planner, a tenant's id then tells nothing.
ONE_TENANTS = Size(queued=50_000, ended=50_000, lanes=0)
# Enough to tell a walk from a probe.
REFILLED = Size(
    queued=100_000, future=5_000, due=5_000, ended=20_000, lanes=1_000, per_lane=2, schedules=10_000, decisions=10
)

# An index may have become a level or two higher, and rows that lay on one page may lie on several.
FACTOR, SLACK = 2, 200
# A batch of 100, or the lanes of 64 tenants for each of five definitions.
ROWS = 600
# Buffers for each tenant: a few indexes, each some pages deep.
PER_TENANT = 30
# One row of each tenant, then a page of 50 for 50 of them.
ROWS_OF_ALL = LARGE.tenants + 50 * 50


@dataclass(frozen=True)
class Measured:
    plans: Plans

    def __getitem__(self, case: Case) -> Plan:
        plan = self.plans[case.name]
        if not isinstance(plan, Plan):
            pytest.fail(f"{case.name} took too long: {plan}")
        return plan


@pytest.fixture(scope="module")
def small(database_server: DatabaseServer) -> Iterator[Measured]:
    """The measure: the buffers of each statement by its indexes, on nearly empty tables."""

    async def measure(name: str) -> Plans:
        url = database_server.url_for(name)
        async with connected(url) as connection:
            await _load(connection, SMALL)
            await connection.execute(f'alter database "{name}" set enable_seqscan = off')
        return await plans_of(url, EVERY)

    yield from _measured(database_server, measure)


@pytest.fixture(scope="module")
def loaded(database_server: DatabaseServer) -> Iterator[str]:
    """A large database that was analysed; its name."""

    async def make() -> str:
        name = await database_server.clone()
        async with connected(database_server.url_for(name)) as connection:
            await _load(connection, LARGE)
        return name

    name = asyncio.run(make())
    yield name
    asyncio.run(database_server.drop(name))


@pytest.fixture(scope="module")
def large(database_server: DatabaseServer, loaded: str) -> Measured:
    return Measured(asyncio.run(plans_of(database_server.url_for(loaded), (*EVERY, *OF_EACH_TENANT))))


@pytest.fixture(scope="module")
def of_one_tenant(database_server: DatabaseServer) -> Iterator[Measured]:
    async def measure(name: str) -> Plans:
        url = database_server.url_for(name)
        async with connected(url) as connection:
            await _load(connection, ONE_TENANTS)
        return await plans_of(url, PLANNED_EACH_TIME)

    yield from _measured(database_server, measure)


@pytest.fixture(scope="module")
def planned_when_empty(database_server: DatabaseServer) -> Iterator[Measured]:
    """Analysed and planned when there was nothing, filled since."""

    async def measure(name: str) -> Plans:
        url = database_server.url_for(name)
        async with connected(url) as connection:
            await no_autovacuum(connection)
            await connection.execute("analyze")
            return await plans_of(url, WITH_ONE_PLAN, fill=lambda: load(connection, REFILLED))

    yield from _measured(database_server, measure)


@pytest.fixture(scope="module")
def emptying(database_server: DatabaseServer, loaded: str) -> Iterator[tuple[Measured, Measured]]:
    """Analysed when full. Planned when few were left; then when none were, and filled again since."""

    async def measure(name: str) -> tuple[Plans, Plans]:
        url = database_server.url_for(name)
        async with connected(url) as connection:
            await leave_few(connection)
            with_few = await plans_of(url, ON_LINKS)
            await empty(connection)
            with_none = await plans_of(url, WITH_ONE_PLAN, fill=lambda: fill(connection, REFILLED))
        return with_few, with_none

    name = asyncio.run(copy(database_server, loaded))
    with_few, with_none = asyncio.run(measure(name))
    yield Measured(with_few), Measured(with_none)
    asyncio.run(database_server.drop(name))


async def _load(connection: "Connection", size: Size) -> None:
    """Also lets the planner know of the rows, once."""
    await no_autovacuum(connection)
    await load(connection, size)
    await connection.execute("vacuum analyze")


def _measured(server: DatabaseServer, measure: Callable[[str], Coroutine[Any, Any, Plans]]) -> Iterator[Measured]:
    name = asyncio.run(server.clone())
    yield Measured(asyncio.run(measure(name)))
    asyncio.run(server.drop(name))


@pytest.mark.parametrize("case", EVERY, ids=str)
def test_the_buffers_of_a_statement_do_not_grow(case: Case, small: Measured, large: Measured) -> None:
    assert large[case].buffers <= _allowed(small[case]), large[case]


@pytest.mark.parametrize("case", PLANNED_EACH_TIME, ids=str)
def test_it_does_not_grow_for_one_tenant_either(case: Case, small: Measured, of_one_tenant: Measured) -> None:
    plan = of_one_tenant[case]
    assert plan.buffers <= FACTOR * small[case].buffers + SLACK, plan


@pytest.mark.parametrize("case", EVERY, ids=str)
def test_no_scan_reads_more_rows_than_a_batch_needs(case: Case, large: Measured) -> None:
    assert _most_rows(large[case]) <= ROWS, large[case]


@pytest.mark.parametrize("case", EVERY, ids=str)
def test_nothing_larger_than_a_batch_is_sorted(case: Case, large: Measured) -> None:
    assert _most_sorted(large[case]) <= ROWS, large[case]


@pytest.mark.parametrize("case", EVERY, ids=str)
def test_a_table_that_grows_is_reached_by_the_index_made_for_it(case: Case, large: Measured) -> None:
    assert _detours(case, large[case]) == {}, large[case]


@pytest.mark.parametrize(
    "case",
    [case for case in ON_LINKS if case.statement in ("fleet/claim_from_lanes", "fleet/claim_next_tenants")],
    ids=str,
)
def test_a_claim_finds_jobs_by_lane_and_takes_them_by_their_place(case: Case, large: Measured) -> None:
    assert {"jobs_ready", "Tid Scan"} <= large[case].ways_to("jobs"), large[case]


@pytest.mark.parametrize("case", WITH_ONE_PLAN, ids=str)
def test_a_plan_made_when_nothing_was_there_still_serves(
    case: Case, small: Measured, planned_when_empty: Measured
) -> None:
    _require_sane(case, planned_when_empty[case], small[case])


@pytest.mark.parametrize("case", ON_LINKS, ids=str)
def test_a_plan_made_when_few_were_left_is_no_other(
    case: Case, small: Measured, emptying: tuple[Measured, Measured]
) -> None:
    _require_sane(case, emptying[0][case], small[case])


@pytest.mark.parametrize("case", WITH_ONE_PLAN, ids=str)
def test_a_plan_made_when_everything_was_gone_still_serves(
    case: Case, small: Measured, emptying: tuple[Measured, Measured]
) -> None:
    _require_sane(case, emptying[1][case], small[case])


@pytest.mark.parametrize("case", OF_EACH_TENANT, ids=str)
def test_to_look_at_all_tenants_takes_probes_for_each(case: Case, large: Measured) -> None:
    assert _detours(case, large[case]) == {}, large[case]
    assert large[case].buffers <= PER_TENANT * LARGE.tenants, large[case]
    assert _most_rows(large[case]) <= ROWS_OF_ALL, large[case]
    assert _most_sorted(large[case]) <= ROWS_OF_ALL, large[case]


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("find dead letters everywhere", "jobs_done_unusual"),
        ("find by correlation everywhere", "jobs_done_correlation"),
    ],
)
def test_the_few_among_all_tenants_jobs_are_found_by_their_own_index(name: str, way: str, large: Measured) -> None:
    (case,) = (case for case in OF_EACH_TENANT if case.name.startswith(name))
    assert way in large[case].ways_to("jobs_done"), large[case]


def _require_sane(case: Case, plan: Plan, measure: Plan) -> None:
    assert _detours(case, plan) == {}, plan
    assert _most_rows(plan) <= ROWS, plan
    assert _most_sorted(plan) <= ROWS, plan
    assert plan.buffers <= _allowed(measure), plan


def _allowed(measure: Plan) -> int:
    return FACTOR * measure.buffers + SLACK


def _most_rows(plan: Plan) -> int:
    return max((scan.rows_read for scan in plan.scans), default=0)


def _most_sorted(plan: Plan) -> int:
    return max((node.rows_read for sort in plan.sorts for node in sort.children), default=0)


def _detours(case: Case, plan: Plan) -> dict[str, set[str]]:
    """Returns ways to tables that are not among those of the case."""
    ways = {table: plan.ways_to(table) - case.ways.get(table, set()) for table in GROWING}
    return {table: found for table, found in ways.items() if found}
