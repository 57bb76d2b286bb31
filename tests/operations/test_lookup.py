"""Finding a job by its id, or by the end of it."""

import pytest
from tests.store.bench import UNKNOWN_ID, Bench
from tests.tenant_kit import ACME, OTHER

from leasehold.errors import InvalidInput, UnknownJob
from leasehold.model.job import JobId, NewJob, tenant_id
from leasehold.operations import lookup
from leasehold.operations.lookup import Address, find_job
from leasehold.store import Store

TWINS = (JobId("01890a5d-ac96-774b-bcce-b302099a8057"), JobId("01890a5d-ac96-774b-bcce-c402099a8057"))


async def test_a_whole_id_is_found_with_the_tenant_whose_it_is(bench: Bench) -> None:
    job = await bench.enqueue()
    assert await find_job(bench.store, job.upper(), None) == Address(ACME, job)


async def test_a_whole_id_that_nobody_has_is_unknown(bench: Bench) -> None:
    with pytest.raises(UnknownJob, match=f"no tenant has a job {UNKNOWN_ID}"):
        await find_job(bench.store, UNKNOWN_ID, None)


async def test_an_id_that_two_tenants_brought_needs_a_tenant(bench: Bench) -> None:
    await bench.enqueue(id=TWINS[0])
    await bench.store.tenant(OTHER).enqueue([NewJob(definition="report", id=TWINS[0])])
    with pytest.raises(InvalidInput, match=r"2 tenants have a job .*: acme, other\..*with --tenant"):
        await find_job(bench.store, TWINS[0], None)
    assert await find_job(bench.store, TWINS[0], OTHER) == Address(OTHER, TWINS[0])


@pytest.mark.parametrize("length", [4, 8, 13, 35])
async def test_the_end_of_an_id_is_enough(bench: Bench, length: int) -> None:
    job = await bench.enqueue()
    await bench.enqueue(id=TWINS[0])
    assert await find_job(bench.store, job[-length:], None) == Address(ACME, job)
    assert await find_job(bench.store, job[-length:].upper(), ACME) == Address(ACME, job)


async def test_an_end_that_several_jobs_have_is_refused_and_they_are_named(bench: Bench) -> None:
    for twin in TWINS:
        await bench.enqueue(id=twin)
    with pytest.raises(InvalidInput, match="2 jobs end with '099a8057'") as refused:
        await find_job(bench.store, "099a8057", ACME)
    assert all(f"{twin} (acme, report, ready)" in refused.value.happened for twin in TWINS)


async def test_an_end_is_looked_for_in_the_tenant_that_is_named(bench: Bench) -> None:
    await bench.enqueue(id=TWINS[0])
    await bench.store.tenant(OTHER).enqueue([NewJob(definition="report", id=TWINS[1])])
    assert await find_job(bench.store, "099a8057", OTHER) == Address(OTHER, TWINS[1])
    with pytest.raises(UnknownJob, match=r"no id of the newest 1,000 jobs of tenant 'nobody' ends with '099a8057'"):
        await find_job(bench.store, "099a8057", tenant_id("nobody"))


async def test_an_end_is_looked_for_among_the_newest_only(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "NEWEST", 4)
    monkeypatch.setattr(lookup, "AT_ONCE", 2)
    old, *newer = [await bench.enqueue() for _ in range(5)]
    assert await find_job(bench.store, newer[0][-12:], None) == Address(ACME, newer[0])
    with pytest.raises(UnknownJob):
        await find_job(bench.store, old[-12:], None)


@pytest.mark.parametrize("text", ["", "abc", "report", "xyzw", "0" * 36, "b302 099a"])
async def test_what_is_no_id_is_refused(store: Store, text: str) -> None:
    with pytest.raises(InvalidInput, match="is not a job id") as refused:
        await find_job(store, text, None)
    assert not isinstance(refused.value, UnknownJob)
