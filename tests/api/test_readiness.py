"""Probes of a server: many of them cost the database one statement a second."""

import asyncio
from typing import Any

import pytest
from tests.api.conftest import Client
from tests.conftest import PATIENCE

from leasehold.api import readiness
from leasehold.api.served import ServedApi
from leasehold.engines.postgres.database import Database
from leasehold.errors import Unreachable

PROBES = 30


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(readiness, "monotonic", clock)
    return clock


@pytest.fixture
def statements(client: Client, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of all statements of this process, from now on."""
    sent: list[str] = []
    fetch = Database.fetch

    async def counted(database: Database, name: str, /, **values: Any) -> Any:
        sent.append(name)
        return await fetch(database, name, **values)

    monkeypatch.setattr(Database, "fetch", counted)
    return sent


async def probe(client: Client) -> list[int]:
    answers = await asyncio.gather(*(client.http.get("/api/v1/ready") for _ in range(PROBES)))
    return [answer.status_code for answer in answers]


async def test_many_probes_share_one_look_at_the_database(
    client: Client, clock: Clock, statements: list[str]
) -> None:
    for _ in range(3):
        assert await probe(client) == PROBES * [200]
    assert len(statements) == 1
    clock.now += readiness.FRESH
    assert await probe(client) == PROBES * [200]
    assert len(statements) == 2


async def test_an_outage_is_told_to_all_and_ends_with_the_next_look(
    client: Client, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    async def refuse(*_: object, **__: object) -> None:
        asked.append("asked")
        raise Unreachable("the database is away.", fix="Wait.")

    with monkeypatch.context() as away:
        away.setattr(Database, "fetch", refuse)
        assert await probe(client) == PROBES * [503]
        assert await probe(client) == PROBES * [503]
    assert len(asked) == 1
    clock.now += readiness.FRESH
    assert await probe(client) == PROBES * [200]


async def test_an_outage_is_told_without_its_reason(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: object, **__: object) -> None:
        raise Unreachable("the database can't be reached (10.0.0.5, 5432).", fix="Check LEASEHOLD_URL.")

    monkeypatch.setattr(Database, "fetch", refuse)
    answer = await client.http.get("/api/v1/ready")
    told = {name: value for name, value in answer.json().items() if name not in ("type", "title", "request_id")}
    assert told == {
        "status": 503,
        "code": "LH-3001",
        "detail": "the server is not ready. Nothing was done.",
        "fix": "Ask again after a moment.",
    }


async def test_the_log_has_one_line_for_an_outage(
    client: Client, clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def refuse(*_: object, **__: object) -> None:
        raise Unreachable("the database is away.", fix="Wait.")

    with monkeypatch.context() as away:
        away.setattr(Database, "fetch", refuse)
        for _ in range(3):
            clock.now += readiness.FRESH
            await probe(client)
    said = [record.getMessage() for record in caplog.records if "not ready" in record.getMessage()]
    assert said == ["the server is not ready: LH-3001: the database is away. Wait."]


async def test_a_database_that_never_answers_is_told_as_an_outage(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(readiness, "PATIENCE", 0.05)
    monkeypatch.setattr(Database, "fetch", hang)
    answer = await client.http.get("/api/v1/ready")
    assert (answer.status_code, answer.json()["code"]) == (503, "LH-3001")


async def test_a_prober_that_goes_away_stops_no_other(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    began, may_answer = asyncio.Event(), asyncio.Event()
    fetch = Database.fetch

    async def slow(database: Database, name: str, /, **values: Any) -> Any:
        began.set()
        await may_answer.wait()
        return await fetch(database, name, **values)

    monkeypatch.setattr(Database, "fetch", slow)
    first = asyncio.create_task(client.api.state.guard.readiness.require())
    await asyncio.wait_for(began.wait(), PATIENCE.total_seconds())
    second = asyncio.create_task(client.api.state.guard.readiness.require())
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    may_answer.set()
    await second
    assert first.cancelled()


async def test_a_server_that_stops_is_not_ready(client: Client) -> None:
    served = ServedApi(client.api.state.guard)
    assert (await served.process_state()).problems == ()
    client.api.state.guard.streams.end_all()
    assert (await served.process_state()).problems == ("the server is stopping",)
