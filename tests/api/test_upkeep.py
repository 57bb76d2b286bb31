"""The server's upkeep for a fleet that has only workers over HTTP."""

import asyncio
from datetime import timedelta

import pytest
from tests.api.conftest import Client
from tests.api.test_workers_over_http import joined, poll
from tests.conftest import eventually
from tests.tenant_kit import ACME

from leasehold import upkeep
from leasehold.engines import engine_for
from leasehold.model.access import Role
from leasehold.model.job import JobId
from leasehold.operations import remote_upkeep


async def begin_cancel(client: Client) -> str:
    """Begins the cancel of all jobs that wait. Returns the path of the operation."""
    for _ in range(3):
        await client.enqueue()
    begun = await client.send("POST", "/operations", {"kind": "cancel", "statuses": ["queued"]})
    assert begun.status_code < 300, begun.text
    return f"/operations/{begun.json()['id']}"


async def until_done(client: Client, operation: str) -> None:
    async def is_done() -> bool:
        return bool((await client.send("GET", operation)).json()["state"] == "done")

    await eventually(is_done, what="the end of the operation")


async def test_the_server_runs_an_operation_after_a_heartbeat(client: Client) -> None:
    worker = await joined(client)
    operation = await begin_cancel(client)
    assert (await client.send("GET", operation)).json()["state"] == "planned"
    await client.send("POST", "/worker/renew", {"worker_id": worker}, role=Role.WORKER, tenant=None)
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
