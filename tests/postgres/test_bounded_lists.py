"""Lists of all tenants by filters that no index serves: each page looks at a bounded number of jobs."""

from uuid import UUID

import pytest
from tests.conftest import Clock
from tests.postgres_parts import engine_on
from tests.store.bench import Bench, all_jobs
from tests.tenant_kit import ACME, HOUR, OTHER

from leasehold.engines.postgres import all_tenants, looks
from leasehold.engines.postgres.all_tenants import Looked, first_share, shares_of
from leasehold.errors import InvalidInput
from leasehold.model.job import JobRecord, Source
from leasehold.model.status import Status
from leasehold.operations.lookup import as_filters, list_matching, read_states
from leasehold.store import Filter, Page, Store, Traits

FILTERS = (
    Filter(definitions=("email",)),
    Filter(definitions=("email",), statuses=(Status.SUCCEEDED, Status.DEAD_LETTER)),
    Filter(definitions=("email",), statuses=(Status.RUNNING, Status.FAILED)),
    Filter(definitions=("email",), statuses=(Status.DEAD_LETTER,)),
    Filter(source=Source.EVENT),
    Filter(due=False),
    Filter(tried=True, statuses=(Status.QUEUED, Status.RUNNING)),
)


@pytest.fixture
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(all_tenants, "FIRST", 2)
    monkeypatch.setattr(all_tenants, "SECOND", 3)
    monkeypatch.setattr(looks, "LOOKED_AT", 3)


@pytest.fixture
def other(bench: Bench, database_url: str, clock: Clock) -> Bench:
    return Bench(engine_on(bench.store, database_url, clock), OTHER)


async def _fill(acme: Bench, other: Bench) -> None:
    """Two tenants, one with many jobs, and a few that match a filter among them."""
    await other.ended(Status.SUCCEEDED, definition="email")
    for _ in range(3):
        await acme.ended(Status.SUCCEEDED)
        await acme.ended(Status.DEAD_LETTER)
        await acme.enqueue_many(3, delay=HOUR)
    await acme.ended(Status.DEAD_LETTER, definition="email")
    await other.enqueue("email", delay=HOUR)
    await acme.running("email")
    await acme.enqueue_many(6)


async def _walk(store: Store, where: Filter, limit: int) -> list[Page]:
    pages = [await store.find_all_tenants(where, None, limit)]
    while pages[-1].next is not None:
        pages.append(await store.find_all_tenants(where, pages[-1].next, limit))
    return pages


async def _of_each(store: Store, where: Filter) -> list[JobRecord]:
    found = [job for tenant in (ACME, OTHER) for job in await all_jobs(store.tenant(tenant), where)]
    return sorted(found, key=lambda job: job.id, reverse=True)


@pytest.mark.usefixtures("_few")
@pytest.mark.parametrize("limit", [1, 3, 50])
@pytest.mark.parametrize("where", FILTERS, ids=str)
async def test_a_walk_by_short_looks_finds_each_job_once(
    bench: Bench, other: Bench, where: Filter, limit: int
) -> None:
    await _fill(bench, other)
    walked = [job for page in await _walk(bench.store, where, limit) for job in page.jobs]
    assert walked == await _of_each(bench.store, where)


@pytest.mark.usefixtures("_few")
@pytest.mark.parametrize("limit", [1, 50])
@pytest.mark.parametrize("statuses", [(), (Status.RUNNING,), (Status.DEAD_LETTER, Status.QUEUED)], ids=str)
async def test_walks_by_traits_find_each_job_once(
    bench: Bench, other: Bench, statuses: tuple[Status, ...], limit: int
) -> None:
    await _fill(bench, other)
    for kit in (bench, other):
        await kit.ended(Status.DEAD_LETTER, priority=-9)
        await kit.enqueue_many(4, delay=HOUR)
        await kit.running("email", priority=-9)
    where = Filter(statuses=statuses, traits=Traits(highest_priority=-9))
    matching = [job for job in await _of_each(bench.store, Filter(statuses=statuses)) if job.priority == -9]
    walked = [job for page in await _walk(bench.store, where, limit) for job in page.jobs]
    assert walked == matching
    assert await _of_each(bench.store, where) == matching


