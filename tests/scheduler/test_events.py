"""Events that plain SQL emits: schedulers expand each of them once, whatever is killed on the way."""

import asyncio
import signal
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest
from tests.conftest import Raw, eventually
from tests.scheduler.test_fire_loop import Rounds, loop_on, running, turns
from tests.scheduler.timetable import ACME, HOUR, Timetable
from tests.store.bench import LEASE
from tests.telemetry.samples import samples_of
from tests.worker.shop import Processes, Shop, only

from leasehold.engines import engine_for
from leasehold.model.decision import DecisionKind, Reason
from leasehold.model.event import NewEvent, event_id, patterns_of
from leasehold.model.job import JobRecord, Source
from leasehold.model.status import Status
from leasehold.model.trigger import NewTrigger, Trigger
from leasehold.scheduler import FireLoop, fire_due_schedules
from leasehold.store import Filter, FireRound, NextFire, Store, Subscription, WorkerFacts
from leasehold.telemetry import Listeners
from leasehold.telemetry.metrics import Metrics
from leasehold.worker import Job

MAIN = ("-c", "from leasehold.cli import main; main()")
FOLDER = "provider.folder.updated"
EMIT = """
from leasehold import Leasehold
Leasehold().tenant("acme").emit("provider.folder.updated", {"path": "/a"})
"""


class Outbox:
    """Events of one tenant that SQL emits, and what became of them."""

    def __init__(self, timetable: Timetable, observer: Raw) -> None:
        self.timetable = timetable
        self.store = timetable.store
        self._observer = observer

    async def add(self, **fields: Any) -> Trigger:
        rule = {"label": "sync", "definition": "report", "event": FOLDER, "dedupe_window": 0, **fields}
        return await self.store.triggers(ACME).add(NewTrigger(**rule))

    async def emit(self, data: str = '{"path": "/a"}', name: str = FOLDER, own: UUID | None = None) -> bool:
        """Returns whether the event is expanded."""
        call = "select expanded from leasehold.emit('acme', $1, $2::jsonb, id => $3)"
        return bool(await self._observer.fetchval(call, name, data, own))

    async def jobs(self) -> list[JobRecord]:
        return list((await self.store.tenant(ACME).find(Filter(source=Source.EVENT), None, 1000)).jobs)

    async def waiting(self) -> int:
        return sum(event.expanded_at is None for event in await self.store.events(ACME).list(1000))

    async def until_expanded(self) -> None:
        async def expanded() -> bool:
            return await self.waiting() == 0

        await eventually(expanded, what="events that are expanded")


@pytest.fixture
async def outbox(timetable: Timetable, observer: Raw) -> Outbox:
    return Outbox(timetable, observer)


# ------------------------------------------------------------------------------------------------------------ expand


async def test_the_jobs_of_an_expanded_event_are_counted(outbox: Outbox) -> None:
    metrics = Metrics()
    await outbox.add()
    await outbox.add(label="another")
    await outbox.emit()
    await fire_due_schedules(outbox.store, listeners=Listeners([metrics]))
    assert len(await outbox.jobs()) == 2
    count = samples_of(metrics).total
    assert count("leasehold_enqueued_total", job_type="report", source="event") == 2
    assert count("leasehold_enqueued_total") == 2


async def test_an_event_without_triggers_is_expanded_at_once(outbox: Outbox) -> None:
    assert await outbox.emit()
    assert await outbox.waiting() == 0


async def test_an_event_with_triggers_waits_for_a_worker(outbox: Outbox) -> None:
    await outbox.add(payload={"path": "{{event.path}}"})
    assert not await outbox.emit()
    assert (await outbox.waiting(), await outbox.jobs()) == (1, [])
    assert await outbox.timetable.fire() == 1
    (job,) = await outbox.jobs()
    assert (job.payload, await outbox.waiting()) == ({"path": "/a"}, 0)


async def test_an_event_is_expanded_once(outbox: Outbox) -> None:
    await outbox.add()
    await outbox.emit()
    assert [await outbox.timetable.fire() for _ in range(3)] == [1, 0, 0]


