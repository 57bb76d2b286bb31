"""Next and last fires of every zone against a walk over the minutes, which is written differently."""

from concurrent.futures import ProcessPoolExecutor
from datetime import datetime, timedelta

import pytest
from tests.model.clock_walk import (
    CRONS,
    END,
    START,
    distinct_zones,
    readings,
    walk,
    windows_around_changes,
    zones_with_other_clocks,
)

from leasehold.model.cron import Cron
from leasehold.model.schedule import fires_between

SECOND = timedelta(seconds=1)
MANY = 1_000_000


@pytest.mark.parametrize("part", range(4))
def test_fires_around_clock_changes_are_those_of_the_walk(part: int) -> None:
    zones = distinct_zones()[part::4]
    assert len(zones) > 50

    for name in zones:
        for start, end in windows_around_changes(name):
            seen = readings(name, start, end)
            for walked in CRONS:
                cron = Cron(walked.cron, name)
                expected = list(walk(walked, seen))
                assert fires_between(cron, start, end - SECOND, MANY) == expected, (name, walked.cron, start)
                assert _backwards(cron, start, end - SECOND) == expected, (name, walked.cron, start)


@pytest.mark.faults
@pytest.mark.timeout(1800)
def test_fires_of_two_years_are_those_of_the_walk() -> None:
    with ProcessPoolExecutor() as pool:
        differing = [found for found in pool.map(_differing, zones_with_other_clocks()) if found]

    assert differing == []


def _differing(name: str) -> list[str]:
    seen = readings(name, START, END)
    return [
        f"{name} {walked.cron}"
        for walked in CRONS
        if fires_between(Cron(walked.cron, name), START, END - SECOND, MANY) != list(walk(walked, seen))
    ]


def _backwards(cron: Cron, start: datetime, end: datetime) -> list[datetime]:
    found: list[datetime] = []
    fire = cron.last_at(end)
    while fire is not None and fire > start:
        found.insert(0, fire)
        fire = cron.last_at(fire - SECOND)
    return found
