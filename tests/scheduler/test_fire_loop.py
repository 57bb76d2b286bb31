"""The loop that fires: it sleeps until the next fire, hears of changes, and leaves idle databases alone."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from math import inf

import pytest
from tests.conftest import Raw
from tests.scheduler.timetable import HOUR, SECOND, Timetable

from leasehold.engines import engine_for
from leasehold.errors import Unreachable
from leasehold.model.job import tenant_id
from leasehold.model.schedule import every
from leasehold.model.trigger import ALL
from leasehold.scheduler import FireLoop
from leasehold.store import FireRound, NextFire, Store


class Rounds:
    """Stands for the store: answers each look with the next of these rounds, and counts looks."""

    def __init__(self, *answers: FireRound | Exception) -> None:
        self._answers = list(answers)
        self.looks = 0
        self.looked = asyncio.Event()

    @property
    def schedules(self) -> "Rounds":
        return self

    async def fire_due(self) -> FireRound:
        self.looks += 1
        self.looked.set()
        answer = self._answers.pop(0) if self._answers else FireRound(0, False, None)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def renew_fire_times(self) -> int:
        return 0

    async def look_again(self) -> None:
        self.looked.clear()
        async with asyncio.timeout(30):
            await self.looked.wait()


@asynccontextmanager
async def running(loop: FireLoop) -> AsyncIterator[None]:
    task = asyncio.create_task(loop.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def loop_on(rounds: Rounds) -> FireLoop:
    return FireLoop(rounds)  # type: ignore[arg-type]


async def turns(count: int = 5) -> None:
    """Lets other tasks take their turns."""
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_loop_that_knows_no_fire_looks_at_nothing() -> None:
    rounds = Rounds()
    loop = loop_on(rounds)
    async with running(loop):
        loop.expect(None)
        loop.hear(NextFire(None, fired=True))
        loop.expect(HOUR)
        await turns()
    assert rounds.looks == 0


async def test_an_overdue_fire_is_made_at_once() -> None:
    rounds = Rounds(FireRound(1, False, HOUR))
    loop = loop_on(rounds)
    async with running(loop):
        loop.expect(-HOUR)
        await rounds.look_again()
        await turns()
    assert rounds.looks == 1


async def test_the_loop_goes_on_while_there_is_more() -> None:
    rounds = Rounds(FireRound(50, True, timedelta()), FireRound(50, True, timedelta()), FireRound(9, False, HOUR))
    loop = loop_on(rounds)
    async with running(loop):
        loop.look()
        await rounds.look_again()
        await turns(10)
    assert rounds.looks == 3


async def test_an_announced_fire_is_earlier_than_the_known_one() -> None:
    rounds = Rounds(FireRound(1, False, HOUR))
    loop = loop_on(rounds)
    async with running(loop):
        loop.expect(HOUR)
        await turns()
        loop.hear(NextFire(timedelta()))
        await rounds.look_again()


async def test_an_answer_never_puts_off_an_earlier_fire() -> None:
    """A heartbeat may have asked before a schedule was added, and answer after its announcement."""
    rounds = Rounds(FireRound(1, False, HOUR))
    loop = loop_on(rounds)
    loop.hear(NextFire(0.02 * SECOND))
    loop.expect(HOUR)
    async with running(loop):
        await rounds.look_again()


async def test_a_loop_whose_fire_another_made_becomes_a_deputy() -> None:
    rounds = Rounds(FireRound(0, False, HOUR))
    loop = loop_on(rounds)
    assert loop.is_first
    async with running(loop):
        loop.expect(timedelta())
        await rounds.look_again()
        await turns()
    assert not loop.is_first


@pytest.mark.parametrize("look", [FireLoop.look, FireLoop.check, lambda loop: loop.hear(NextFire(None))])
async def test_a_look_at_no_known_fire_makes_no_deputy(look: Callable[[FireLoop], None]) -> None:
    rounds = Rounds(FireRound(0, False, HOUR))
    loop = loop_on(rounds)
    async with running(loop):
        look(loop)
        await rounds.look_again()
        await turns()
    assert loop.is_first


async def test_a_fire_that_comes_due_during_a_look_is_first() -> None:
    """The timer ended a moment early: nothing was due at the look, and a fire was due at its answer."""
    rounds = Rounds(FireRound(0, False, timedelta()), FireRound(1, False, HOUR))
    loop = loop_on(rounds)
    async with running(loop):
        loop.expect(timedelta())
        await rounds.look_again()
        await turns()
        assert loop.is_first
        await rounds.look_again()
    assert loop.is_first


async def test_a_fire_that_stays_locked_makes_a_deputy() -> None:
    rounds = Rounds(FireRound(0, False, timedelta()), FireRound(0, False, timedelta()))
    loop = loop_on(rounds)
    async with running(loop):
        loop.expect(timedelta())
        await rounds.look_again()
        await rounds.look_again()
        await turns()
    assert not loop.is_first


async def test_a_deputy_need_not_look_after_an_announcement() -> None:
    rounds = Rounds(FireRound(0, False, HOUR))
    loop = loop_on(rounds)
    async with running(loop):
        loop.expect(timedelta())
        await rounds.look_again()
        await turns()
        loop.hear(NextFire(timedelta()))
        loop.hear(NextFire(HOUR, fired=True))
        await turns()
        assert rounds.looks == 1
        loop.hear(NextFire(timedelta()))
        await rounds.look_again()
    assert rounds.looks == 2


async def test_a_deputy_that_fires_is_first_from_then_on() -> None:
    rounds = Rounds(FireRound(0, False, HOUR), FireRound(1, False, HOUR))
    loop = loop_on(rounds)
    async with running(loop):
        loop.expect(timedelta())
        await rounds.look_again()
        await turns()
        loop.hear(NextFire(timedelta()))
        await rounds.look_again()
        await turns()
    assert loop.is_first


async def test_a_timer_that_ends_early_changes_no_turn() -> None:
    rounds = Rounds(FireRound(0, False, timedelta(milliseconds=1)), FireRound(1, False, HOUR))
    loop = loop_on(rounds)
    async with running(loop):
        loop.expect(timedelta())
        await rounds.look_again()
        await rounds.look_again()
    assert loop.is_first


async def test_after_an_error_the_loop_looks_again() -> None:
    rounds = Rounds(Unreachable("away.", fix="Wait."), FireRound(1, False, HOUR))
    loop = loop_on(rounds)
    loop.look()
    with pytest.raises(Unreachable):
        await loop.run()
    async with running(loop):
        await rounds.look_again()
    assert rounds.looks == 2


# --------------------------------------------------------------------------------------------------- with a database


async def test_a_schedule_fires_in_time_by_the_real_clock(store: Store, timetable: Timetable) -> None:
    await timetable.clock.freeze(None)
    loop = FireLoop(store)
    trigger = await timetable.add(schedule=every("1s"))
    loop.look()
    async with running(loop):
        await timetable.until_fired(2)
    decisions = [each for each in await timetable.decisions(trigger) if each.at and each.fire_at]
    assert len({each.fire_at for each in decisions}) == len(decisions) >= 2


async def test_a_fire_costs_a_bounded_number_of_statements(timetable: Timetable, database_url: str) -> None:
    kit = engine_for(database_url).test_kit()
    store = await kit.open()
    try:
        for number in range(40):
            await timetable.add(label=f"number {number}")
        await timetable.clock.move(HOUR)
        before = len(kit.statements())
        assert (await store.schedules.fire_due()).fired == 40
        assert list(kit.statements())[before:] == [
            "scheduler/due",
            "fleet/definition_versions",
            "scheduler/fire",
            "scheduler/advance",
            "scheduler/wake",
            "scheduler/next",
        ]
    finally:
        await store.close()


async def test_of_two_loops_one_fires_and_the_other_hears(
    timetable: Timetable, store: Store, database_url: str
) -> None:
    """Both know the fire; the deputy is told that it was made, and sends no statement."""
    kit = engine_for(database_url).test_kit()
    other = await kit.open()
    deputy, news = FireLoop(other), other.schedules.fire_times()
    assert await anext(news) == NextFire(None)
    try:
        await timetable.add()
        deputy.hear(await anext(news))
        deputy._is_first, deputy._renew_at = False, inf
        before = len(kit.statements())
        await timetable.clock.move(HOUR)
        async with running(deputy):
            assert await timetable.fire() == 1
            async with asyncio.timeout(30):
                heard = await anext(news)
            deputy.hear(heard)
            assert heard == NextFire(HOUR, fired=True)
            await turns()
        assert list(kit.statements())[before:] == []
    finally:
        await news.aclose()
        await other.close()


async def test_a_broken_schedule_stops_no_other_one(timetable: Timetable, store: Store, observer: Raw) -> None:
    broken = await timetable.add(label="broken")
    await timetable.add(label="sound")
    await _make_unreadable(observer, broken.id)
    await timetable.clock.move(HOUR)
    assert await store.schedules.fire_due() == FireRound(1, False, HOUR)
    await timetable.clock.move(HOUR)
    assert await store.schedules.fire_due() == FireRound(1, False, HOUR)


async def test_an_unreadable_schedule_is_left_to_other_processes(
    timetable: Timetable, store: Store, observer: Raw, database_url: str
) -> None:
    """The other process can read what this one could not."""
    broken = await timetable.add()
    await _make_unreadable(observer, broken.id)
    await timetable.clock.move(HOUR)
    assert await timetable.fire() == 0
    await observer.execute("update leasehold.triggers set cron = '0 * * * *' where id = $1::uuid", broken.id)
    assert await timetable.fire() == 0
    other = await engine_for(database_url).test_kit().open()
    try:
        assert (await other.schedules.fire_due()).fired == 1
    finally:
        await other.close()


async def test_a_process_that_left_a_schedule_announces_no_fire(
    timetable: Timetable, store: Store, observer: Raw, database_url: str
) -> None:
    """Deputies would not look at the schedule that was left to them."""
    broken = await timetable.add(label="broken")
    await _make_unreadable(observer, broken.id)
    await timetable.add(label="sound")
    await timetable.clock.move(HOUR)
    news: list[str] = []
    channel = await observer.fetchval("select leasehold.channel_for_all()")
    await observer.add_listener(channel, lambda *heard: news.append(heard[-1]))
    assert await timetable.fire() == 1
    await observer.execute("select 1")
    assert [each for each in news if each.startswith("fired")] == []


async def test_a_repaired_schedule_is_read_again_at_once(timetable: Timetable, observer: Raw) -> None:
    broken = await timetable.add()
    await _make_unreadable(observer, broken.id)
    await timetable.clock.move(HOUR)
    assert await timetable.fire() == 0
    await observer.execute(
        "update leasehold.triggers set cron = '0 * * * *', version = version + 1 where id = $1::uuid", broken.id
    )
    assert await timetable.fire() == 1


async def _make_unreadable(observer: Raw, trigger: str) -> None:
    await observer.execute("update leasehold.triggers set cron = '61 * * * *' where id = $1::uuid", trigger)


async def _refuse_fires(observer: Raw, trigger: str) -> None:
    await observer.execute(
        """
        create function leasehold.refuse_decision() returns trigger language plpgsql as $$
        begin raise exception 'no room'; end $$;
        """
    )
    await observer.execute(
        f"""
        create trigger refused before insert on leasehold.trigger_decisions for each row
        when (new.trigger_id = '{trigger}' and new.kind = 'fired') execute function leasehold.refuse_decision()
        """
    )


async def test_a_fire_that_the_database_refuses_stops_no_other(
    timetable: Timetable, store: Store, observer: Raw
) -> None:
    refused = await timetable.add(label="refused", payload={"n": 1})
    await timetable.add(label="sound", payload={"n": 2})
    await _refuse_fires(observer, refused.id)
    await timetable.clock.move(HOUR)
    await timetable.fire()
    assert [job.payload for job in await timetable.jobs()] == [{"n": 2}]
    (decision,) = await timetable.decisions(refused)
    assert "no room" in decision.why


async def test_fires_that_are_made_one_by_one_are_summed(timetable: Timetable, store: Store, observer: Raw) -> None:
    refused = await timetable.add(label="refused")
    await _refuse_fires(observer, refused.id)
    for number in range(4):
        await timetable.add(label=f"number {number}", payload={"n": number})
    await timetable.clock.move(HOUR)
    assert await store.schedules.fire_due() == FireRound(4, False, HOUR)


async def test_after_refusals_alone_the_next_fire_is_known(timetable: Timetable, store: Store, observer: Raw) -> None:
    refused = await timetable.add()
    await _refuse_fires(observer, refused.id)
    await timetable.clock.move(HOUR)
    assert await store.schedules.fire_due() == FireRound(0, False, HOUR)


@pytest.mark.usefixtures("small_rounds")
async def test_a_refused_fan_out_goes_on_where_it_stopped(timetable: Timetable, store: Store, observer: Raw) -> None:
    trigger = await timetable.add(ALL)
    for number in range(60):
        await store.add_tenant(tenant_id(f"t{number:02}"))
    await timetable.clock.move(HOUR)
    assert (await store.schedules.fire_due()).fired == 50
    await _refuse_fires(observer, trigger.id)
    assert await timetable.fire() == 0
    await observer.execute("drop trigger refused on leasehold.trigger_decisions")
    await timetable.clock.move(HOUR)
    assert await timetable.fire() == 10 + 60
