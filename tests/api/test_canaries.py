"""Canaries through the server: no answer of the API, no page of the console and no stored decision has one.

Secret fields come in by the API, and secrets of the environment by data of events, as code that means no harm would
write them.
"""

import json
import logging
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from fastapi import FastAPI
from pydantic import SecretStr
from tests.api.conftest import ACME
from tests.app.canaries import CHANNELS, canary, found, variable_of
from tests.cli.terminal import CommandLine

from leasehold import Job, Leasehold, new_secret_key
from leasehold.api import ApiLimits
from leasehold.config import process_redactor
from leasehold.model.access import Role
from leasehold.model.trigger import trigger_id
from leasehold.operations import sessions, tokens, views

COUNT = len(CHANNELS)
SECRETS = [canary(number) for number in range(COUNT)]
OF_ENVIRONMENT = [canary(number + 50) for number in range(3)]
MUCH = ApiLimits(token_rate=1e6, token_burst=10**6, tenant_rate=1e6, tenant_burst=10**6, stream_seconds=0)
EVENT = "shop.key.changed"
UNREAD = ("/stream", "/find", "/preview", "/series", "/metrics", "/usage", "/usage.csv")
"""Ends of addresses that are not asked: they do not end, need a query, or have no texts."""


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("LEASEHOLD_SECRET_KEY", new_secret_key())
    for number, secret in enumerate(OF_ENVIRONMENT):
        monkeypatch.setenv(variable_of(number), secret)
    process_redactor.cache_clear()
    yield
    process_redactor.cache_clear()


def make_app(url: str) -> Leasehold:
    app = Leasehold(url)

    @app.job(max_attempts=1)
    async def leak(job: Job, channel: int, secret: SecretStr) -> Any:
        return CHANNELS[channel](job, secret.get_secret_value())

    @app.job(max_attempts=1)
    async def note(job: Job, text: str, size: int = 0) -> str:
        job.log(text)
        return text

    return app


@dataclass
class Server:
    """The console of an app with its API. `read` gets a page, and keeps the answer by its address."""

    app: Leasehold
    api: FastAPI
    http: httpx.AsyncClient
    answers: dict[str, str]

    async def read(self, path: str, status: int = 200) -> httpx.Response:
        answer = await self.http.get(path)
        assert answer.status_code == status, (path, answer.text)
        self.answers[path] = answer.text
        return answer

    async def send(self, path: str, document: dict[str, Any], status: int = 201) -> dict[str, Any]:
        answer = await self.http.post(f"/api/v1{path}", json=document)
        assert answer.status_code == status, (path, answer.text)
        self.answers[f"{path} {len(self.answers)}"] = answer.text
        told: dict[str, Any] = answer.json()
        return told

    def leaks(self) -> dict[str, list[str]]:
        known = [*SECRETS, *OF_ENVIRONMENT]
        return {path: forms for path, text in self.answers.items() if (forms := found(text, known))}


@pytest.fixture
async def server(database_url: str) -> AsyncIterator[Server]:
    app = make_app(database_url)
    console = app.console(limits=MUCH)
    address = "http://console.test"
    async with (
        app.open(),
        console.api.router.lifespan_context(console.api),
        httpx.AsyncClient(
            transport=httpx.ASGITransport(console, raise_app_exceptions=False), base_url=address
        ) as http,
    ):
        await app.store.sync_definitions(app.handlers.definitions)
        _, text = await tokens.create(app.store, "ann", Role.TENANT_ADMIN, tenant=ACME)
        http.headers["Authorization"] = f"Bearer {text}"
        session = await sessions.sign_in(app.store, str(text))
        http.cookies.set(f"leasehold-session-{urlsplit(address).port or 80}", session)
        yield Server(app, console.api, http, {})


async def run_all(server: Server) -> None:
    while (await server.app.atick(100, "60s")).ran:
        pass


def addresses(server: Server, **ids: str) -> Iterator[str]:
    """Yields all that a tenant's administrator can get of these things; without any, all lists. Streams never end.

    Metrics are of all tenants, and need a permission of their own.
    """
    for path, methods in server.api.openapi()["paths"].items():
        is_read = "get" in methods and not path.endswith(UNREAD) and "/admin/" not in path
        if is_read and path != "/api/v1/worker" and [f"{{{name}}}" for name in ids] == re.findall(r"{\w+}", path):
            yield path.format(**ids)