@pytest.mark.parametrize("trigger_remains", [True, False])
async def test_a_repeated_emit_tells_that_the_event_waits(outbox: Outbox, trigger_remains: bool) -> None:
    trigger, own = await outbox.add(), uuid4()
    await outbox.emit(own=own)
    if not trigger_remains:
        await outbox.store.triggers(ACME).delete(trigger.id)
    again = await outbox.store.events(ACME).emit(NewEvent(FOLDER, {"path": "/a"}, id=event_id(own)))
    assert (again.created, again.expanded, await outbox.emit(own=own)) == (False, False, False)
    await outbox.timetable.fire()
    again = await outbox.store.events(ACME).emit(NewEvent(FOLDER, {"path": "/a"}, id=event_id(own)))
    assert (again.created, again.expanded, await outbox.emit(own=own)) == (False, True, True)


async def test_many_schedulers_expand_each_event_once(outbox: Outbox, database_url: str) -> None:
    triggers = [await outbox.add(label=f"number {number}") for number in range(3)]
    for _ in range(60):
        await outbox.emit()
    stores = [await engine_for(database_url).open() for _ in range(4)]
    try:
        while await outbox.waiting():
            await asyncio.gather(*(store.schedules.fire_due() for store in stores))
    finally:
        for store in stores:
            await store.close()
    assert len(await outbox.jobs()) == 180
    assert [len(await outbox.timetable.decisions(trigger)) for trigger in triggers] == [60] * 3


async def test_a_rolled_back_event_is_not_there(outbox: Outbox, observer: Raw) -> None:
    await outbox.add()
    transaction = observer.transaction()
    await transaction.start()
    await outbox.emit()
    await transaction.rollback()
    assert await outbox.timetable.fire() == 0
    assert await outbox.store.events(ACME).list(10) == []


async def test_a_trigger_that_is_younger_than_the_event_is_not_asked(outbox: Outbox) -> None:
    await outbox.add(label="older")
    await outbox.emit()
    await outbox.timetable.clock.move(HOUR)
    younger = await outbox.add(label="younger")
    assert await outbox.timetable.fire() == 1
    assert await outbox.timetable.decisions(younger) == []


async def test_an_event_that_the_database_refuses_stops_no_other(outbox: Outbox, observer: Raw) -> None:
    trigger = await outbox.add(payload={"path": "{{event.path}}"})
    await observer.execute(
        """
        create function leasehold.refuse_decision() returns trigger language plpgsql as $$
        begin raise exception 'no room'; end $$;
        create trigger refused before insert on leasehold.jobs for each row
        when (new.payload ->> 'path' = '/bad') execute function leasehold.refuse_decision()
        """
    )
    for path in ("/bad", "/good"):
        await outbox.emit(f'{{"path": "{path}"}}')
    await outbox.timetable.fire()
    assert [job.payload for job in await outbox.jobs()] == [{"path": "/good"}]
    refused, fired = await outbox.timetable.decisions(trigger)
    assert (refused.kind, refused.reason, fired.kind) == (DecisionKind.ERROR, Reason.REFUSED, DecisionKind.FIRED)
    assert "no room" in refused.why
    assert await outbox.waiting() == 0


async def test_an_expansion_costs_a_bounded_number_of_statements(outbox: Outbox, database_url: str) -> None:
    for number in range(40):
        await outbox.add(label=f"number {number}")
    await outbox.emit()
    kit = engine_for(database_url).test_kit()
    store = await kit.open()
    try:
        before = len(kit.statements())
        assert (await store.schedules.fire_due()).fired == 40
        assert list(kit.statements())[before:] == [
            "scheduler/due",
            "scheduler/next",
            "scheduler/unexpanded",
            "fleet/definition_versions",
            "events/place",
            "scheduler/next",
        ]
    finally:
        await store.close()


@pytest.mark.parametrize("name", ["a", "a.b", "a.b.c-d.e_f", ".".join("abcdefghijklmnop")])
async def test_patterns_are_the_same_in_sql(observer: Raw, name: str) -> None:
    found = await observer.fetchval("select leasehold.event_patterns($1)", name)
    assert set(found) == set(patterns_of(name))


