"""The server's upkeep for a fleet that has only workers over HTTP, and operations of fleets without workers."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest
from tests.api.conftest import GLOBEX, Client
from tests.api.test_workers_over_http import joined, poll
from tests.conftest import eventually
from tests.telemetry.samples import Samples
from tests.tenant_kit import ACME

from leasehold import upkeep
from leasehold.engines import engine_for
from leasehold.engines.dynamodb import removal
from leasehold.errors import Unreachable
from leasehold.model.access import Role
from leasehold.model.job import JobId
from leasehold.model.operation import OperationId, OperationKind, OperationState
from leasehold.operations import bulk, remote_upkeep
from leasehold.operations.catalog import Catalog
from leasehold.operations.remote_work import RemoteWork
from leasehold.store import Filter
from leasehold.telemetry import AttemptEnd, Event, JobReclaimed, Listener


async def begin_cancel(client: Client) -> str:
    """Begins the cancel of all jobs that wait. Returns the path of the operation."""
    for _ in range(3):
        await client.enqueue()
    begun = await client.send("POST", "/operations", {"kind": "cancel", "statuses": ["queued"]})
    assert begun.status_code < 300, begun.text
    return f"/operations/{begun.json()['id']}"


async def until_done(client: Client, operation: str, role: Role = Role.TENANT_ADMIN) -> None:
    async def is_done() -> bool:
        """An answer may be 429: this asks as often as it can."""
        return bool((await client.send("GET", operation, role=role)).json().get("state") == "done")

    await eventually(is_done, what="the end of the operation")


async def begin_elsewhere(client: Client) -> OperationId:
    """Begins the cancel of a job in another process, of which the server is not told."""
    await client.enqueue()
    new = bulk.new_operation(OperationKind.CANCEL, ACME, Filter())
    return (await bulk.begin(client.app.store, await bulk.plan(client.app.store, new))).id


async def state_of(client: Client, operation: OperationId) -> OperationState:
    return (await bulk.get(client.app.store, operation)).state


async def test_the_server_runs_an_operation_after_a_heartbeat(client: Client) -> None:
    worker = await joined(client)
    operation = await begin_elsewhere(client)
    await client.send("POST", "/worker/renew", {"worker_id": worker}, role=Role.WORKER, tenant=None)

    async def is_done() -> bool:
        return await state_of(client, operation) is OperationState.DONE

    await eventually(is_done, what="the end of the operation")


@pytest.mark.both_engines
async def test_the_server_runs_an_operation_without_any_worker(client: Client) -> None:
    await until_done(client, await begin_cancel(client))

    async def has_loops(catalog: Catalog) -> bool:
        return RemoteWork.of(catalog.store).upkeep.runs

    assert not await client.api.state.guard.backend.call(has_loops)


@pytest.mark.both_engines
async def test_the_server_deletes_a_tenant_without_any_worker(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On DynamoDB a removal waits for producers: 1 s here instead of 30, in which this asks all the time."""
    monkeypatch.setattr(removal, "LAST_WRITES", timedelta(seconds=1))
    await client.enqueue(GLOBEX)
    begun = await client.send("DELETE", "/admin/tenants/globex", role=Role.SUPER_ADMIN)
    assert begun.status_code == 202, begun.text
    await until_done(client, f"/operations/{begun.json()['id']}", Role.SUPER_ADMIN)

    async def is_gone() -> bool:
        return (await client.send("GET", "/admin/tenants/globex", role=Role.SUPER_ADMIN)).status_code == 404

    await eventually(is_gone, what="the tenant is not found")


async def test_a_look_at_an_operation_moves_it_on(client: Client) -> None:
    """The server that began it may have been stopped."""
    operation = await begin_elsewhere(client)
    assert await state_of(client, operation) is OperationState.PLANNED
    await until_done(client, f"/operations/{operation}")


async def test_an_operation_that_cannot_be_run_is_told_in_the_log(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def refuse(*_: object, **__: object) -> int:
        raise Unreachable("the database went away.", fix="Wait.")

    with monkeypatch.context() as patched:
        patched.setattr(remote_upkeep, "run_while_due", refuse)
        operation = await begin_cancel(client)

        async def is_told() -> bool:
            return "left to workers, or to the next look" in caplog.text

        await eventually(is_told, what="a line about the operation")
    await until_done(client, operation)


async def test_the_server_hears_of_an_operation_at_once(client: Client) -> None:
    """A worker over HTTP waits for wakes. It does not hear of operations, which it could not run."""
    worker = await joined(client)
    first = await poll(client, worker, {})
    polling = asyncio.create_task(poll(client, worker, first))
    await asyncio.sleep(0)
    operation = await begin_cancel(client)
    await until_done(client, operation)
    polling.cancel()
    assert {"kind": "operation"} not in (await poll(client, worker, first, wait=0))["wakes"]


async def test_the_server_adds_up_minutes(client: Client, database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "ROLL_UP_EVERY", 0.05)
    before = (await client.app.store.series_progress()).minutes
    await engine_for(database_url).test_kit().clock().move(timedelta(minutes=3))
    await joined(client)

    async def is_added_up() -> bool:
        return (await client.app.store.series_progress()).minutes > before

    await eventually(is_added_up, what="the sums of the last minutes")


async def test_the_server_prunes(client: Client, database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers over HTTP may not delete anything themselves."""
    monkeypatch.setattr(remote_upkeep, "PRUNE_EVERY", timedelta(milliseconds=50))
    job = JobId(await client.enqueue())
    await client.app.atick()
    await engine_for(database_url).test_kit().clock().move(timedelta(days=31))
    await joined(client)

    async def is_gone() -> bool:
        return await client.app.store.tenant(ACME).get(job) is None

    await eventually(is_gone, what="the end of the job's retention")


class Crashes(Listener):
    wants = ()

    def __init__(self) -> None:
        self.jobs: list[str] = []

    def on_reclaims(self, ends: Sequence[AttemptEnd]) -> None:
        self.jobs += [claim.job for claim, *_ in ends]


@pytest.mark.both_engines
async def test_a_reclaim_by_the_server_reaches_its_listeners(
    client: Client, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The only other line is that of the logger which a program with log lines of events turns off."""
    crashes = client.app.observe(Crashes())
    reclaims: list[Event] = []
    client.app.observe(lambda event: reclaims.append(event) if isinstance(event, JobReclaimed) else None)
    job = await client.enqueue()
    dead = await joined(client)
    claimed = await client.send("POST", "/worker/claim", {"worker_id": dead}, role=Role.WORKER, tenant=None)
    assert [each["job_id"] for each in claimed.json()["claims"]] == [job]
    await engine_for(database_url).test_kit().clock().move(timedelta(hours=1))
    heir = await joined(client)

    async def is_reclaimed() -> bool:
        await client.send("POST", "/worker/renew", {"worker_id": heir}, role=Role.WORKER, tenant=None)
        return bool(reclaims)

    await eventually(is_reclaimed, what="a reclaim")
    assert {record.name for record in caplog.records if job in record.getMessage()} == {"leasehold.worker.events"}
    (told,) = reclaims
    assert isinstance(told, JobReclaimed)
    assert (told.job, told.worker, told.by, told.error_code) == (job, dead, None, "lease_lost")
    assert crashes.jobs == [job]
    text = (await client.send("GET", "/metrics", role=Role.SUPER_ADMIN)).text
    assert Samples(text).total("leasehold_leases_reclaimed_total", job_type="report") == 1
    assert Samples(text).total("leasehold_attempts_total", job_type="report", status="crashed") == 1