def pages(job: str) -> Iterator[str]:
    yield from (f"/t/acme/jobs/{job}", f"/t/acme/jobs/{job}/change")


def lists(trigger: str, group: str) -> Iterator[str]:
    base = "/t/acme"
    yield from (base, f"{base}/jobs", f"{base}/dead", f"{base}/dead/{group}", f"{base}/events", f"{base}/triggers")
    yield from (f"{base}/triggers/{trigger}", f"{base}/triggers/{trigger}/edit", f"{base}/definitions/leak")
    yield from (f"{base}/definitions/leak/enqueue", f"{base}/operations", f"{base}/audit", f"{base}/health")


def job_of(channel: object, secret: object) -> dict[str, Any]:
    return {"definition_key": "leak", "payload": {"channel": channel, "secret": secret}}


@pytest.mark.both_engines
async def test_no_canary_is_found_in_answers_and_pages(
    server: Server, database_url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("shop"), "propagate", False)  # handlers of the app's own are its own matter
    caplog.set_level(logging.INFO, "leasehold")
    jobs = [(await server.send("/jobs", job_of(*each)))["id"] for each in enumerate(SECRETS)]
    for secret in SECRETS:
        await server.send("/jobs", job_of(1, [secret]), 422)
    trigger = await save_triggers(server)
    for secret in OF_ENVIRONMENT:
        sent = {"name": EVENT, "data": {"key": secret, "nested": [{"note": f"it is {secret}"}]}}
        await server.send("/events/test", sent, 200)
        await server.send("/events", sent)
    await run_all(server)
    (group, *_) = (await server.read("/api/v1/errors")).json()["groups"]
    for path in (*lists(trigger, group["id"]), *addresses(server), *addresses(server, trigger_id=trigger)):
        await server.read(path)
    for job in jobs:
        for path in (*pages(job), *addresses(server, job_id=job)):
            await server.read(path)
    assert server.leaks() == {}
    assert sum("[redacted]" in text for text in server.answers.values()) > 3 * COUNT
    assert found(caplog.text, [*SECRETS, *OF_ENVIRONMENT]) == []
    await nothing_is_printed_or_decided(server, CommandLine(database_url), trigger)


async def test_an_error_of_the_server_is_logged_without_secrets(
    server: Server, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> Any:
        raise RuntimeError(f"can't show {OF_ENVIRONMENT[0]}")

    await server.send("/events", {"name": EVENT, "data": {}})
    monkeypatch.setattr(views, "event", fail)
    await server.read("/api/v1/events", 500)
    assert server.leaks() == {}
    assert "RuntimeError: can't show [redacted]" in caplog.text
    assert found(caplog.text, OF_ENVIRONMENT) == []


async def save_triggers(server: Server) -> str:
    """Saves a trigger that makes jobs of events, and one whose payload is always refused; returns that one."""
    rule = {"trigger_type": "event", "event_name": EVENT, "definition_key": "note"}
    await server.send("/jobs/triggers", {**rule, "label": "told", "payload_template": {"text": "{{event.key}}"}})
    wrong = {"text": "{{event.nested}}", "size": "{{event.key}}"}
    return str((await server.send("/jobs/triggers", {**rule, "label": "wrong", "payload_template": wrong}))["id"])


async def nothing_is_printed_or_decided(server: Server, leasehold: CommandLine, trigger: str) -> None:
    listing = ("events", "ls", "--tenant", "acme")
    decided = ("triggers", "decisions", trigger, "--tenant", "acme")
    data = json.dumps({"key": OF_ENVIRONMENT[0], "nested": [OF_ENVIRONMENT[1]]})
    tested = ("events", "test", EVENT, "--data", data, "--tenant", "acme")
    emitted = ("events", "emit", EVENT, "--data", data, "--tenant", "acme")
    for words in (listing, decided, tested, emitted):
        for more in ((), ("--json",)):
            answer = await leasehold(*words, *more)
            assert answer.code == 0, answer.err
            assert (words, found(answer.out + answer.err, OF_ENVIRONMENT)) == (words, [])
            assert (words, "[redacted]" in answer.out) == (words, True)
    whys = [each.why for each in await server.app.store.triggers(ACME).decisions(trigger_id(trigger), 100)]
    assert len(whys) == 5
    assert all("[redacted]" in why and found(why, OF_ENVIRONMENT) == [] for why in whys)