@pytest.mark.usefixtures("_few")
async def test_a_tenants_page_by_traits_looks_at_a_part(bench: Bench) -> None:
    wanted = await bench.enqueue(priority=-9)
    await bench.enqueue_many(4)
    where = Filter(traits=Traits(highest_priority=-9))
    first = await bench.jobs.find(where, None, 50)
    assert (first.jobs, first.next, first.down_to) == ([], first.down_to, first.next)
    second = await bench.jobs.find(where, first.next, 50)
    assert [job.id for job in second.jobs] == [wanted]
    assert second.next is None


async def test_an_error_group_of_all_tenants_has_no_traits(bench: Bench) -> None:
    with pytest.raises(InvalidInput, match="Choose a tenant"):
        await bench.store.find_all_tenants(Filter(error_group="0" * 16, traits=Traits(highest_priority=1)), None, 5)


@pytest.mark.usefixtures("_few")
async def test_a_page_that_has_looked_enough_goes_on_from_there(bench: Bench, other: Bench) -> None:
    await _fill(bench, other)
    first, *others = await _walk(bench.store, Filter(definitions=("unused",)), 50)
    assert first.jobs == []
    assert first.down_to is not None
    assert [page.jobs for page in others] == [[]] * len(others)
    assert others[-1].down_to is None


@pytest.mark.usefixtures("_few")
async def test_lists_of_several_filters_stay_in_order_by_looks(bench: Bench, other: Bench) -> None:
    await _fill(bench, other)
    filters = as_filters(read_states(["ready", "scheduled", "dead-letter"]))
    cursor, walked = None, list[JobRecord]()
    while True:
        page = await list_matching(bench.store.find_all_tenants, filters, cursor, 4)
        walked += page.jobs
        cursor = page.next
        if cursor is None:
            break
    expected = [job for where in filters for job in await _of_each(bench.store, where)]
    assert walked == sorted(expected, key=lambda job: job.id, reverse=True)


def test_tenants_with_more_jobs_get_a_larger_share() -> None:
    dense = Looked(10, UUID(int=10_100), UUID(int=10_001))
    sparse = Looked(10, UUID(int=10_999), UUID(int=10_000))
    shares = shares_of({"dense": dense, "sparse": sparse}, 1100)
    assert shares["dense"] == pytest.approx(1000, rel=0.01)
    assert shares["sparse"] == pytest.approx(100, rel=0.02)


def test_tenants_that_are_far_ahead_wait_for_the_others() -> None:
    behind = Looked(10, UUID(int=10_100), UUID(int=10_001))
    ahead = Looked(10, UUID(int=10_100), UUID(int=5))
    assert shares_of({"behind": behind, "ahead": ahead}, 100) == {"behind": 101}


@pytest.mark.parametrize("tenants", [4_001, 100_000])
def test_the_first_look_shows_the_density_of_each_tenant(tenants: int) -> None:
    share = first_share(tenants)
    assert Looked(share, UUID(int=10_100), UUID(int=10_001)).density is not None


def test_tenants_of_unknown_density_share_evenly() -> None:
    places = {str(number): Looked(1, UUID(int=number), UUID(int=number)) for number in range(1, 5_001)}
    assert shares_of(places, 16_000) == dict.fromkeys(places, 3)


def test_one_job_of_a_tenant_takes_no_share_of_others() -> None:
    one = Looked(1, UUID(int=20_000), UUID(int=20_000))
    other = Looked(10, UUID(int=10_100), UUID(int=10_001))
    assert shares_of({"one": one, "other": other}, 200) == {"one": 100, "other": 101}
