"""Jobs found by what no index serves: worker, dedupe key, priority, duration, a field of the payload."""

from datetime import timedelta

import pytest
from tests.store.bench import Bench, EngineUnderTest, all_jobs, keyed
from tests.store.test_error_groups import failed_with
from tests.store.test_find_all_tenants import find_all_tenants
from tests.tenant_kit import DAY, HOUR, OTHER, SECOND

from leasehold.errors import InvalidInput
from leasehold.model.error_group import error_group
from leasehold.model.job import JobId
from leasehold.model.operation import OperationKind
from leasehold.model.status import Status
from leasehold.store import Filter, NewOperation, Traits

MINUTE = timedelta(minutes=1)


async def found(bench: Bench, traits: Traits, *statuses: Status) -> list[JobId]:
    return [job.id for job in await all_jobs(bench.jobs, Filter(statuses=statuses, traits=traits))]


async def test_jobs_are_found_by_the_worker_that_has_or_had_them(bench: Bench) -> None:
    mine, other = await bench.worker(), await bench.join(lease=DAY)
    ended = await bench.succeeded()
    runs = (await bench.running()).job
    await bench.running(registration=other)
    await bench.enqueue()
    assert await found(bench, Traits(worker=mine.worker)) == [runs, ended]
    assert await found(bench, Traits(worker=mine.worker), Status.RUNNING) == [runs]
    assert await found(bench, Traits(worker=mine.worker), Status.DEAD_LETTER) == []


async def test_jobs_are_found_by_their_dedupe_key(bench: Bench) -> None:
    ended = await bench.succeeded(dedupe=keyed())
    waits = await bench.enqueue(dedupe=keyed())
    await bench.enqueue()
    assert await found(bench, Traits(dedupe_key="the-key")) == [waits, ended]
    assert await found(bench, Traits(dedupe_key="the-ke")) == []


@pytest.mark.parametrize(("lowest", "highest", "wanted"), [(None, 5, [5]), (6, None, [50, 6]), (5, 6, [6, 5])])
async def test_jobs_are_found_by_their_priority(
    bench: Bench, lowest: int | None, highest: int | None, wanted: list[int]
) -> None:
    jobs = {priority: await bench.enqueue(priority=priority) for priority in (5, 6, 50)}
    traits = Traits(lowest_priority=lowest, highest_priority=highest)
    assert await found(bench, traits) == [jobs[priority] for priority in wanted]


async def test_jobs_are_found_by_how_long_they_run_or_ran(bench: Bench) -> None:
    slow = await bench.running()
    await bench.move_clock(HOUR)
    await bench.succeed(slow)
    quick, runs = await bench.succeeded(), (await bench.running()).job
    await bench.fail(await bench.running(definition="email"))
    await bench.move_clock(2 * SECOND)
    assert await found(bench, Traits(shortest=HOUR)) == [slow.job]
    assert await found(bench, Traits(shortest=SECOND)) == [runs, slow.job]
    assert await found(bench, Traits(longest=MINUTE)) == [runs, quick]
    await bench.move_clock(HOUR)
    assert await found(bench, Traits(shortest=HOUR), Status.RUNNING) == [runs]


@pytest.mark.parametrize(
    ("path", "value"),
    [("name", "june"), ("owner.id", "7"), ("tags.1", "b"), ("draft", "true"), ("share", "0.25"), ("empty", "")],
)
async def test_jobs_are_found_by_a_field_of_their_payload(bench: Bench, path: str, value: str) -> None:
    payload = {
        "name": "june",
        "owner": {"id": 7},
        "tags": ["a", "b"],
        "draft": True,
        "share": 0.25,
        "nothing": None,
        "empty": "",
    }
    waits, ended = await bench.enqueue(payload=payload, delay=HOUR), await bench.succeeded(payload=payload)
    await bench.enqueue(payload={"name": "july"})
    traits = Traits(payload_path=tuple(path.split(".")), payload_value=value)
    assert await found(bench, traits) == [ended, waits]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("name", "jun"),
        ("owner", '{"id": 7}'),
        ("nothing", "null"),
        ("nothing", ""),
        ("name.x", "june"),
        ("tags.9", "a"),
    ],
)
async def test_other_values_of_a_payload_match_nothing(bench: Bench, path: str, value: str) -> None:
    await bench.enqueue(payload={"name": "june", "owner": {"id": 7}, "nothing": None, "tags": ["a"]})
    assert await found(bench, Traits(payload_path=tuple(path.split(".")), payload_value=value)) == []


async def test_traits_stand_beside_other_filters(bench: Bench) -> None:
    wanted = await bench.enqueue("email", priority=1, correlation_id="c")
    await bench.enqueue("email", priority=1)
    await bench.enqueue("report", priority=1, correlation_id="c")
    await bench.enqueue("email", correlation_id="c")
    where = Filter(definitions=("email",), correlation_id="c", traits=Traits(highest_priority=1))
    assert [job.id for job in await all_jobs(bench.jobs, where)] == [wanted]


async def test_jobs_of_an_error_group_are_found_by_traits(bench: Bench) -> None:
    group = error_group("report", "Unlucky", "no such file")
    await failed_with(bench, "no such file")
    claim = await bench.running(max_attempts=1, payload={"name": "june"})
    await bench.fail(claim, "no such file")
    traits = Traits(payload_path=("name",), payload_value="june")
    found = await all_jobs(bench.jobs, Filter(error_group=group, traits=traits))
    assert [job.id for job in found] == [claim.job]


@pytest.mark.parametrize("page", [1, 50])
async def test_jobs_of_all_tenants_are_found_by_traits(engine: EngineUnderTest, page: int) -> None:
    acme, other = Bench(engine), Bench(engine, OTHER)
    first = await acme.succeeded(priority=-7)
    second = (await other.running(priority=-7)).job
    third = await other.enqueue(priority=-7)
    await acme.enqueue(priority=-6)
    traits = Traits(highest_priority=-7)
    listed = [job.id for job in await find_all_tenants(engine.store, Filter(traits=traits), page)]
    assert listed == [third, second, first]
    runs = await find_all_tenants(engine.store, Filter(statuses=(Status.RUNNING,), traits=traits), page)
    assert [job.id for job in runs] == [second]


@pytest.mark.parametrize(
    "fields",
    [
        {"worker": "lab-7"},
        {"lowest_priority": 40_000},
        {"shortest": -SECOND},
        {"payload_path": ("name",)},
        {"payload_value": "june"},
        {"payload_path": ("a",) * 9, "payload_value": "x"},
        {"payload_path": ("a", ""), "payload_value": "x"},
        {"payload_path": ("a",), "payload_value": "x" * 1001},
        {"payload_path": ("a",), "payload_value": "\0"},
        {"dedupe_key": "\0"},
    ],
    ids=str,
)
def test_traits_that_no_job_can_have_are_refused(fields: dict[str, object]) -> None:
    with pytest.raises(InvalidInput, match="Nothing can be listed"):
        Traits(**fields)  # type: ignore[arg-type]


def test_an_operation_by_traits_is_refused() -> None:
    where = Filter(statuses=(Status.DEAD_LETTER,), traits=Traits(highest_priority=1))
    with pytest.raises(InvalidInput, match="name them one by one"):
        NewOperation(OperationKind.RETRY, OTHER, where)
