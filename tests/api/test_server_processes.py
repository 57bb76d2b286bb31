"""A worker over HTTP whose requests reach several processes of the server in turn, and the server's part for it."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from time import monotonic
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from tests.api.conftest import ACME, Client, make_app
from tests.api.test_workers_over_http import FACTS, LEASE, REPORTS, fall_asleep, joined, poll

from leasehold.api import ApiLimits
from leasehold.cli.api_server import address_of, bind, serving
from leasehold.config import api_token
from leasehold.engines import engine_for
from leasehold.engines.http.client import HttpClient
from leasehold.engines.http.urls import read_url
from leasehold.errors import CannotListen, Unreachable
from leasehold.model.access import Role
from leasehold.model.job import JobId, LogLine
from leasehold.model.outcome import SUCCEEDED
from leasehold.operations import remote_wakes
from leasehold.operations.remote_wakes import MOST_FEEDS, name_of, read_heard
from leasehold.store import Store, Wake


class InTurn:
    """Sends requests to several APIs, as a balancer does, and notes their paths, answers and times.

    Requests of the same path take turns, and each further path begins with the next API.
    """

    def __init__(self, *apis: FastAPI) -> None:
        self._apis = apis
        self._turns: dict[str, int] = {}
        self.answers: list[tuple[str, int, float]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._apis[0](scope, receive, send)
            return
        began, place = monotonic(), len(self.answers)
        self.answers.append((scope["path"], 0, began))

        async def noted(message: Any) -> None:
            if message["type"] == "http.response.start":
                self.answers[place] = scope["path"], message["status"], began
            await send(message)

        turn = self._turns.setdefault(scope["path"], len(self._turns))
        self._turns[scope["path"]] = turn + 1
        await self._apis[turn % len(self._apis)](scope, receive, noted)


@pytest.fixture
async def other(client: Client, database_url: str) -> AsyncIterator[Client]:
    """Another server of the same database: it has a store and a memory of its own."""
    app = make_app(database_url)
    api = app.api()
    async with (
        app.open(),
        api.router.lifespan_context(api),
        httpx.AsyncClient(transport=httpx.ASGITransport(api), base_url="http://other.test") as http,
    ):
        yield Client(app, api, http, client.texts)


@pytest.fixture
def in_turn(client: Client, other: Client) -> InTurn:
    return InTurn(client.api, other.api)


@pytest.fixture
async def address(in_turn: InTurn) -> AsyncIterator[str]:
    bound = bind("127.0.0.1", 0)
    url = address_of(bound)
    async with serving(in_turn, bound):
        yield url


@pytest.fixture
async def remote(client: Client, address: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Store]:
    """A store over HTTP."""
    monkeypatch.setenv("LEASEHOLD_TOKEN", await client.token(Role.WORKER, None))
    store = await engine_for(address).open()
    yield store
    await store.close()


@pytest.mark.both_engines
async def test_requests_of_a_worker_reach_servers_in_turn(client: Client, remote: Store, in_turn: InTurn) -> None:
    job = JobId(await client.enqueue())
    registration = await remote.join(REPORTS, FACTS, LEASE)
    (claim,) = (await remote.claim(registration, 10)).claims
    for _ in range(2):  # once by each server
        assert await remote.append_log([(claim, LogLine(1, "half"))]) == frozenset()
        assert list(await remote.held(registration)) == [claim]
    for _ in range(2):
        renewal = await remote.renew(registration, [claim], LEASE)
        assert (renewal.alive, renewal.lost) == (True, frozenset())
    await remote.wake_another(registration)
    assert await remote.finish([(claim, SUCCEEDED)]) == frozenset()
    assert await remote.finish([(claim, SUCCEEDED)]) == {claim}
    assert [each.id for each in await client.app.store.tenant(ACME).get_many([job]) if each.status.final] == [job]
    (attempt,) = await remote.tenant(ACME).attempts(job)
    assert (attempt.number, attempt.worker) == (1, registration.worker)
    await remote.leave(registration)
    assert not (await remote.renew(registration, [], LEASE)).alive
    assert not await client.app.store.workers()


async def test_a_poll_by_another_server_is_not_a_wake(
    client: Client, other: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each server finds the feed that it began, so that it does not begin again with WORK. Wakes come by either."""
    monkeypatch.setattr(remote_wakes, "LINGER", 60.0)
    worker, work = await joined(client), {"kind": "work"}
    latest: dict[str, Any] = {}
    feeds = []
    for server in (client, other):
        latest = await poll(server, worker, latest)
        assert latest["wakes"] == [work]
        feeds.append(latest["feed"].partition("+")[0])
    for server, feed in zip((client, other), feeds, strict=True):
        latest = await poll(server, worker, latest, wait=0)
        assert (latest["feed"].partition("+")[0], latest["wakes"]) == (feed, [])
    await fall_asleep(other, worker)
    await client.enqueue()
    for server in (other, client):
        latest = await poll(server, worker, latest)
        assert work in latest["wakes"]


def test_a_worker_names_the_feeds_of_all_servers() -> None:
    """The server that gets the next poll finds its own feed, and how far it was heard."""
    first, second = "a" * 16, "b" * 16
    named = name_of(second, read_heard(first, 7))
    assert read_heard(named, 3) == {second: 3, first: 7}
    assert name_of(first, read_heard(named, 3)) == f"{first}+{second}.3"
    assert read_heard("of-another-program+" + "x" * 50 + f"+{first}.2", 9) == {first: 2}
    many = {f"{number:016x}": 2**53 for number in range(MOST_FEEDS + 9)}
    assert len(name_of(first, many)) <= 2000


async def test_a_worker_beyond_the_cap_of_listeners_polls(remote: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the two servers listens for one worker here. The third poll reaches the first server again."""
    monkeypatch.setattr(remote_wakes, "MOST_LISTENERS", 1)
    monkeypatch.setattr(remote_wakes, "LINGER", 60.0)
    first, second, third = [remote.wakes(await remote.join(REPORTS, FACTS, LEASE)) for _ in range(3)]
    async with aclosing(first), aclosing(second):
        assert [await anext(first), await anext(second)] == [Wake.WORK, Wake.WORK]
        with pytest.raises(CannotListen, match="1 workers, and for no more"):
            await anext(third)


async def test_a_worker_waits_as_long_as_retry_after_says(
    database_url: str, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second of two requests is one too many; a client that has less time gives up at once."""
    monkeypatch.setenv("LEASEHOLD_TOKEN", await client.token(Role.WORKER, None))
    api, bound = InTurn(client.app.api(limits=ApiLimits(work_rate=1, work_burst=1))), bind("127.0.0.1", 0)
    url = address_of(bound)
    async with serving(api, bound):
        patient, hasty = (HttpClient(read_url(url), api_token, seconds) for seconds in (30, 0.5))
        await patient.send("GET", "/worker")
        with pytest.raises(Unreachable, match="more than 1 requests a second"):
            await hasty.send("GET", "/worker")
        await patient.send("GET", "/worker")
        await patient.close()
        await hasty.close()
    statuses = [status for _, status, _ in api.answers]
    assert (statuses[0], statuses[-1], set(statuses[1:-1])) == (200, 200, {429})
    assert api.answers[-1][2] - api.answers[-2][2] >= 1
