"""Many jobs in one call that fails or is interrupted: all of them are there, or none, or whole chunks."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from threading import Thread

import asyncpg
import pytest
from tests.app.bulk_calls import Many, asked, numbers
from tests.conftest import eventually

from leasehold import Leasehold, NewJob, PartlyEnqueued, PayloadInvalid
from leasehold.errors import DuplicateJob
from leasehold.model.dedupe import Dedupe, OnConflict
from leasehold.model.job import JobId


def one_bad(bound: Callable[[int], NewJob], at: int) -> Iterator[NewJob]:
    """It can't be told before it is made: an iterable that fails half way."""
    for number in range(100):
        if number == at:
            raise LookupError(f"no number {number}")
        yield bound(number)


def test_a_failing_iterable_leaves_nothing_behind(
    enqueue_many: Many, bound: Callable[[int], NewJob], database_url: str
) -> None:
    with pytest.raises(LookupError, match="no number 35"):
        enqueue_many(one_bad(bound, 35), chunk=10)
    assert numbers(database_url) == []


def test_a_job_that_can_not_be_stored_leaves_nothing_behind(
    enqueue_many: Many, app: Leasehold, bound: Callable[[int], NewJob], database_url: str
) -> None:
    jobs = [app.definition("note").bind(number, "\0" if number == 35 else "") for number in range(50)]  # type: ignore[union-attr]
    with pytest.raises(PayloadInvalid):
        enqueue_many(jobs, chunk=10)
    assert numbers(database_url) == []


def test_a_refused_job_undoes_the_chunks_around_it(
    enqueue_many: Many, bound: Callable[[int], NewJob], database_url: str
) -> None:
    held = Dedupe("held", on_conflict=OnConflict.RAISE)
    jobs = [replace(bound(number), dedupe=held if number in (3, 13) else None) for number in range(50)]
    with pytest.raises(DuplicateJob):
        enqueue_many(jobs, chunk=10)
    assert numbers(database_url) == []


def test_an_os_error_of_the_iterable_is_not_unreachable(enqueue_many: Many, bound: Callable[[int], NewJob]) -> None:
    def reads_a_file() -> Iterator[NewJob]:
        yield from (bound(number) for number in range(25))
        raise FileNotFoundError("jobs.csv")

    with pytest.raises(FileNotFoundError, match=r"jobs\.csv"):
        enqueue_many(reads_a_file(), chunk=10)


def test_nothing_is_there_before_all_of_it_is(
    enqueue_many: Many, bound: Callable[[int], NewJob], database_url: str
) -> None:
    seen: list[int] = []

    def jobs() -> Iterator[NewJob]:
        yield from (bound(number) for number in range(50))

    async def look(done: int) -> None:
        connection = await asyncpg.connect(database_url)
        seen.append(await connection.fetchval("select count(*) from leasehold.jobs"))
        await connection.close()

    def told(done: int, total: int | None) -> None:
        if done < 50:
            looking = Thread(target=lambda: asyncio.run(look(done)))
            looking.start()
            looking.join()

    enqueue_many(jobs(), chunk=10, progress=told)
    assert set(seen) == {0}
    assert len(numbers(database_url)) == 50


def test_not_atomic_chunks_before_an_error_stay_and_are_counted(
    enqueue_many: Many, bound: Callable[[int], NewJob], database_url: str
) -> None:
    with pytest.raises(PartlyEnqueued, match=r"30 jobs in 3 chunks were enqueued and stay.*LookupError") as partly:
        enqueue_many(one_bad(bound, 35), chunk=10, atomic=False)
    assert isinstance(partly.value.__cause__, LookupError)
    assert "from number 31 on" in partly.value.fix
    assert [each.id for each in partly.value.placed] == asked(
        database_url, "select id::text from leasehold.jobs order by seq"
    )
    assert numbers(database_url) == list(range(30))


def test_not_atomic_an_error_in_the_first_chunk_is_raised_itself(
    enqueue_many: Many, bound: Callable[[int], NewJob], database_url: str
) -> None:
    with pytest.raises(LookupError):
        enqueue_many(one_bad(bound, 5), chunk=10, atomic=False)
    assert numbers(database_url) == []


def test_not_atomic_a_call_with_own_keys_can_be_repeated(
    app: Leasehold, bound: Callable[[int], NewJob], database_url: str
) -> None:
    handle = app.tenant("acme")

    def keyed(bad: int | None) -> Iterator[NewJob]:
        for number in range(50):
            if number == bad:
                raise LookupError(number)
            yield replace(bound(number), id=JobId(f"01890a5d-ac96-774b-bcce-{number:012d}"))

    with pytest.raises(PartlyEnqueued):
        handle.enqueue_many(keyed(35), chunk=10, atomic=False)
    answer = handle.enqueue_many(keyed(None), chunk=10, atomic=False)
    assert (answer.created, answer.duplicates) == (20, 30)
    assert sorted(numbers(database_url)) == list(range(50))


@pytest.mark.parametrize("atomic", [True, False], ids=["atomic", "not atomic"])
def test_ctrl_c_leaves_no_half_chunk(
    app: Leasehold, bound: Callable[[int], NewJob], database_url: str, atomic: bool
) -> None:
    def interrupted() -> Iterator[NewJob]:
        yield from (bound(number) for number in range(35))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        app.tenant("acme").enqueue_many(interrupted(), chunk=10, atomic=atomic)
    app.close()
    left = numbers(database_url)
    assert left == list(range(len(left)))
    assert left == [] if atomic else len(left) % 10 == 0


@pytest.mark.parametrize("within_open", [True, False], ids=["open", "not open"])
async def test_an_awaited_call_that_is_canceled_leaves_nothing_behind(
    app: Leasehold, bound: Callable[[int], NewJob], database_url: str, within_open: bool
) -> None:
    written = asyncio.Event()

    async def call() -> None:
        endless = (bound(number) for number in count())
        await app.tenant("acme").aenqueue_many(endless, chunk=10, progress=lambda *_: written.set())

    async def cancel_in_the_middle() -> None:
        calling = asyncio.create_task(call())
        await written.wait()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling

    if within_open:
        async with app.open():
            await cancel_in_the_middle()
    else:
        await cancel_in_the_middle()
        await asyncio.to_thread(app.close)

    connection = await asyncpg.connect(database_url)

    async def nobody_is_at_it() -> bool:
        others = "select count(*) from pg_stat_activity where datname = current_database() and state <> 'idle'"
        return bool(await connection.fetchval(f"{others} and pid <> pg_backend_pid()") == 0)

    try:
        await eventually(nobody_is_at_it, what="the end of the canceled transaction")
        assert await connection.fetchval("select count(*) from leasehold.jobs") == 0
    finally:
        await connection.close()


async def test_more_calls_than_connections_do_not_wait_for_each_other(
    app: Leasehold, bound: Callable[[int], NewJob], database_url: str
) -> None:
    """Each holds a connection, and looks up the versions of its jobs by another."""
    jobs = [bound(number) for number in range(12)]
    async with app.open():
        await app.tenant("acme").aenqueue_many(jobs[:1])
    async with app.open():  # which knows no version yet
        answers = await asyncio.gather(*(app.tenant("acme").aenqueue_many(jobs, chunk=10) for _ in range(12)))
    assert [answer.created for answer in answers] == [12] * 12
