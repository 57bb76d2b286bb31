"""Schedulers that are killed while they fire: every fire time makes exactly one job."""

import signal
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from tests.conftest import Raw, eventually
from tests.worker.shop import Process, Processes

from leasehold.engines import engine_for
from leasehold.model.definition import Definition
from leasehold.model.job import tenant_id
from leasehold.model.schedule import Every
from leasehold.model.trigger import NewTrigger
from leasehold.store import Store

pytestmark = pytest.mark.faults

ACME = tenant_id("acme")
SCHEDULERS, SCHEDULES, WAVES, KILLS_PER_WAVE = 5, 100, 10, 2
HOUR = timedelta(hours=1)
MAIN = ("-c", "from leasehold.cli import main; main()")
# A transaction that fires can be seen from outside while it is open, and takes some time.
VISIBLE = """
    create function leasehold.show_and_wait() returns trigger language plpgsql as $$
    begin
        perform pg_advisory_xact_lock_shared(77, current_setting('leasehold_test.number')::integer);
        perform pg_sleep(0.004);
        return new;
    end $$;
    create trigger visible before insert on leasehold.trigger_decisions
    for each row execute function leasehold.show_and_wait();
"""
FIRING = "select objid::integer from pg_locks where locktype = 'advisory' and classid = 77 and objid = any ($1)"


class Crowd:
    """Five schedulers at any time; one that is killed is replaced."""

    def __init__(self, processes: Processes, url: str, observer: Raw) -> None:
        self._processes = processes
        self._url = url
        self._observer = observer
        self._numbers: Iterator[int] = iter(range(1, 1000))
        self._running: dict[int, Process] = {}
        self.kills = 0

    def fill(self) -> None:
        while len(self._running) < SCHEDULERS:
            number = next(self._numbers)
            url = f"{self._url}&leasehold_test.number={number}"
            self._running[number] = self._processes.python(
                *MAIN, "scheduler", LEASEHOLD_URL=url, LEASEHOLD_FALLBACK="0.2s"
            )

    async def kill_one_that_fires(self) -> None:
        """Kills a scheduler in the middle of its transaction."""

        async def killed() -> bool:
            found = await self._observer.fetch(FIRING, list(self._running))
            for row in found:
                process = self._running.pop(row[0], None)
                if process is not None:
                    process.send(signal.SIGKILL)
                    self.kills += 1
                    return True
            return False

        await eventually(killed, what="a scheduler that fires")
        self.fill()


async def test_each_fire_is_made_once_though_schedulers_are_killed(
    store: Store, processes: Processes, database_url: str, observer: Raw
) -> None:
    clock, begin = engine_for(database_url).test_kit().clock(), datetime(2027, 3, 10, 12, tzinfo=UTC)
    await clock.freeze(begin)
    await store.sync_definitions([Definition("report")])
    await observer.execute(VISIBLE)
    for number in range(SCHEDULES):
        rule = NewTrigger(
            label=f"number {number}", definition="report", schedule=Every("1h"), payload={"number": number}
        )
        await store.triggers(ACME).add(rule)
    crowd = Crowd(processes, database_url, observer)
    crowd.fill()
    for wave in range(1, WAVES + 1):
        await clock.move(HOUR)
        for _ in range(KILLS_PER_WAVE):
            await crowd.kill_one_that_fires()
        await eventually(partial(_made, observer, wave * SCHEDULES), what=f"the fires of wave {wave}")
    made = Counter(
        (row["number"], row["scheduled_for"])
        for row in await observer.fetch("select payload ->> 'number' as number, scheduled_for from leasehold.jobs")
    )
    expected = {(str(number), begin + wave * HOUR) for number in range(SCHEDULES) for wave in range(1, WAVES + 1)}
    assert (set(made), set(made.values())) == (expected, {1})
    assert crowd.kills == WAVES * KILLS_PER_WAVE
    decided = await observer.fetchval("select count(*) from leasehold.trigger_decisions where kind = 'fired'")
    assert decided == SCHEDULES * WAVES


async def _made(observer: Raw, count: int) -> bool:
    return int(await observer.fetchval("select count(*) from leasehold.jobs")) >= count
