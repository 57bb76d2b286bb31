"""Streams: live changes and log lines as server-sent events."""

import asyncio
from dataclasses import replace
from typing import Any

import httpx
import pytest
from tests.api.conftest import ACME, GLOBEX, Client
from tests.api.open_stream import opened
from tests.conftest import eventually

from leasehold.api import context, streams
from leasehold.api.live import MOST_JOBS, Listener, LiveChanges
from leasehold.cli.api_server import address_of, bind, serving
from leasehold.errors import Unreachable
from leasehold.model.access import Role
from leasehold.model.job import JobId
from leasehold.operations import bulk, tokens
from leasehold.store import Changed


async def run_one(client: Client) -> None:
    await client.app.atick()


# Live changes


async def test_a_stream_names_the_jobs_that_changed(client: Client) -> None:
    async with opened(client) as stream:
        await stream.next("reload")
        job = await client.enqueue(payload={"name": "a secret name"})
        changed = await stream.next("changed")
        assert changed == {"jobs": [{"tenant_id": ACME, "id": job}], "more": False, "tenants": [ACME], "workers": []}
        await run_one(client)
        assert (await stream.next("changed"))["jobs"] == [{"tenant_id": ACME, "id": job}]
        assert "a secret name" not in stream.text


async def test_a_stream_has_no_byte_of_another_tenant(client: Client) -> None:
    async with opened(client) as own, opened(client, tenant=GLOBEX) as other:
        await own.next("reload")
        await other.next("reload")
        theirs = await client.enqueue(GLOBEX)
        await run_one(client)
        await other.until(theirs)
        ours = await client.enqueue()
        await own.until(ours)
        assert theirs not in own.text
        assert GLOBEX not in own.text
        assert ours not in other.text


async def test_a_super_admin_streams_all_or_one_tenant(client: Client) -> None:
    admin: dict[str, Any] = {"role": Role.SUPER_ADMIN, "tenant": None}
    async with opened(client, **admin) as every, opened(client, **admin, query="tenant=acme") as one:
        await every.next("reload")
        await one.next("reload")
        theirs, ours = await client.enqueue(GLOBEX), await client.enqueue()
        assert (await every.next("changed"))["more"] is True
        await run_one(client)
        for job in (theirs, ours):
            await every.until(job)
        await one.until(ours)
        assert theirs not in one.text


