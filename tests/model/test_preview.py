"""Previews: the next runs in three zones, with gaps, folds and offsets marked."""

from datetime import UTC, datetime

import pytest

from leasehold.errors import InvalidInput
from leasehold.model.cron import Cron
from leasehold.model.preview import MarkKind, Run, preview
from leasehold.model.schedule import every

NEW_YORK = "America/New_York"
SPRING = datetime(2025, 3, 6, tzinfo=UTC)


def shown(run: Run) -> str:
    marks = " ".join(mark.kind for mark in run.marks)
    return f"{run.local:%a %d %H:%M %Z} | {run.at:%H:%M} | {run.viewer:%H:%M} {marks}".rstrip()


def test_runs_are_shown_in_three_zones_with_marks() -> None:
    seen = preview(Cron("30 2 * * *", NEW_YORK), SPRING, 5, "Europe/Berlin")

    assert [shown(run) for run in seen.runs] == [
        "Thu 06 02:30 EST | 07:30 | 08:30",
        "Fri 07 02:30 EST | 07:30 | 08:30",
        "Sat 08 02:30 EST | 07:30 | 08:30",
        "Sun 09 03:00 EDT | 07:00 | 08:00 gap",
        "Mon 10 02:30 EDT | 06:30 | 07:30 offset",
    ]


def test_a_mark_says_what_happens_that_day() -> None:
    runs = preview(Cron("30 2 * * *", NEW_YORK), SPRING, 5).runs

    assert runs[3].marks[0].note == "02:30 does not exist that day (clocks go 02:00 → 03:00); runs at 03:00"
    assert runs[4].marks[0].note == "clocks go 02:00 → 03:00; the offset is -04:00 instead of -05:00"


def test_runs_around_the_next_clock_change_are_appended() -> None:
    seen = preview(Cron("30 1 * * *", NEW_YORK), datetime(2025, 6, 1, tzinfo=UTC), 2)

    assert seen.change is not None
    assert seen.change.at == datetime(2025, 11, 2, 6, tzinfo=UTC)
    assert [shown(run) for run in seen.around] == [
        "Sat 01 01:30 EDT | 05:30 | 05:30",
        "Sun 02 01:30 EDT | 05:30 | 05:30 fold",
        "Mon 03 01:30 EST | 06:30 | 06:30 offset",
        "Tue 04 01:30 EST | 06:30 | 06:30",
    ]
    assert seen.around[1].marks[0].note == "01:30 occurs twice (clocks go 02:00 → 01:00); runs once, at the first"


def test_the_appended_runs_follow_the_listed_ones() -> None:
    seen = preview(Cron("30 2 * * *", NEW_YORK), SPRING, 3)

    assert [shown(run) for run in seen.around] == [
        "Sun 09 03:00 EDT | 07:00 | 07:00 gap",
        "Mon 10 02:30 EDT | 06:30 | 06:30 offset",
    ]


def test_a_wildcard_runs_twice_in_a_fold_and_not_in_a_gap() -> None:
    spring = preview(Cron("0 * * * *", NEW_YORK), datetime(2025, 3, 9, 5, 30, tzinfo=UTC), 3)
    autumn = preview(Cron("0 * * * *", NEW_YORK), datetime(2025, 11, 2, 4, 30, tzinfo=UTC), 3)

    assert [shown(run) for run in spring.runs] == [
        "Sun 09 01:00 EST | 06:00 | 06:00",
        "Sun 09 03:00 EDT | 07:00 | 07:00 gap",
        "Sun 09 04:00 EDT | 08:00 | 08:00",
    ]
    assert [shown(run) for run in autumn.runs] == [
        "Sun 02 01:00 EDT | 05:00 | 05:00 fold",
        "Sun 02 01:00 EST | 06:00 | 06:00 fold offset",
        "Sun 02 02:00 EST | 07:00 | 07:00",
    ]


def test_an_offset_is_marked_once() -> None:
    runs = preview(Cron("0 9 * * *", NEW_YORK), SPRING, 10).runs

    assert [run.local.day for run in runs if [mark.kind for mark in run.marks] == [MarkKind.OFFSET]] == [9]


def test_without_clock_changes_nothing_is_appended() -> None:
    for schedule in (every("1d"), Cron("0 2 * * *", "Pacific/Kiritimati")):
        seen = preview(schedule, SPRING, 3, "Europe/Berlin")
        assert (len(seen.runs), seen.change, seen.around) == (3, None, ())


@pytest.mark.parametrize("count", [0, 101, True])
def test_a_preview_is_bounded(count: int) -> None:
    with pytest.raises(InvalidInput, match="count="):
        preview(every("1s"), SPRING, count)


def test_an_unknown_zone_of_the_viewer_is_refused() -> None:
    with pytest.raises(InvalidInput, match="Europe/Berlin"):
        preview(every("1s"), SPRING, 1, "Europe/Berln")
