"""Many jobs in one call: from any iterable, chunk by chunk, all or none, or as far as it went."""

import asyncio
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import count, islice
from typing import Any

import asyncpg
import pytest
from tests.app.bulk_calls import Many, asked, awaited, note, numbers

from leasehold import Enqueued, InvalidInput, Leasehold, NewJob
from leasehold.app.bulk import CHUNK
from leasehold.app.open_store import OpenStore

# ------------------------------------------------------------------------------------------------------------ answers


def test_jobs_in_many_chunks_are_there_in_the_order_given(
    enqueue_many: Many, bound: Callable[[int], NewJob], database_url: str
) -> None:
    answer = enqueue_many((bound(number) for number in range(25)), chunk=10)
    assert numbers(database_url) == list(range(25))
    assert asked(database_url, "select id::text from leasehold.jobs order by seq") == list(answer.ids)


async def test_a_chunk_with_unknown_versions_is_not_overtaken(
    app: Leasehold, bound: Callable[[int], NewJob], database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_others = Leasehold(database_url)
    foreign = of_others.job(key="foreign")(note)
    async with of_others.open():
        await of_others.tenant("bystander").aenqueue(foreign, 0)
    version_of = OpenStore.version_of

    async def slowly(opened: OpenStore, key: str) -> int:
        for _ in range(100):
            await asyncio.sleep(0)
        return await version_of(opened, key)

    monkeypatch.setattr(OpenStore, "version_of", slowly)
    async with app.open():
        handle = app.tenant("acme")
        jobs = [foreign.bind(0), *map(bound, range(1, 25))]
        await handle.aenqueue_many(jobs, chunk=10)
    asked = "select (payload->>'number')::int from leasehold.jobs where tenant_id = 'acme' order by seq"
    connection = await asyncpg.connect(database_url)
    assert [row[0] for row in await connection.fetch(asked)] == list(range(25))
    await connection.close()


@pytest.mark.parametrize("jobs", [0, 1, 9, 10, 11, 20])
def test_as_many_are_answered_as_were_given(
    enqueue_many: Many, bound: Callable[[int], NewJob], database_url: str, jobs: int
) -> None:
    answer = enqueue_many([bound(number) for number in range(jobs)], chunk=10)
    assert (len(answer), answer.created, answer.duplicates) == (jobs, jobs, 0)
    assert numbers(database_url) == list(range(jobs))


def test_an_answer_is_a_sequence_of_what_an_enqueue_gives(app: Leasehold, bound: Callable[[int], NewJob]) -> None:
    mixed = [bound(1), app.definition("other").bind(), bound(2), bound(3), bound(4)]  # type: ignore[union-attr]
    answer = app.tenant("acme").enqueue_many(mixed, chunk=2)
    ids = list(answer.ids)
    assert all(isinstance(each, Enqueued) for each in answer)
    assert [(each.id, each.created, each.tenant, each.definition, each.replaced) for each in answer] == [
        (job, True, app.tenant("acme").id, definition, False)
        for job, definition in zip(ids, ("note", "other", "note", "note", "note"), strict=True)
    ]
    assert answer[0].id == ids[0]
    assert answer[-1].id == ids[4]
    assert [each.id for each in answer[1:4:2]] == ids[1:4:2]
    with pytest.raises(IndexError):
        answer[5]
    assert repr(answer) == "<5 jobs enqueued: 5 created, 0 duplicates>"


def test_a_definition_among_the_jobs_is_refused_with_what_to_write(app: Leasehold, enqueue_many: Many) -> None:
    definition = app.job(note)
    with pytest.raises(InvalidInput, match=r"got <definition 'note'>.*Pass the result of note\.bind\(…\)"):
        enqueue_many([definition.bind(1), definition])
    assert asyncio.run(_count(app)) == 0


async def _count(app: Leasehold) -> int:
    async with app.open():
        return sum((await app.tenant("acme").jobs.acounts(10)).values())


def test_what_was_there_before_is_a_duplicate(app: Leasehold, bound: Callable[[int], NewJob]) -> None:
    handle = app.tenant("acme").options(dedupe_key="once")
    answer = handle.enqueue_many([bound(number) for number in range(5)], chunk=2)
    assert (answer.created, answer.duplicates) == (1, 4)
    assert [each.created for each in answer] == [True, False, False, False, False]
    assert len(set(answer.ids)) == 1


def test_options_count_for_all_of_them(app: Leasehold, bound: Callable[[int], NewJob], database_url: str) -> None:
    handle = app.tenant("acme").options(priority=7, correlation_id="import", delay="1h", max_attempts=2)
    handle.enqueue_many((bound(number) for number in range(5)), chunk=2)
    kept = "select (priority, correlation_id, max_attempts, ready, created_by)::text from leasehold.jobs"
    assert asked(database_url, kept) == ["(7,import,2,f,)"] * 5


def test_several_jobs_can_not_have_one_id(app: Leasehold, bound: Callable[[int], NewJob], database_url: str) -> None:
    handle = app.tenant("acme").options(id="01890a5d-ac96-774b-bcce-b302099a8057")
    with pytest.raises(InvalidInput, match="several jobs can't all have the id"):
        handle.enqueue_many(bound(number) for number in range(3))
    assert handle.enqueue_many([bound(1)])[0].id == "01890a5d-ac96-774b-bcce-b302099a8057"


@pytest.mark.parametrize("chunk", [0, -1, "many"])
def test_a_chunk_has_at_least_one_job(app: Leasehold, chunk: Any) -> None:
    with pytest.raises(InvalidInput, match="chunk="):
        app.tenant("acme").enqueue_many([], chunk=chunk)


def test_a_recreated_database_gets_its_definitions_again(
    app: Leasehold, bound: Callable[[int], NewJob], database_url: str
) -> None:
    app.tenant("acme").enqueue_many([bound(1)])
    asked(
        database_url,
        "truncate leasehold.definitions, leasehold.definition_versions, leasehold.jobs, leasehold.triggers",
    )
    app.tenant("acme").enqueue_many((bound(number) for number in range(5)), chunk=2)
    assert numbers(database_url) == list(range(5))


# ----------------------------------------------------------------------------------------------------------- progress


def test_progress_is_reported_by_chunk_with_the_total_if_known(
    enqueue_many: Many, bound: Callable[[int], NewJob]
) -> None:
    told: list[tuple[int, int | None]] = []
    enqueue_many([bound(number) for number in range(25)], chunk=10, progress=lambda *said: told.append(said))
    assert told.count((25, 25)) == 1
    assert set(told) <= {(10, 25), (20, 25), (25, 25)}
    enqueue_many((bound(number) for number in range(5)), progress=lambda *said: told.append(said))
    assert told.pop() == (5, None)


def test_not_atomic_progress_is_told_after_each_chunk(app: Leasehold, bound: Callable[[int], NewJob]) -> None:
    told: list[tuple[int, int | None]] = []
    jobs = [bound(number) for number in range(25)]
    awaited(app, jobs, chunk=10, atomic=False, progress=lambda *said: told.append(said))
    assert told == [(10, 25), (20, 25), (25, 25)]
    awaited(app, jobs[:20], chunk=10, atomic=False, progress=lambda *said: told.append(said))
    assert told[3:] == [(10, 20), (20, 20)]


def test_an_error_of_the_progress_function_enqueues_nothing(
    enqueue_many: Many, bound: Callable[[int], NewJob], database_url: str
) -> None:
    def fails(done: int, total: int | None) -> None:
        raise RuntimeError(f"at {done}")

    with pytest.raises(RuntimeError, match="at 10"):
        enqueue_many((bound(number) for number in range(100)), chunk=10, progress=fails)
    assert numbers(database_url) == []


# ------------------------------------------------------------------------------------------------------------- memory


def test_an_iterable_is_asked_for_no_more_than_is_sent_and_made(
    enqueue_many: Many, bound: Callable[[int], NewJob]
) -> None:
    """One chunk under way, one that waits, one that is being made; and one job, to see whether there is another."""
    made, written, most = count(), 0, 0

    def jobs() -> Iterator[NewJob]:
        nonlocal most
        for number in islice(made, 1000):
            most = max(most, number - written)
            yield bound(number)

    def told(done: int, total: int | None) -> None:
        nonlocal written
        written = done

    enqueue_many(jobs(), chunk=20, progress=told)
    assert most <= 3 * 20 + 1


def test_a_call_takes_less_memory_than_a_list_of_its_jobs(enqueue_many: Many, bound: Callable[[int], NewJob]) -> None:
    """Allows twice the list. The ids stay, as text of 36 bytes each."""
    jobs = 20 * CHUNK
    enqueue_many([bound(0)])
    tracemalloc.start()
    try:
        held = [bound(number) for number in range(jobs)]
        listed = tracemalloc.get_traced_memory()[0]
        del held
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        answer = enqueue_many(bound(number) for number in range(jobs))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(answer) == jobs
    assert peak - before < listed / 2
