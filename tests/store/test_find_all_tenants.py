"""Reads across tenants: all jobs page by page, the owners of a job, the tenants."""

import pytest
from tests.store.bench import BROUGHT_ID, GREATEST_ID, LEAST_ID, UNKNOWN_ID, Bench, EngineUnderTest, all_jobs
from tests.store.bystander import AARON, BYSTANDER, CORRELATION
from tests.tenant_kit import ACME, HOUR, OTHER

from leasehold.errors import InvalidInput
from leasehold.model.job import JobId, JobRecord, TenantId, tenant_id
from leasehold.model.status import Status
from leasehold.store import Filter, Store


async def find_all_tenants(store: Store, where: Filter | None = None, page: int = 50) -> list[JobRecord]:
    """Every page, one after the other."""
    cursor, records = None, list[JobRecord]()
    while True:
        found = await store.find_all_tenants(where or Filter(), cursor, page)
        assert len(found.jobs) <= page
        records += found.jobs
        cursor = found.next
        if cursor is None:
            return records


async def of_each_tenant(store: Store, tenants: list[TenantId], where: Filter) -> list[JobRecord]:
    """Returns the listings of all tenants merged: newest first, two jobs of one id by tenant."""
    records = [record for tenant in tenants for record in await all_jobs(store.tenant(tenant), where)]
    return sorted(sorted(records, key=lambda job: job.tenant), key=lambda job: job.id, reverse=True)


async def busy(engine: EngineUnderTest) -> list[TenantId]:
    """Three tenants beside the bystanders, with jobs in every state; the bystanders' brought id is theirs, too."""
    acme, other, third = Bench(engine), Bench(engine, OTHER), Bench(engine, tenant_id("Ünder_score"))
    for bench in (acme, other, third):
        await bench.ended(Status.SUCCEEDED)
        await bench.ended(Status.DEAD_LETTER)
    await other.succeeded(id=BROUGHT_ID, definition="email")
    await acme.running()
    await third.enqueue(id=BROUGHT_ID, correlation_id=CORRELATION)
    await acme.enqueue_many(3, delay=HOUR)
    await other.enqueue()
    await acme.failed(definition="email")
    return [AARON, ACME, BYSTANDER, OTHER, third.tenant]


@pytest.mark.parametrize("page", [1, 3, 50])
async def test_a_walk_over_all_tenants_jobs_misses_none_and_repeats_none(engine: EngineUnderTest, page: int) -> None:
    tenants = await busy(engine)
    assert await find_all_tenants(engine.store, page=page) == await of_each_tenant(engine.store, tenants, Filter())


@pytest.mark.parametrize("page", [1, 50])
@pytest.mark.parametrize("job", [LEAST_ID, BROUGHT_ID, GREATEST_ID], ids=["least", "brought", "greatest"])
async def test_jobs_of_one_id_are_shown_once_for_each_tenant(engine: EngineUnderTest, job: JobId, page: int) -> None:
    for tenant in (OTHER, ACME):
        await Bench(engine, tenant).enqueue("email", id=job)
    await Bench(engine, tenant_id("zoe")).succeeded(definition="email", id=job)
    walked = [found.tenant for found in await find_all_tenants(engine.store, page=page) if found.id == job]
    theirs = [AARON, BYSTANDER] if job == BROUGHT_ID else []
    assert walked == sorted([ACME, OTHER, tenant_id("zoe"), *theirs])


FILTERS = (
    *(Filter(statuses=(status,)) for status in Status),
    Filter(statuses=(Status.QUEUED, Status.DEAD_LETTER)),
    Filter(statuses=(Status.RUNNING, Status.FAILED)),
    Filter(definitions=("email",)),
    Filter(correlation_id=CORRELATION),
    Filter(due=False),
    Filter(tried=True),
    Filter(statuses=(Status.RUNNING,), definitions=("email",)),
)


@pytest.mark.parametrize("page", [2, 50])
async def test_each_filter_finds_what_each_tenant_finds(engine: EngineUnderTest, page: int) -> None:
    tenants = await busy(engine)
    for where in FILTERS:
        found = await find_all_tenants(engine.store, where, page)
        assert found == await of_each_tenant(engine.store, tenants, where), where


async def test_jobs_of_one_busy_tenant_do_not_push_others_off_the_page(engine: EngineUnderTest) -> None:
    acme, other = Bench(engine), Bench(engine, OTHER)
    jobs = [await bench.enqueue() for bench in (acme, other, acme, acme, other)]
    page = await engine.store.find_all_tenants(Filter(), None, 5)
    assert [job.id for job in page.jobs] == jobs[::-1]


async def test_jobs_that_end_or_come_during_a_walk_disturb_no_page(engine: EngineUnderTest) -> None:
    acme, other = Bench(engine), Bench(engine, OTHER)
    jobs = [await bench.enqueue() for _ in range(4) for bench in (acme, other)]
    before = await find_all_tenants(engine.store)
    page = await engine.store.find_all_tenants(Filter(), None, 3)
    walked = [(job.tenant, job.id) for job in page.jobs]
    while page.next is not None:
        for bench in (acme, other):
            if claims := await bench.claim(1):
                await bench.succeed(claims[0])
            await bench.enqueue(delay=HOUR)
        page = await engine.store.find_all_tenants(Filter(), page.next, 3)
        walked += [(job.tenant, job.id) for job in page.jobs]
    assert walked == [(job.tenant, job.id) for job in before]
    assert len(walked) == len(jobs) + 2 * 6


@pytest.mark.parametrize(
    "cursor", ["", "nonsense", BROUGHT_ID, f"{BROUGHT_ID}/", "/acme", f"{BROUGHT_ID}/a\0b", "ü" * 500]
)
async def test_a_cursor_that_is_none_is_refused_everywhere(store: Store, cursor: str) -> None:
    with pytest.raises(InvalidInput, match="not a cursor"):
        await store.find_all_tenants(Filter(), cursor, 10)


async def test_a_job_is_found_by_its_id_in_all_tenants(engine: EngineUnderTest) -> None:
    bench = Bench(engine)
    waiting, ended = await bench.enqueue(delay=HOUR), await bench.succeeded()
    for job in (waiting, ended):
        assert list(await engine.store.jobs_with_id(job)) == [await engine.store.tenant(ACME).get(job)]


async def test_an_id_that_several_tenants_supplied_finds_all(engine: EngineUnderTest) -> None:
    await Bench(engine, OTHER).enqueue(id=BROUGHT_ID)
    await Bench(engine).succeeded(id=BROUGHT_ID)
    for spelled in (BROUGHT_ID, JobId(BROUGHT_ID.upper())):
        found = await engine.store.jobs_with_id(spelled)
        assert [job.tenant for job in found] == [AARON, ACME, BYSTANDER, OTHER]


async def test_no_tenant_has_a_job_that_never_was(store: Store) -> None:
    assert list(await store.jobs_with_id(UNKNOWN_ID)) == []


async def test_a_text_that_is_no_id_is_nobodys(store: Store) -> None:
    with pytest.raises(InvalidInput):
        await store.jobs_with_id(JobId("nonsense"))


async def test_tenants_are_those_who_ever_enqueued_something_by_name(engine: EngineUnderTest) -> None:
    await Bench(engine, OTHER).enqueue()
    await Bench(engine).succeeded()
    assert list(await engine.store.tenants()) == [AARON, ACME, BYSTANDER, OTHER]
    assert list(await engine.store.tenants(limit=2)) == [AARON, ACME]
