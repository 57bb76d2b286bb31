"""Rounds of a scheduler: how much one transaction plans while it holds its locks."""

import pytest
from tests.scheduler.timetable import HOUR, Timetable

from leasehold.engines.postgres import schedules
from leasehold.store import Store


async def test_a_round_ends_when_its_planning_takes_long(
    timetable: Timetable, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedules, "PLANNING", 0.0)
    for number in range(3):
        await timetable.add(label=f"number {number}")
    await timetable.clock.move(HOUR)
    rounds = [await store.schedules.fire_due() for _ in range(3)]
    assert [(done.fired, done.more) for done in rounds] == [(1, True), (1, True), (1, False)]