async def test_a_stream_of_all_names_workers_that_changed(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leasehold.api.live.BETWEEN_WORKERS", 0.0)
    async with (
        opened(client, role=Role.SUPER_ADMIN, tenant=None) as admin,
        opened(client) as viewer,
    ):
        await admin.next("reload")
        await viewer.next("reload")
        worker = (
            await client.send("POST", "/worker/jobs/claim", {"definitions": ["report"]}, role=Role.WORKER)
        ).json()
        await admin.until(worker["worker_id"])
        await client.enqueue()
        await viewer.next("changed")
        assert worker["worker_id"] not in viewer.text


async def test_a_persons_retry_and_reschedule_are_told(client: Client) -> None:
    ended = await client.enqueue()
    await run_one(client)
    waiting = await client.enqueue()
    async with opened(client) as stream:
        await stream.next("reload")
        for path, sent in ((f"/jobs/{ended}/retry", None), (f"/jobs/{waiting}/reschedule", {"delay_seconds": 900})):
            answer = await client.send("POST", path, sent)
            assert answer.status_code == 200, answer.text
        await stream.until(ended)
        await stream.until(waiting)


async def test_a_bulk_retry_is_told_before_its_jobs_start(client: Client) -> None:
    await client.enqueue()
    await run_one(client)
    async with opened(client) as stream, opened(client, tenant=GLOBEX) as other:
        await stream.next("reload")
        await other.next("reload")
        answer = await client.send("POST", "/operations", {"kind": "retry", "statuses": ["succeeded"]})
        assert answer.status_code == 202, answer.text
        operation = await bulk.get(client.app.store, answer.json()["id"])
        *_, last = [each async for each in bulk.run(client.app.store, operation)]
        assert last.done == 1
        changed = await stream.next("changed")
        assert (changed["more"], changed["tenants"]) == (True, [ACME])
        theirs = await client.enqueue(GLOBEX)
        assert (await other.next("changed"))["more"] is False
        assert theirs in other.text


# One source


class CountingBackend:
    """Counts what the source asks for; `fails` makes the next question fail."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend
        self.asked = 0
        self.fails = False

    async def call(self, operation: Any) -> Any:
        self.asked += 1
        if self.fails:
            self.fails = False
            raise Unreachable("the database is away.", fix="Wait.")
        return await self._backend.call(operation)


async def test_many_streams_cost_as_much_as_one(client: Client) -> None:
    backend: Any = CountingBackend(client.api.state.guard.backend)
    live, listeners = LiveChanges(backend), [Listener(ACME) for _ in range(50)]
    for listener in listeners:
        live.open(listener)
    assert all([(await listener.take()).reload for listener in listeners])
    assert backend.asked == 2  # the watcher, and one look
    for listener in listeners:
        await live.close(listener)
    asked = backend.asked
    await asyncio.sleep(0)
    assert backend.asked == asked
    assert not [task for task in asyncio.all_tasks() if "live changes" in task.get_name()]


async def test_after_an_outage_a_stream_is_told_to_reload(client: Client) -> None:
    backend: Any = CountingBackend(client.api.state.guard.backend)
    live, listener = LiveChanges(backend), Listener(ACME)
    live.open(listener)
    assert (await listener.take()).reload
    backend.fails = True
    assert (await listener.take()).reload
    await live.close(listener)


async def test_a_stream_that_is_not_read_collects_a_bounded_number() -> None:
    listener = Listener(ACME)
    for number in range(300):
        listener.put(Changed(1.0, {ACME: frozenset({JobId(f"job-{number % 150}")})}))
    news = await listener.take()
    assert (len(news.jobs), news.more) == (MOST_JOBS, True)


# The end of a stream


async def test_a_revoked_token_ends_its_streams(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    assert context.FRESH_IN_STREAMS + streams.BETWEEN_CHECKS < 5
    monkeypatch.setattr(context, "FRESH_IN_STREAMS", 0.0)
    monkeypatch.setattr(streams, "BETWEEN_CHECKS", 0.02)
    job = await client.enqueue()
    record, text = await tokens.create(client.app.store, "ci", Role.OPERATOR, tenant=ACME)
    async with (
        opened(client, token=str(text)) as changes,
        opened(client, f"/jobs/{job}/logs/stream", token=str(text)) as lines,
    ):
        await changes.next("reload")
        await lines.until("retry")
        await tokens.revoke(client.app.store, record.id)
        await changes.until_end()
        await lines.until_end()
    assert client.api.state.guard.streams.count == 0


async def test_a_client_that_takes_nothing_is_dropped(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "LONGEST_SEND", 0.05)
    job = await client.enqueue()
    async with opened(client) as changes, opened(client, f"/jobs/{job}/logs/stream", role=Role.OPERATOR) as lines:
        await changes.next("reload")
        await lines.until("retry")
        changes.read.clear()
        lines.read.clear()
        await run_one(client)
        await changes.until_end()
        await lines.until_end()
    assert client.api.state.guard.streams.count == 0


async def test_a_quiet_stream_is_kept_open_by_pings(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "BETWEEN_PINGS", 0.02)
    async with opened(client) as stream:
        await stream.until(": ping\n\n: ping")


@pytest.mark.parametrize("has_console", [False, True])
async def test_a_server_that_stops_ends_its_streams(client: Client, has_console: bool) -> None:
    bound = bind("127.0.0.1", 0)
    headers, parts = {"Authorization": f"Bearer {await client.token()}"}, list[str]()
    began = asyncio.Event()

    async def read() -> None:
        async with (
            httpx.AsyncClient(timeout=60) as http,
            http.stream("GET", f"{address_of(bound)}/api/v1/stream", headers=headers) as answer,
        ):
            async for text in answer.aiter_text():
                parts.append(text)
                began.set()

    async with serving(client.app.console() if has_console else client.api, bound):
        reading = asyncio.create_task(read())
        await began.wait()
    await reading  # a connection that was cut off would raise


async def test_a_tenant_can_not_take_all_streams(client: Client) -> None:
    guard = client.api.state.guard
    guard.streams = type(guard.streams)(100, 1)
    async with opened(client) as first, opened(client, tenant=GLOBEX) as other:
        await first.next("reload")
        await other.next("reload")
        refused = await client.send("GET", "/stream")
        assert (refused.status_code, refused.json()["code"]) == (429, "LH-6003")


async def test_a_stream_ends_after_its_time(client: Client) -> None:
    guard = client.api.state.guard
    guard.limits = replace(guard.limits, stream_seconds=0.0)
    answer = await client.send("GET", "/stream", role=Role.VIEWER)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    await eventually(lambda: _is_empty(guard), what="the end of all streams")


async def _is_empty(guard: Any) -> bool:
    return bool(guard.streams.count == 0)
