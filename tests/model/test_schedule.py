"""Intervals, cursors, and which fires run after a time in which no scheduler ran."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.errors import InvalidInput
from leasehold.model.bounds import EARLIEST, LATEST
from leasehold.model.cron import Cron
from leasehold.model.schedule import (
    MAX_CAP,
    MAX_COUNTED,
    MAX_LISTED,
    CatchUp,
    Cursor,
    Every,
    Schedule,
    catch_up,
    cursor_at,
    every,
    fire_before,
    fires_between,
    next_fire,
    schedule_as_json,
    schedule_from_json,
    spread_offset,
)

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
NOON = datetime(2027, 1, 15, 12, tzinfo=UTC)
HOURLY: list[Schedule] = [every("1h"), Cron("0 * * * *", "Europe/Berlin"), Cron("0 0-23 * * *", "Europe/Berlin")]


def at(hour: int, minute: int = 0) -> datetime:
    return NOON.replace(hour=hour, minute=minute)


@pytest.mark.parametrize(
    ("interval", "after", "fire"),
    [
        ("15m", at(12), at(12, 15)),
        ("15m", at(12, 14), at(12, 15)),
        ("90s", at(12), at(12) + timedelta(seconds=90)),
        (3600, at(11, 30), at(12)),
        ("1w", datetime(1969, 12, 31, tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC)),
    ],
)
def test_an_interval_counts_from_the_unix_epoch(interval: str | int, after: datetime, fire: datetime) -> None:
    assert every(interval).next_after(after) == fire


def test_an_anchor_shifts_all_fires_before_and_after_it() -> None:
    shifted = every("1d", anchor=at(7, 20))

    assert shifted.next_after(at(12)) == at(7, 20) + timedelta(days=1)
    assert shifted.last_at(at(7, 19)) == at(7, 20) - timedelta(days=1)


@settings(deadline=None)
@given(
    st.integers(1, 10**8),
    st.datetimes(datetime(1950, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)),
    st.datetimes(datetime(1950, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)),
)
def test_fires_are_whole_intervals_away_from_the_anchor(seconds: int, anchor: datetime, moment: datetime) -> None:
    schedule = every(seconds, anchor)
    last, following = schedule.last_at(moment), schedule.next_after(moment)

    assert last is not None
    assert following is not None
    assert last <= moment < following
    assert following - last == schedule.interval
    assert (following - anchor) % schedule.interval == timedelta()


@pytest.mark.parametrize(
    ("interval", "why"),
    [
        ("0s", "not between 1 s and 3650 days"),
        ("999ms", "not between 1 s and 3650 days"),
        ("1.5s", "not whole seconds"),
        ("3651d", "not between 1 s and 3650 days"),
        ("soon", "is not a duration"),
        (True, "is not a duration"),
        pytest.param(10**5000, "is not a duration", id="huge"),
    ],
)
def test_an_interval_out_of_bounds_is_refused(interval: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=rf"every\(.*can't be used: .*{why}.*Nothing was changed"):
        every(interval)


def test_an_anchor_without_a_timezone_is_refused() -> None:
    with pytest.raises(InvalidInput, match="has no timezone"):
        every("15m", datetime(2027, 1, 1))


def test_an_interval_has_no_fire_beyond_the_bounds_of_moments() -> None:
    assert every("3650d").next_after(LATEST - timedelta(days=1)) is None
    assert every("3650d").last_at(EARLIEST) is None


@pytest.mark.parametrize(
    "schedule", [Cron("0 2 * * *", "Europe/Berlin"), Cron("@daily"), every("15m"), every("90s", NOON)], ids=str
)
def test_a_schedule_survives_json(schedule: Schedule) -> None:
    assert schedule_from_json(schedule_as_json(schedule)) == schedule


def test_fires_between_two_moments_are_limited() -> None:
    assert fires_between(every("1h"), at(8), at(12), 10) == [at(9), at(10), at(11), at(12)]
    assert fires_between(every("1h"), at(8), at(12), 2) == [at(9), at(10)]


@pytest.mark.parametrize("schedule", HOURLY, ids=str)
@pytest.mark.parametrize(
    ("policy", "fires"),
    [
        (CatchUp.SKIP, ()),
        (CatchUp.LATEST, (at(12),)),
        (CatchUp.ALL, (at(10), at(11), at(12))),
    ],
)
def test_three_hours_of_downtime_run_by_policy(
    schedule: Schedule, policy: CatchUp, fires: tuple[datetime, ...]
) -> None:
    due = catch_up(schedule, policy, cursor_at(schedule, at(9, 1)), at(12, 30))

    assert due.fires == fires
    assert due.missed == tuple(fire for fire in (at(10), at(11), at(12)) if fire not in fires)
    assert due.missed_count == 3 - len(fires)
    assert due.cursor.at == at(12)
    assert due.next_at == at(13)


@pytest.mark.parametrize("schedule", HOURLY, ids=str)
@pytest.mark.parametrize("policy", CatchUp)
def test_a_fire_that_is_on_time_runs_by_each_policy(schedule: Schedule, policy: CatchUp) -> None:
    due = catch_up(schedule, policy, cursor_at(schedule, at(11)), at(12) + timedelta(milliseconds=90))

    assert (due.fires, due.missed_count) == ((at(12),), 0)


@pytest.mark.parametrize("schedule", HOURLY, ids=str)
@pytest.mark.parametrize("policy", CatchUp)
def test_without_a_due_fire_the_cursor_stays(schedule: Schedule, policy: CatchUp) -> None:
    cursor = cursor_at(schedule, at(11))
    due = catch_up(schedule, policy, cursor, at(11, 59))

    assert (due.fires, due.missed, due.cursor, due.next_at) == ((), (), cursor, at(12))


@pytest.mark.parametrize("schedule", HOURLY, ids=str)
def test_all_runs_the_latest_fires_up_to_the_cap(schedule: Schedule) -> None:
    due = catch_up(schedule, CatchUp.ALL, cursor_at(schedule, at(1)), at(12), cap=3)

    assert due.fires == (at(10), at(11), at(12))
    assert due.missed == tuple(at(hour) for hour in range(2, 10))


def test_missed_fires_of_an_interval_are_counted_exactly() -> None:
    due = catch_up(every("1s"), CatchUp.LATEST, Cursor(at(0)), at(12))

    assert due.missed_count == 12 * 3600 - 1
    assert not due.missed_more
    assert len(due.missed) == MAX_LISTED


def test_missed_fires_of_a_cron_are_counted_up_to_a_bound() -> None:
    due = catch_up(Cron("* * * * *"), CatchUp.SKIP, Cursor(NOON - timedelta(days=3650)), at(12, 1) + 61 * MINUTE)

    assert due.missed_more
    assert due.missed_count == MAX_COUNTED - 1
    assert due.fires == (at(13, 2),)


def test_a_cap_of_a_thousand_still_counts_the_missed_one() -> None:
    due = catch_up(Cron("* * * * *"), CatchUp.ALL, Cursor(NOON), NOON + 5000 * MINUTE, MAX_CAP)

    assert len(due.fires) == MAX_CAP
    assert due.missed_more
    assert due.missed_count == len(due.missed) == 1


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(CatchUp),
    st.integers(1, 50),
    st.lists(st.integers(0, 600), min_size=1, max_size=20),
    st.sampled_from([Cron("*/20 * * * *", "America/New_York"), Cron("0,30 0-23 * * *", "America/New_York")]),
)
def test_every_fire_is_run_or_missed_exactly_once(
    policy: CatchUp, cap: int, sleeps: list[int], schedule: Cron
) -> None:
    now = start = datetime(2025, 11, 1, 12, tzinfo=UTC)
    cursor = cursor_at(schedule, start)
    ran: list[datetime] = []
    missed = 0
    for sleep in sleeps:
        now += sleep * MINUTE
        due = catch_up(schedule, policy, cursor, now, cap)
        ran, missed, cursor = [*ran, *due.fires], missed + due.missed_count, due.cursor

    assert ran == sorted(set(ran))
    assert len(ran) + missed == len(fires_between(schedule, start, now, 10_000))


def test_a_zone_that_moves_west_does_not_fire_a_day_twice() -> None:
    # A new tzdata may move a zone from UTC+3 to UTC+2; fixed offsets stand for the rules before and after.
    before, after = Cron("0 2 * * *", "Etc/GMT-3"), Cron("0 2 * * *", "Etc/GMT-2")
    fired = catch_up(before, CatchUp.LATEST, cursor_at(before, NOON), datetime(2027, 1, 15, 23, tzinfo=UTC)).cursor

    assert fired.at == datetime(2027, 1, 15, 23, tzinfo=UTC)
    assert next_fire(after, fired) == datetime(2027, 1, 17, 0, tzinfo=UTC)


def test_a_zone_that_moves_east_does_not_lose_a_fire() -> None:
    before, after = Cron("0,30 2 * * *", "Etc/GMT-2"), Cron("0,30 2 * * *", "Etc/GMT-3")
    midnight = datetime(2027, 1, 16, tzinfo=UTC)
    fired = catch_up(before, CatchUp.LATEST, cursor_at(before, NOON), midnight).cursor

    due = catch_up(after, CatchUp.LATEST, fired, midnight)

    assert due.fires == (midnight - 30 * MINUTE,)
    assert due.cursor.at == midnight
    assert catch_up(after, CatchUp.LATEST, due.cursor, midnight + MINUTE).fires == ()


def test_an_interval_does_not_depend_on_the_zone() -> None:
    assert cursor_at(every("1h"), NOON) == Cursor(NOON, None)
    assert cursor_at(Cron("0 * * * *", "Europe/Berlin"), NOON) == Cursor(NOON, None)


def test_a_spread_offset_is_stable_and_within_the_window() -> None:
    offsets = [spread_offset("trigger", f"tenant-{number}", HOUR) for number in range(1000)]

    assert offsets == [spread_offset("trigger", f"tenant-{number}", HOUR) for number in range(1000)]
    assert all(timedelta() <= offset < HOUR and offset % timedelta(seconds=1) == timedelta() for offset in offsets)
    assert len({offset // (6 * MINUTE) for offset in offsets}) == 10
    # Another hash would move the runs of all tenants.
    assert spread_offset("trigger", "acme", HOUR) == timedelta(seconds=2968)


def test_without_a_window_nothing_is_spread() -> None:
    assert spread_offset("trigger", "acme", timedelta()) == timedelta()


@pytest.mark.parametrize("schedule", HOURLY)
def test_the_fire_before_is_by_the_calendar(schedule: Schedule) -> None:
    assert fire_before(schedule, NOON) == NOON - HOUR


def test_two_times_in_a_gap_have_one_fire_before() -> None:
    gap = datetime(2027, 3, 28, 1, tzinfo=UTC)  # 02:00 → 03:00 in Berlin: 02:10 and 02:40 fire together
    cron = Cron("10,40 2 * * *", "Europe/Berlin")

    assert fire_before(cron, gap) == datetime(2027, 3, 27, 1, 40, tzinfo=UTC)


def test_an_interval_is_read_as_words() -> None:
    assert Every("15m").in_words() == "Every 15 m"
    assert Every("1h", NOON).in_words() == "Every 1 h, counted from 2027-01-15 12:00:00 UTC"


@pytest.mark.parametrize(
    ("interval", "words"),
    [
        ("3s", "3 s"),
        ("60s", "1 m"),
        ("90s", "90 s"),
        ("90m", "90 m"),
        ("36h", "36 h"),
        ("24h", "1 d"),
        ("2w", "14 d"),
    ],
)
def test_the_words_of_an_interval_have_one_unit(interval: str, words: str) -> None:
    assert Every(interval).in_words() == f"Every {words}"
