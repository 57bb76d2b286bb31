"""Crons: which texts are accepted, and when they fire on days on which clocks change."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.errors import InvalidInput
from leasehold.model.bounds import EARLIEST, LATEST
from leasehold.model.cron import ALIASES, MAX_CRON, Cron
from leasehold.model.schedule import fires_between
from leasehold.model.zone import tzdata_version, zone, zone_names

SECOND = timedelta(seconds=1)
MOMENTS = st.datetimes(datetime(1971, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def local_fires(cron: str, name: str, day: str, days: int = 1) -> list[str]:
    """Returns the fires of some local days, in local time with the offset."""
    start = datetime.fromisoformat(day).replace(tzinfo=zone(name))
    end = (datetime.fromisoformat(day) + timedelta(days=days)).replace(tzinfo=zone(name))
    fires = fires_between(Cron(cron, name), start.astimezone(UTC) - SECOND, end.astimezone(UTC) - SECOND, 1000)
    return [f"{fire.astimezone(zone(name)):%d %H:%M%z}" for fire in fires]


# The days are past ones: a new tzdata may change those to come, as it did for Casablanca in 2026.
NEW_YORK, BERLIN, LORD_HOWE = "America/New_York", "Europe/Berlin", "Australia/Lord_Howe"
CASABLANCA, SAO_PAULO, KIRITIMATI = "Africa/Casablanca", "America/Sao_Paulo", "Pacific/Kiritimati"


@pytest.mark.parametrize(
    ("cron", "name", "day", "fires"),
    [
        # 02:00 → 03:00
        ("30 2 * * *", NEW_YORK, "2025-03-09", ["09 03:00-0400"]),
        ("0 2 * * *", NEW_YORK, "2025-03-09", ["09 03:00-0400"]),
        ("0 3 * * *", NEW_YORK, "2025-03-09", ["09 03:00-0400"]),
        ("30 2,3 * * *", NEW_YORK, "2025-03-09", ["09 03:00-0400", "09 03:30-0400"]),
        ("0,30 2 * * *", BERLIN, "2025-03-30", ["30 03:00+0200"]),
        ("59 1 * * *", BERLIN, "2025-03-30", ["30 01:59+0100"]),
        # 02:00 → 02:30
        ("15 2 * * *", LORD_HOWE, "2025-10-05", ["05 02:30+1100"]),
        ("30 2 * * *", LORD_HOWE, "2025-10-05", ["05 02:30+1100"]),
        ("15 3 * * *", LORD_HOWE, "2025-10-05", ["05 03:15+1100"]),
        # 02:00 → 03:00, after Ramadan
        ("30 2 * * *", CASABLANCA, "2025-04-06", ["06 03:00+0100"]),
        # 00:00 → 01:00: the day begins at 01:00
        ("0 0 * * *", SAO_PAULO, "2018-11-04", ["04 01:00-0200"]),
        ("30 0,1 * * *", SAO_PAULO, "2018-11-04", ["04 01:00-0200", "04 01:30-0200"]),
    ],
)
def test_a_fixed_time_in_a_gap_fires_at_the_first_valid_minute(
    cron: str, name: str, day: str, fires: list[str]
) -> None:
    assert local_fires(cron, name, day) == fires


@pytest.mark.parametrize(
    ("cron", "name", "day", "fires"),
    [
        # 02:00 → 01:00
        ("30 1 * * *", NEW_YORK, "2025-11-02", ["02 01:30-0400"]),
        ("0 1 * * *", NEW_YORK, "2025-11-02", ["02 01:00-0400"]),
        ("0 2 * * *", NEW_YORK, "2025-11-02", ["02 02:00-0500"]),
        # 03:00 → 02:00
        ("0,30 2 * * *", BERLIN, "2025-10-26", ["26 02:00+0200", "26 02:30+0200"]),
        # 02:00 → 01:30
        ("45 1 * * *", LORD_HOWE, "2025-04-06", ["06 01:45+1100"]),
        ("15 1 * * *", LORD_HOWE, "2025-04-06", ["06 01:15+1100"]),
        # 03:00 → 02:00, before Ramadan
        ("30 2 * * *", CASABLANCA, "2025-02-23", ["23 02:30+0100"]),
        # 00:00 → 23:00 of the day before
        ("30 23 * * *", SAO_PAULO, "2018-02-17", ["17 23:30-0200"]),
        ("0 0 * * *", SAO_PAULO, "2018-02-18", ["18 00:00-0300"]),
    ],
)
def test_a_fixed_time_in_a_fold_fires_at_its_first_occurrence(
    cron: str, name: str, day: str, fires: list[str]
) -> None:
    assert local_fires(cron, name, day) == fires


@pytest.mark.parametrize(
    ("cron", "name", "day", "fires"),
    [
        (
            "0 */1 * * *",
            NEW_YORK,
            "2025-03-09",
            [f"09 {h:02}:00-0{5 if h < 2 else 4}00" for h in range(24) if h != 2],
        ),
        ("*/30 2 * * *", NEW_YORK, "2025-03-09", []),
        ("*/30 1 * * *", NEW_YORK, "2025-11-02", [f"02 01:{m}-0{o}00" for o in (4, 5) for m in ("00", "30")]),
        ("*/15 3 * * *", LORD_HOWE, "2025-10-05", [f"05 03:{m}+1100" for m in ("00", "15", "30", "45")]),
        (
            "*/15 1 * * *",
            LORD_HOWE,
            "2025-04-06",
            [f"06 01:{m}+1100" for m in ("00", "15", "30", "45")] + ["06 01:30+1030", "06 01:45+1030"],
        ),
        ("0 */6 * * *", SAO_PAULO, "2018-11-04", ["04 06:00-0200", "04 12:00-0200", "04 18:00-0200"]),
        ("30 * * * *", CASABLANCA, "2025-04-06", [f"06 {h:02}:30+0{int(h > 2)}00" for h in range(24) if h != 2]),
    ],
)
def test_a_wildcard_fires_at_each_real_moment_that_fits(cron: str, name: str, day: str, fires: list[str]) -> None:
    assert local_fires(cron, name, day) == fires


def test_times_of_a_skipped_day_fire_at_the_next_valid_minute() -> None:
    # Kiritimati went from 30 December 1994 to 1 January 1995: the 31st did not exist.
    assert local_fires("0 9 * * *", KIRITIMATI, "1994-12-30", days=3) == [
        "30 09:00-1000",
        "01 00:00+1400",
        "01 09:00+1400",
    ]
    assert local_fires("0 */12 * * *", KIRITIMATI, "1994-12-30", days=3) == [
        "30 00:00-1000",
        "30 12:00-1000",
        "01 00:00+1400",
        "01 12:00+1400",
    ]


def test_a_zone_without_changes_fires_at_the_same_time_all_year() -> None:
    fires = fires_between(Cron("0 2 * * *", KIRITIMATI), utc("2026-12-31"), utc("2027-12-31"), 1000)

    assert len(fires) == 365
    assert {fire.time().isoformat() for fire in fires} == {"12:00:00"}


@pytest.mark.parametrize("name", [NEW_YORK, BERLIN, LORD_HOWE, CASABLANCA, SAO_PAULO, KIRITIMATI])
@settings(max_examples=10, deadline=None)
@given(minute=st.integers(0, 239), year=st.integers(2000, 2025))
def test_a_fixed_time_fires_once_each_local_day(name: str, minute: int, year: int) -> None:
    cron = Cron(f"{minute % 60} {minute // 60} * * *", name)
    start = datetime(year, 1, 1, tzinfo=zone(name)) - SECOND
    end = datetime(year + 1, 1, 1, tzinfo=zone(name)) - SECOND

    days = [fire.astimezone(zone(name)).date() for fire in fires_between(cron, start, end, 400)]

    assert len(days) == len(set(days)) == (datetime(year + 1, 1, 1) - datetime(year, 1, 1)).days


CRONS = st.sampled_from(
    ["30 2 * * *", "*/15 * * * *", "0 0 29 2 *", "0 0 L * *", "0 12 * * MON#2", "5 4 1,15 * FRI", "7 */5 * 3-10 5L"]
)


@settings(deadline=None)
@given(CRONS, st.sampled_from([NEW_YORK, LORD_HOWE, CASABLANCA, SAO_PAULO]), MOMENTS)
def test_next_and_last_fire_are_inverse(text: str, name: str, moment: datetime) -> None:
    cron = Cron(text, name)
    following = cron.next_after(moment)
    before = cron.last_at(moment)

    assert following is not None
    assert before is not None
    assert before <= moment < following
    assert cron.last_at(following) == following
    assert cron.last_at(following - timedelta(microseconds=1)) == before
    assert cron.next_after(before) == following


@pytest.mark.parametrize(
    ("text", "after", "fire"),
    [
        ("0 0 29 2 *", "2096-03-01", "2104-02-29 00:00"),
        ("0 0 * 2 MON#5", "2026-01-01", "2044-02-29 00:00"),
        ("0 0 L 2 *", "2027-01-01", "2027-02-28 00:00"),
        ("0 0 LW * *", "2027-01-01", "2027-01-29 00:00"),
        ("0 0 * * 5L", "2027-01-01", "2027-01-29 00:00"),
        ("0 0 13 * FRI", "2027-01-01 12:00", "2027-01-08 00:00"),
        ("0 0 * JAN-MAR sun", "2027-03-29", "2028-01-02 00:00"),
        ("5/20 * * * *", "2027-01-01 00:06", "2027-01-01 00:25"),
        ("  0   2  * * 7 ", "2027-01-01", "2027-01-03 02:00"),
        ("@hourly", "2027-01-01 00:30", "2027-01-01 01:00"),
        ("@daily", "2027-01-01", "2027-01-02 00:00"),
        ("@Midnight", "2027-01-01", "2027-01-02 00:00"),
        ("@weekly", "2027-01-01", "2027-01-03 00:00"),
        ("@monthly", "2027-01-01", "2027-02-01 00:00"),
        ("@yearly", "2027-01-01", "2028-01-01 00:00"),
        ("@annually", "2027-01-01", "2028-01-01 00:00"),
    ],
)
def test_a_cron_has_five_fields_or_an_alias(text: str, after: str, fire: str) -> None:
    assert Cron(text).next_after(utc(after)) == utc(fire)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("0 0 31 2 *", "never fires"),
        ("0 0 30,31 2 *", "never fires"),
        ("0 0 31 4,6,9,11 *", "never fires"),
        ("60 * * * *", r"minute '60' is out of range: 60 is not in 0-59"),
        ("0 24 * * *", r"hour '24' is out of range: 24 is not in 0-23"),
        ("0 0 0 * *", r"day of the month '0' is out of range: 0 is not in 1-31"),
        ("0 0 1 13 *", r"month '13' is out of range: 13 is not in 1-12 or JAN-DEC"),
        ("0 0 * * 8", r"weekday '8' is out of range: 8 is not in 0-7 or SUN-SAT"),
        ("0 0 * * 1-9", r"weekday '1-9' is out of range: 9 is not in 0-7"),
        ("0 0 * MOO *", r"month 'MOO' is out of range"),
        ("1,2,x * * * *", r"minute 'X' is out of range"),
        ("*/90 * * * *", r"step that is not in 1-59.*every\(\"90m\"\)"),
        ("*/0 * * * *", r"step that is not in 1-59"),
        ("1-1/2 * * * *", "does not rise"),
        ("0 0 * * FRI-MON", "does not rise"),
        ("* * * * * *", "six fields.*seconds"),
        ("* * * *", "4 fields, not five"),
        ("", "0 fields, not five"),
        ("a-b * * * *", "out of range"),
        ("? * * * *", "can't be read"),
        (", * * * *", "can't be read"),
        ("-5 * * * *", "can't be read"),
        ("0 0 L/2 * *", "out of range"),
        ("0 0 * * MON#2/2", "can't be read"),
        ("0 0 * * MON#6", "can't be read"),
        ("٣ * * * *", "can't be read"),
        ("@dayly", 'this alias does not exist; did you mean "@daily"'),
        ("@reboot", "this alias does not exist"),
        ("0" * (MAX_CRON + 1), "251 characters"),
        (None, "is not text"),
        (5, "is not text"),
    ],
)
def test_a_cron_that_cannot_be_used_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=rf"(?s)The cron .* can't be used: .*{why}.*Nothing was changed"):
        Cron(text)


USUAL = st.sampled_from(["*", "*/3", "0", "1-5", "2,4", "1/3", "7"])
# Three in four fields are usual ones, so that a third of the crons is accepted.
FIELD = USUAL | USUAL.map(str.lower) | USUAL.map(str.strip) | st.text("0123456789*/-,#LWMON", min_size=1, max_size=6)


@settings(deadline=None)
@given(st.lists(FIELD, min_size=5, max_size=5).map(" ".join), st.sampled_from([BERLIN, LORD_HOWE]))
def test_any_five_fields_are_refused_or_fire(text: str, name: str) -> None:
    try:
        cron = Cron(text, name)
    except InvalidInput:
        return
    fire = cron.next_after(utc("2025-03-01"))

    assert fire is not None
    assert cron.last_at(fire) == fire


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("Europe/Berln", "Europe/Berlin"),
        ("europe/berlin", "Europe/Berlin"),
        ("Berlin", "Europe/Berlin"),
        ("America/New York", "America/New_York"),
        ("US/Estern", "US/Eastern"),
    ],
)
def test_an_unknown_zone_is_refused_with_the_nearest_name(name: str, near: str) -> None:
    with pytest.raises(InvalidInput, match=rf'has no zone .*Did you mean "{near}"\?'):
        Cron("@daily", name)


@pytest.mark.parametrize("name", ["", "/etc/passwd", "../zones", "Europe", "Europe/", "\0", "x" * 10_000, "Zürich/"])
def test_a_zone_that_is_nothing_like_a_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match=r"has no zone"):
        Cron("@daily", name)


def test_a_zone_is_a_name_or_a_zoneinfo() -> None:
    assert Cron("@daily", ZoneInfo(BERLIN)) == Cron("@daily", BERLIN)
    with pytest.raises(InvalidInput, match="is not text"):
        Cron("@daily", 5)  # type: ignore[arg-type]


def test_zones_are_read_from_the_tzdata_package() -> None:
    import tzdata  # type: ignore[import-untyped]

    assert tzdata_version() == tzdata.IANA_VERSION
    assert {"UTC", BERLIN, KIRITIMATI} <= zone_names()
    assert zone(BERLIN) is zone(BERLIN)


def test_every_zone_name_can_be_loaded() -> None:
    assert all(Cron("@daily", name).next_after(utc("2027-01-01")) for name in zone_names())


def test_a_cron_has_no_fire_beyond_the_bounds_of_moments() -> None:
    for name in ("UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago"):
        for text in ("@daily", "* * * * *", "0 0 29 2 *"):
            cron = Cron(text, name)
            assert cron.next_after(LATEST - timedelta(microseconds=1)) is None
            assert cron.last_at(EARLIEST - timedelta(microseconds=1)) is None
            assert cron.next_after(LATEST) is None
            assert cron.next_after(EARLIEST) is not None


@pytest.mark.parametrize("text", ["30 2 * * *", "*/30 * * * *"])
@pytest.mark.parametrize("viewer", ["Pacific/Kiritimati", "Pacific/Pago_Pago"])
def test_a_moment_may_be_in_any_zone(text: str, viewer: str) -> None:
    # The clocks of Kiritimati changed in the last hours of 1994 in UTC, which is 1995 there.
    cron = Cron(text, KIRITIMATI)
    for hours in range(72):
        moment = utc("1994-12-30") + timedelta(hours=hours)
        elsewhere = moment.astimezone(zone(viewer))
        assert cron.next_after(elsewhere) == cron.next_after(moment)
        assert cron.last_at(elsewhere) == cron.last_at(moment)


def test_equal_crons_have_the_same_text_and_zone() -> None:
    assert Cron("0  2 * * *", BERLIN) == Cron("0 2 * * *", BERLIN)
    assert hash(Cron("0  2 * * *", BERLIN)) == hash(Cron("0 2 * * *", BERLIN))
    assert Cron("0 2 * * *", BERLIN) != Cron("0 2 * * *", NEW_YORK)


def test_a_cron_can_be_read_as_words() -> None:
    assert Cron("30 2 * * *").in_words() == "At 02:30 every day"


@pytest.mark.parametrize(
    ("day", "ordinal"),
    [(10, "10th"), (11, "11th"), (13, "13th"), (21, "21st"), (22, "22nd"), (23, "23rd"), (31, "31st")],
)
def test_the_words_of_a_cron_have_right_ordinals(day: int, ordinal: str) -> None:
    assert Cron(f"0 0 {day} * *").in_words() == f"At 00:00 on the {ordinal} day of every month"


@pytest.mark.parametrize("alias", ALIASES)
def test_only_the_hourly_alias_is_a_wildcard(alias: str) -> None:
    assert Cron(alias).is_fixed == (alias != "@hourly")
