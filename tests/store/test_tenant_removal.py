"""The removal of a tenant: it takes no new work, what runs is stopped, and all that it had goes."""

from datetime import timedelta

import pytest
from tests.store.bench import Bench, EngineUnderTest, keyed
from tests.store.event_kit import Events
from tests.store.test_operations import run
from tests.tenant_kit import ACME, HOUR, OTHER

from leasehold.errors import TenantDeleted, UnknownTenant
from leasehold.model.access import Principal, Role
from leasehold.model.job import LogLine, NewJob, tenant_id
from leasehold.model.limits import Limits, Pause, Scope, ScopeKind
from leasehold.model.operation import OperationKind, OperationState
from leasehold.model.outcome import Canceled
from leasehold.model.series import window
from leasehold.model.status import Status
from leasehold.operations import saved_views, tokens
from leasehold.store import Filter, NewOperation

DELETE = NewOperation(OperationKind.DELETE_TENANT, ACME)


async def test_all_that_a_tenant_had_is_removed(bench: Bench) -> None:
    claim = await bench.running(dedupe=keyed())
    await bench.store.append_log([(claim, LogLine(1, "a line"))])
    await bench.fail(claim, final=True)
    succeeded, waiting = await bench.succeeded(), await bench.enqueue(delay=HOUR)
    scope = Scope(ScopeKind.TENANT, ACME)
    await bench.store.limit(scope, Limits(max_running=1))
    await bench.store.pause(scope, Pause("moving"))
    ended = await run(bench, await bench.store.operations.begin(DELETE))
    assert ended.state is OperationState.DONE
    for job in (claim.job, succeeded, waiting):
        assert await bench.jobs.get(job) is None
    assert list(await bench.jobs.attempts(claim.job)) == []
    assert list(await bench.jobs.lines(claim.job, 1)) == []
    assert list((await bench.jobs.find(Filter(), None, 10)).jobs) == []
    assert ACME not in await bench.store.tenants()
    assert scope not in [record.scope for record in await bench.store.scopes()]
    assert await bench.store.operations.get(ended.id) == ended


async def test_a_tenant_that_is_being_deleted_takes_no_jobs(bench: Bench) -> None:
    await bench.enqueue()
    await bench.store.operations.begin(DELETE)
    for jobs in (
        [NewJob(definition="report")],
        [NewJob(definition="report"), NewJob(definition="report")],
        [NewJob(definition="report", dedupe=keyed())],
    ):
        with pytest.raises(TenantDeleted, match=r"LH-1015: .* is being deleted"):
            await bench.jobs.enqueue(jobs)


async def test_a_removal_takes_triggers_and_events_with_it(bench: Bench, engine: EngineUnderTest) -> None:
    await bench.enqueue()
    events = Events(engine)
    trigger = await events.add()
    await events.emit()
    operation = await bench.store.operations.begin(DELETE)
    with pytest.raises(TenantDeleted, match="is being deleted"):
        await events.emit()
    assert (await run(bench, operation)).state is OperationState.DONE
    assert await bench.store.triggers(ACME).get(trigger.id) is None
    assert await events.decisions(trigger) == []
    assert list(await bench.store.events(ACME).list(10)) == []


async def test_a_removal_takes_tokens_with_it(bench: Bench) -> None:
    bound, _ = await tokens.create(bench.store, "its own", Role.VIEWER, tenant=ACME)
    other, _ = await tokens.create(bench.store, "of another", Role.VIEWER, tenant=OTHER)
    await bench.enqueue()
    await run(bench, await bench.store.operations.begin(DELETE))
    assert await bench.store.tokens.get(bound.id) is None
    assert await bench.store.tokens.get(other.id) is not None


async def test_a_removal_takes_saved_views_with_it(bench: Bench) -> None:
    person = Principal("ada", Role.OPERATOR, None)
    for tenant in (ACME, OTHER):
        await saved_views.save(bench.store, tenant, person, "mine", "limit=25")
    await bench.enqueue()
    await run(bench, await bench.store.operations.begin(DELETE))
    assert list(await saved_views.read(bench.store, ACME, person)) == []
    assert len(await saved_views.read(bench.store, OTHER, person)) == 1


@pytest.mark.abilities("series")
async def test_a_removal_takes_figures_for_charts_with_it(bench: Bench) -> None:
    await bench.succeeded()
    await bench.store.tenant(OTHER).enqueue([NewJob(definition="report")])
    await bench.move_clock(2 * HOUR)
    while await bench.store.roll_up():
        continue
    windows = [window(length, await bench.store.series_progress()) for length in ("6h", "7d")]
    assert all([await bench.jobs.figures([""], each) for each in windows])
    await run(bench, await bench.store.operations.begin(DELETE))
    assert [list(await bench.jobs.figures([""], each)) for each in windows] == [[], []]
    assert all([await bench.store.tenant(OTHER).figures([""], each) for each in windows])


async def test_a_removal_stops_running_jobs_and_waits_for_them(bench: Bench) -> None:
    claim = await bench.running()
    operation = await bench.store.operations.begin(DELETE)
    stepped = await bench.store.operations.step(operation.id)
    assert stepped.operation is not None
    assert "running" in (stepped.operation.error or "")
    assert (await bench.store.renew(await bench.worker(), [claim], HOUR)).cancels == {claim}
    assert await bench.status(claim.job) is Status.RUNNING
    await bench.finish(claim, Canceled())
    assert (await run(bench, operation)).state is OperationState.DONE


async def test_jobs_of_workers_that_are_gone_are_removed(bench: Bench) -> None:
    registration = await bench.join(lease=timedelta(seconds=30))
    claim = await bench.running(registration=registration)
    await bench.move_clock(HOUR)
    assert (await run(bench, await bench.store.operations.begin(DELETE))).state is OperationState.DONE
    assert await bench.jobs.get(claim.job) is None


async def test_a_deleted_tenant_can_come_back(bench: Bench, engine: EngineUnderTest) -> None:
    await bench.enqueue()
    await run(bench, await bench.store.operations.begin(DELETE))
    job = await bench.enqueue()
    assert await bench.status(job) is Status.QUEUED
    assert ACME in await bench.store.tenants()


async def test_an_aborted_removal_opens_the_tenant_again(bench: Bench) -> None:
    await bench.enqueue()
    operation = await bench.store.operations.begin(DELETE)
    await bench.store.operations.abort(operation.id)
    await bench.store.operations.step(operation.id)
    await bench.enqueue()


async def test_a_removal_under_way_is_not_begun_twice(bench: Bench) -> None:
    await bench.enqueue()
    first = await bench.store.operations.begin(DELETE)
    assert (await bench.store.operations.begin(DELETE)).id == first.id


async def test_an_unknown_tenant_can_not_be_deleted(bench: Bench) -> None:
    with pytest.raises(UnknownTenant, match="no tenant is called 'nowhere'"):
        await bench.store.operations.begin(NewOperation(OperationKind.DELETE_TENANT, tenant_id("nowhere")))
