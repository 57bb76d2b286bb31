"""Counted sleeps: a producer sees without a look that no worker sleeps, and never takes a sleeper for awake."""

import pytest
from tests.conftest import Raw
from tests.postgres.race_tools import Connections, heard_so_far, sleepers
from tests.store.bench import Bench
from tests.store.wake_listener import asleep, listening

ONE_LIKE_REPORT = """
    select key from (select 'other-' || n as key from generate_series(1, 1000) n) named
    where (leasehold.share_of(key) = leasehold.share_of('report')) = $1 limit 1
"""


async def nobody_sleeps(observer: Raw) -> bool:
    return bool(await observer.fetchval("select leasehold.nobody_sleeps('report')"))


async def test_a_look_in_vain_spares_other_producers_the_look(bench: Bench, observer: Raw) -> None:
    registration = await bench.worker()
    assert await nobody_sleeps(observer)
    async with asleep(bench.store, registration):
        assert not await nobody_sleeps(observer)
        await bench.enqueue()  # wakes it
        assert not await nobody_sleeps(observer)
        await bench.enqueue()  # finds no sleeper
        assert await nobody_sleeps(observer)


async def test_a_look_before_a_sleep_notes_nothing_about_it(bench: Bench, observer: Raw) -> None:
    """A producer finds no sleeper, is held up, and notes that after a worker has gone to sleep."""
    registration = await bench.worker()
    begun = await observer.fetchval("select pg_sequence_last_value(leasehold.sleeps_begun('report'))")
    async with asleep(bench.store, registration) as listener:
        await observer.execute("select setval(leasehold.sleeps_over('report'), $1)", begun)
        await bench.enqueue()
        assert await heard_so_far(observer, {registration: listener}) == {registration: 1}


async def test_a_sleeper_that_a_producer_is_about_to_wake_still_sleeps(
    bench: Bench, observer: Raw, connections: Connections
) -> None:
    """It may roll back."""
    registration, producer = await bench.worker(), await connections.open()
    async with asleep(bench.store, registration) as listener:
        transaction = producer.transaction()
        await transaction.start()
        await producer.execute("select leasehold.wake_for_one('report', $1, null)", bench.tenant)
        await bench.enqueue()
        await transaction.rollback()
        assert await sleepers(observer) == [registration.worker]
        assert not await nobody_sleeps(observer)
        assert await heard_so_far(observer, {registration: listener}) == {registration: 1}


async def test_a_wake_notes_no_sleep_as_over_before_the_commit(
    bench: Bench, observer: Raw, connections: Connections
) -> None:
    registration, producer = await bench.worker(), await connections.open()
    async with asleep(bench.store, registration) as listener:
        transaction = producer.transaction()
        await transaction.start()
        for _ in range(2):
            await producer.execute("select leasehold.wake_for_one('report', $1, null)", bench.tenant)
        await transaction.rollback()
        assert not await nobody_sleeps(observer)
        await bench.enqueue()
        assert await heard_so_far(observer, {registration: listener}) == {registration: 1}


@pytest.mark.parametrize("alike", [True, False])
async def test_a_sleeper_for_another_definition_is_not_woken(bench: Bench, observer: Raw, alike: bool) -> None:
    """Also not looked for, unless that definition shares a counter with ours."""
    registration = await bench.join(await observer.fetchval(ONE_LIKE_REPORT, alike))
    async with asleep(bench.store, registration) as listener:
        assert await nobody_sleeps(observer) is not alike
        await bench.enqueue()
        assert await nobody_sleeps(observer) is not alike
        assert await heard_so_far(observer, {registration: listener}) == {}


async def test_while_nobody_sleeps_an_old_snapshot_notifies_nobody(
    bench: Bench, observer: Raw, connections: Connections
) -> None:
    """An old snapshot can't see workers that went to sleep since; but it sees the present count."""
    registration, producer = await bench.worker(), await connections.open()
    async with listening(bench.store, registration) as listener:
        async with producer.transaction(isolation="repeatable_read"):
            assert await producer.fetchval("select leasehold.wake_for_one('report', $1, null)", bench.tenant) == 0
        assert await heard_so_far(observer, {registration: listener}) == {}


async def test_a_sleep_counts_though_a_dump_says_that_more_are_over(bench: Bench, observer: Raw) -> None:
    """A dump reads one sequence after the other: it may restore more sleeps as over than have begun."""
    registration = await bench.worker()
    begun = await observer.fetchval("select pg_sequence_last_value(leasehold.sleeps_begun('report'))")
    await observer.execute("select setval(leasehold.sleeps_over('report'), $1)", begun + 1)
    async with asleep(bench.store, registration) as listener:
        assert not await nobody_sleeps(observer)
        await bench.enqueue()
        assert await heard_so_far(observer, {registration: listener}) == {registration: 1}


async def test_after_such_a_sleep_producers_note_what_is_over_again(bench: Bench, observer: Raw) -> None:
    registration = await bench.worker()
    await observer.execute("select setval(leasehold.sleeps_over('report'), 1000)")
    async with asleep(bench.store, registration):
        await bench.enqueue()  # wakes it
        await bench.enqueue()  # finds no sleeper
        assert await nobody_sleeps(observer)
