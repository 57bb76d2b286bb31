"""The plans of tests/postgres/test_plans.py once more, with millions of rows and twenty thousand lanes."""

import asyncio
import sys

import pytest
from tests.database_server import DatabaseServer
from tests.postgres.plan_cases import EVERY
from tests.postgres.plan_database import SMALL, Size, connected, load, no_autovacuum, run_more
from tests.postgres.plans import Case, Plan, Plans, plans_of

pytestmark = pytest.mark.faults

SHAPES = {
    "small": SMALL,
    "1M queued": Size(queued=1_000_000),
    "1M future": Size(future=1_000_000),
    "1M ended": Size(ended=1_000_000),
    "20k lanes": Size(lanes=20_000, per_lane=10),
}
ALL_OF_IT = Size(queued=1_000_000, future=1_000_000, due=10_000, ended=1_000_000, lanes=20_000, per_lane=10)
CROWDED = 20_000

# Ten thousand times as much: an index that was one page is three levels high, and each probe goes down all of them.
FACTOR, SLACK = 3, 200
# Statements about all running jobs read all of them; other statements must not become slower.
ASKS_ABOUT_ALL_THAT_RUNS = (
    "fleet/evict",
    "fleet/held",
    "fleet/lane_workers",  # up to 10,000 of each definition, for an explanation
    "fleet/renew",
    "tenant/find",
    "administration/find_all_tenants",
    "administration/tenants_that_run",
    "doctor/workers",
)
# So does a search for jobs by the worker that runs them; other searches do not.
BY_WORKER = "look for the jobs of a worker"


def _asks_about_all_that_runs(case: Case) -> bool:
    return case.statement in ASKS_ABOUT_ALL_THAT_RUNS or case.name.startswith(BY_WORKER)


@pytest.fixture(scope="module")
def measured(database_server: DatabaseServer) -> dict[str, Plans]:
    """Each shape by itself, then all of it together, then with twenty thousand running; and prints the table."""
    plans = {shape: asyncio.run(_measure(database_server, size)) for shape, size in SHAPES.items()}
    plans["all"], plans["all, 20k running"] = asyncio.run(_measure_crowding(database_server))
    _print_table(plans)
    return plans


@pytest.mark.parametrize("case", EVERY, ids=str)
@pytest.mark.parametrize("shape", [*list(SHAPES)[1:], "all"])
def test_the_buffers_of_a_statement_do_not_grow(case: Case, shape: str, measured: dict[str, Plans]) -> None:
    _require_no_growth(case, measured["small"], measured[shape])


@pytest.mark.parametrize("case", [c for c in EVERY if not _asks_about_all_that_runs(c)], ids=str)
def test_it_does_not_grow_with_what_runs(case: Case, measured: dict[str, Plans]) -> None:
    _require_no_growth(case, measured["small"], measured["all, 20k running"])


def _require_no_growth(case: Case, small: Plans, large: Plans) -> None:
    measure, plan = small[case.name], large[case.name]
    assert isinstance(measure, Plan)
    assert isinstance(plan, Plan), f"{case.name} took too long: {plan}"
    assert plan.buffers <= FACTOR * measure.buffers + SLACK, plan


async def _measure(server: DatabaseServer, size: Size) -> Plans:
    name = await server.clone()
    try:
        await _load(server, name, size)
        return await plans_of(server.url_for(name), EVERY)
    finally:
        await server.drop(name)


async def _measure_crowding(server: DatabaseServer) -> tuple[Plans, Plans]:
    name = await server.clone()
    url = server.url_for(name)
    try:
        await _load(server, name, ALL_OF_IT)
        before = await plans_of(url, EVERY)
        async with connected(url) as connection:
            await run_more(connection, ALL_OF_IT, CROWDED)
            await connection.execute("vacuum analyze")
        return before, await plans_of(url, EVERY)
    finally:
        await server.drop(name)


async def _load(server: DatabaseServer, name: str, size: Size) -> None:
    async with connected(server.url_for(name)) as connection:
        await no_autovacuum(connection)
        await load(connection, size)
        await connection.execute("vacuum analyze")
        if size == SMALL:
            # The measure is what each touches by its indexes.
            await connection.execute(f'alter database "{name}" set enable_seqscan = off')


def _print_table(plans: dict[str, Plans]) -> None:
    lines = ["", "buffers".ljust(36) + "".join(shape.rjust(18) for shape in plans)]
    for case in EVERY:
        found = (shape[case.name] for shape in plans.values())
        cells = (str(plan.buffers) if isinstance(plan, Plan) else "too long" for plan in found)
        lines.append(case.name.ljust(36) + "".join(cell.rjust(18) for cell in cells))
    sys.stdout.write("\n".join(lines) + "\n")