# ------------------------------------------------------------------------------------------------------------ refuse


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        ("'', 'list.created'", "L1000", "is not a tenant id"),
        ("'acme', 'provider.*'", "L1000", "is not the name of an event"),
        ("'acme', null", "L1000", "is not the name of an event"),
        ("'acme', 'list.created', '[]'", "L1001", "data: array is not an object"),
        ("'acme', 'list.created', null", "L1001", "data: null is not an object"),
        ("'acme', 'list.created', created_by => repeat('x', 1001)", "L1000", "at most 1000 are kept"),
    ],
)
async def test_sql_refuses_events_that_can_not_be_kept(observer: Raw, arguments: str, code: str, why: str) -> None:
    with pytest.raises(asyncpg.PostgresError, match=why) as raised:
        await observer.execute(f"select leasehold.emit({arguments})")
    assert raised.value.sqlstate == code


async def test_sql_refuses_unknown_tenants_if_they_are_strict(observer: Raw, timetable: Timetable) -> None:
    await timetable.store.set_strict_tenants(True)
    with pytest.raises(asyncpg.PostgresError, match="was never registered"):
        await observer.execute("select leasehold.emit('stranger', 'list.created')")


async def test_sql_adds_the_tenant_of_an_event(observer: Raw, timetable: Timetable) -> None:
    await observer.execute("select leasehold.emit('fresh', 'list.created')")
    assert await observer.fetchval("select count(*) from leasehold.tenants where id = 'fresh'") == 1


# -------------------------------------------------------------------------------------------------------------- wake


async def test_an_announced_event_is_expanded_by_a_deputy(outbox: Outbox) -> None:
    rounds = Rounds(FireRound(0, False, HOUR), FireRound(0, False, HOUR, expanded=1))
    loop = loop_on(rounds)
    async with running(loop):
        loop.expect(HOUR * 0)
        await rounds.look_again()
        await turns()
        assert not loop.is_first  # another loop has made that fire
        loop.hear(NextFire(HOUR * 0, event=True))
        await rounds.look_again()
        await turns()
    assert loop.is_first


async def test_a_worker_that_rests_expands_an_event(shop: Shop, outbox: Outbox) -> None:
    """Only the notification can tell it."""

    async def report(job: Job, payload: dict[str, Any]) -> None: ...

    await outbox.timetable.clock.freeze(None)
    await outbox.add()
    async with shop.working(only(report), make_schedules=FireLoop) as worker:
        await shop.at_rest(worker)
        await outbox.emit()
        await outbox.until_expanded()
        (job,) = await outbox.jobs()
        assert (await shop.ended(job.id)).status is Status.SUCCEEDED


async def test_a_heartbeat_tells_of_an_event_that_waits(shop: Shop, outbox: Outbox, store: Store) -> None:
    await outbox.add()
    registration = await store.join(Subscription(("report",), None), WorkerFacts("test", 1), LEASE)
    assert (await store.renew(registration, [], LEASE)).next_fire is None
    await outbox.emit()
    assert (await store.renew(registration, [], LEASE)).next_fire == HOUR * 0


# -------------------------------------------------------------------------------------------------------------- kill


@pytest.mark.parametrize(("point", "kept"), [("before_event_placed", 0), ("after_event_placed", 1)])
async def test_a_killed_emit_leaves_all_or_nothing(
    processes: Processes, outbox: Outbox, point: str, kept: int
) -> None:
    for number in range(3):
        await outbox.add(label=f"number {number}")
    killed = processes.python("-c", EMIT, LEASEHOLD_FAULT=f"{point}:exit")
    assert await killed.code() == 9
    assert (len(await outbox.store.events(ACME).list(10)), len(await outbox.jobs())) == (kept, 3 * kept)
    again = processes.python("-c", EMIT)
    assert await again.code() == 0
    assert len(await outbox.jobs()) == 3 * kept + 3


@pytest.mark.parametrize("point", ["before_event_expanded", "after_event_expanded"])
async def test_a_killed_scheduler_leaves_each_event_once(processes: Processes, outbox: Outbox, point: str) -> None:
    await outbox.timetable.clock.freeze(None)
    triggers = [await outbox.add(label=f"number {number}") for number in range(2)]
    for _ in range(3):
        await outbox.emit()
    killed = processes.python(*MAIN, "scheduler", LEASEHOLD_FAULT=f"{point}:exit")
    assert await killed.code() == 9
    other = processes.python(*MAIN, "scheduler")
    await outbox.until_expanded()
    assert len(await outbox.jobs()) == 6
    assert [len(await outbox.timetable.decisions(trigger)) for trigger in triggers] == [3, 3]
    other.send(signal.SIGTERM)
    assert await other.code() == 0
