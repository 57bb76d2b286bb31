"""Sleeps are counted: a producer sees without a look that nobody sleeps, and never takes a sleeper for awake."""

import pytest
from tests.postgres.race_tools import Connections, Raw, heard_so_far, sleepers
from tests.store.bench import Bench
from tests.store.wake_listener import asleep, listening

ONE_LIKE_REPORT = """
    select key from (select 'other-' || n as key from generate_series(1, 1000) n) named
    where (leasehold.share_of(key) = leasehold.share_of('report')) = $1 limit 1
"""


async def nobody_sleeps(observer: Raw) -> bool:
    return bool(await observer.fetchval("select leasehold.nobody_sleeps('report')"))


async def test_whoever_looks_in_vain_spares_all_others_the_look(bench: Bench, observer: Raw) -> None:
    registration = await bench.worker()
    assert await nobody_sleeps(observer)
    async with asleep(bench.store, registration):
        assert not await nobody_sleeps(observer)
        await bench.enqueue()  # wakes it
        assert not await nobody_sleeps(observer)
        await bench.enqueue()  # finds nobody
        assert await nobody_sleeps(observer)


async def test_what_was_found_before_a_sleep_began_is_no_word_on_it(bench: Bench, observer: Raw) -> None:
    """A producer finds nobody, is held up, and notes it down when somebody has gone to sleep."""
    registration = await bench.worker()
    begun = await observer.fetchval("select pg_sequence_last_value(leasehold.sleeps_begun('report'))")
    async with asleep(bench.store, registration) as ears:
        await observer.execute("select setval(leasehold.sleeps_over('report'), $1)", begun)
        await bench.enqueue()
        assert await heard_so_far(observer, {registration: ears}) == {registration: 1}


async def test_a_sleeper_that_a_producer_is_about_to_wake_still_sleeps(
    bench: Bench, observer: Raw, connections: Connections
) -> None:
    """It may roll back."""
    registration, producer = await bench.worker(), await connections.open()
    async with asleep(bench.store, registration) as ears:
        transaction = producer.transaction()
        await transaction.start()
        await producer.execute("select leasehold.wake_for_one('report', $1, null)", bench.tenant)
        await bench.enqueue()
        await transaction.rollback()
        assert await sleepers(observer) == [registration.worker]
        assert not await nobody_sleeps(observer)
        assert await heard_so_far(observer, {registration: ears}) == {registration: 1}


async def test_nor_does_who_woke_it_note_that_before_the_commit(
    bench: Bench, observer: Raw, connections: Connections
) -> None:
    registration, producer = await bench.worker(), await connections.open()
    async with asleep(bench.store, registration) as ears:
        transaction = producer.transaction()
        await transaction.start()
        for _ in range(2):
            await producer.execute("select leasehold.wake_for_one('report', $1, null)", bench.tenant)
        await transaction.rollback()
        assert not await nobody_sleeps(observer)
        await bench.enqueue()
        assert await heard_so_far(observer, {registration: ears}) == {registration: 1}


@pytest.mark.parametrize("alike", [True, False])
async def test_who_sleeps_for_another_definition_is_not_woken(bench: Bench, observer: Raw, alike: bool) -> None:
    """Nor looked for, unless that definition happens to be counted with ours."""
    registration = await bench.join(await observer.fetchval(ONE_LIKE_REPORT, alike))
    async with asleep(bench.store, registration) as ears:
        assert await nobody_sleeps(observer) is not alike
        await bench.enqueue()
        assert await nobody_sleeps(observer) is not alike
        assert await heard_so_far(observer, {registration: ears}) == {}


async def test_while_nobody_sleeps_an_old_snapshot_notifies_nobody(
    bench: Bench, observer: Raw, connections: Connections
) -> None:
    """It can't see who went to sleep since; but the count it sees as it is."""
    registration, producer = await bench.worker(), await connections.open()
    async with listening(bench.store, registration) as ears:
        async with producer.transaction(isolation="repeatable_read"):
            assert await producer.fetchval("select leasehold.wake_for_one('report', $1, null)", bench.tenant) == 0
        assert await heard_so_far(observer, {registration: ears}) == {}


async def test_a_sleep_counts_though_a_dump_says_that_more_are_over(bench: Bench, observer: Raw) -> None:
    """A dump reads one sequence after the other. What it restored as over was not begun yet."""
    registration = await bench.worker()
    begun = await observer.fetchval("select pg_sequence_last_value(leasehold.sleeps_begun('report'))")
    await observer.execute("select setval(leasehold.sleeps_over('report'), $1)", begun + 1)
    async with asleep(bench.store, registration) as ears:
        assert not await nobody_sleeps(observer)
        await bench.enqueue()
        assert await heard_so_far(observer, {registration: ears}) == {registration: 1}


async def test_after_such_a_sleep_producers_note_what_is_over_again(bench: Bench, observer: Raw) -> None:
    registration = await bench.worker()
    await observer.execute("select setval(leasehold.sleeps_over('report'), 1000)")
    async with asleep(bench.store, registration):
        await bench.enqueue()  # wakes it
        await bench.enqueue()  # finds no sleeper
        assert await nobody_sleeps(observer)
