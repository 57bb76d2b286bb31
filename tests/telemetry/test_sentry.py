"""Failures in Sentry, on each engine: what an event tells, how it is grouped, and what it must not tell."""

import logging
import signal
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import sentry_sdk
from pydantic import SecretStr
from tests.conftest import eventually
from tests.model.claims import a_claim
from tests.telemetry.sentry_server import SentryServer
from tests.tenant_kit import HOUR
from tests.worker import sample_handlers
from tests.worker.shop import Processes, Workplace

from leasehold import Fail, Job, Leasehold, RetryLater, Snooze, Status, Steps, engine
from leasehold.errors import InvalidInput
from leasehold.model.error_group import error_group
from leasehold.model.keyring import new_secret_key
from leasehold.model.outcome import Raised, decide
from leasehold.telemetry import sentry as sentry_module
from leasehold.telemetry.sentry import Sentry, frames_of

CANARY = "ghp_" + "c4naryc4naryc4naryc4naryc4naryc4nary"
SECRET = "open-sesame-for-the-canary"


@pytest.fixture
def server() -> Iterator[SentryServer]:
    with SentryServer().serving() as server:
        sentry_sdk.init(dsn=server.dsn, traces_sample_rate=0, auto_session_tracking=False)
        yield server
        sentry_sdk.get_client().close(timeout=0)
        sentry_sdk.get_global_scope().set_client(None)


@pytest.fixture
def sentry(server: SentryServer) -> Sentry:
    return Sentry()


@pytest.fixture
async def app(database_url: str, sentry: Sentry) -> AsyncIterator[Leasehold]:
    created = Leasehold(database_url, observe=sentry)
    async with created.open():
        yield created


async def test_an_event_has_the_job_its_payload_its_traceback_and_its_try(
    app: Leasehold, sentry: Sentry, server: SentryServer
) -> None:
    @app.job(max_attempts=1)
    async def report(job: Job, month: int) -> None:
        raise ValueError(f"no figures for month {month}")

    placed = await app.tenant("acme").options(correlation_id="order-1").aenqueue(report, month=3)
    await app.atick()
    assert sentry.flush(30)
    (event,) = server.events
    told = event["contexts"]["job"]
    assert told["job_id"] == event["tags"]["job_id"] == placed.id
    assert told["job_type"] == event["tags"]["job_type"] == event["transaction"] == "report"
    assert (told["tenant_id"], told["correlation_id"]) == ("acme", "order-1")
    assert (told["attempt"], told["try"], told["max_attempts"]) == (1, 1, 1)
    assert (told["status"], told["attempt_status"]) == ("dead_letter", "failed")
    assert event["extra"]["payload"] == {"month": 3}
    assert "in report" in event["extra"]["traceback"]
    (raised,) = event["exception"]["values"]
    assert (raised["type"], raised["value"]) == ("ValueError", "no figures for month 3")
    frame = raised["stacktrace"]["frames"][-1]
    assert (frame["function"], frame["filename"]) == ("report", __file__)
    assert frame["context_line"].startswith("raise ValueError")
    assert "vars" not in frame


async def test_an_event_is_grouped_as_our_error_groups_are(
    app: Leasehold, sentry: Sentry, server: SentryServer
) -> None:
    @app.job(max_attempts=1)
    async def report(job: Job, month: int) -> None:
        raise ValueError(f"no figures for month {month}")

    for month in (3, 4):
        await app.tenant("acme").aenqueue(report, month=month)
    await app.atick()
    assert sentry.flush(30)
    (group,) = (await app.store.tenant(app.tenant("acme").id).error_groups(10, 10)).groups
    assert group.id == error_group("report", "ValueError", "no figures for month 3")
    assert [event["fingerprint"] for event in server.events] == [["leasehold", group.id]] * 2


async def test_retried_failures_are_warnings_and_final_ones_errors(
    app: Leasehold, sentry: Sentry, server: SentryServer
) -> None:
    @app.job(max_attempts=2, backoff=Steps(0))
    async def report(job: Job) -> None:
        raise ValueError("no luck")

    await app.tenant("acme").aenqueue(report)
    await app.atick()
    assert sentry.flush(30)
    told = [(event["level"], event["tags"]["will_retry"], event["contexts"]["job"]["try"]) for event in server.events]
    assert told == [("warning", "yes", 1), ("error", "no", 2)]


async def test_levels_can_be_chosen_and_left_out(database_url: str, server: SentryServer) -> None:
    sentry = Sentry(retried=None, final="fatal")
    app = Leasehold(database_url, observe=sentry)

    @app.job(max_attempts=2, backoff=Steps(0))
    async def report(job: Job) -> None:
        raise ValueError("no luck")

    async with app.open():
        await app.tenant("acme").aenqueue(report)
        await app.atick()
    assert sentry.flush(30)
    assert [event["level"] for event in server.events] == ["fatal"]


def test_a_level_that_sentry_does_not_know_is_refused() -> None:
    with pytest.raises(InvalidInput, match="retried='loud' is not a level"):
        Sentry(retried="loud")  # type: ignore[arg-type]


async def test_successes_snoozes_and_cancels_are_not_reported(
    app: Leasehold, sentry: Sentry, server: SentryServer
) -> None:
    @app.job
    async def report(job: Job) -> None:
        if job.attempt == 1:
            raise Snooze(0)

    await app.tenant("acme").aenqueue(report)
    canceled = await app.tenant("acme").options(delay="1h").aenqueue(report)
    await app.tenant("acme").acancel(canceled.id)
    await app.atick()
    assert sentry.flush(30)
    assert server.events == []


async def test_every_failure_of_a_burst_is_sent(app: Leasehold, sentry: Sentry, server: SentryServer) -> None:
    @app.job(max_attempts=1)
    async def report(job: Job, number: int) -> None:
        raise Fail("no luck")

    jobs = await app.tenant("acme").aenqueue_many(report.bind(number=number) for number in range(150))

    async def all_ended() -> bool:
        await app.atick(max_jobs=150, max_seconds="60s", slots=50)
        return (await app.tenant("acme").jobs.acounts(1000))[Status.FAILED] == len(jobs)

    await eventually(all_ended, what="the end of all jobs")
    assert sentry.flush(60)
    assert {event["tags"]["job_id"] for event in server.events} == {each.id for each in jobs}


async def test_secrets_are_in_no_event(
    app: Leasehold, sentry: Sentry, server: SentryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEASEHOLD_SECRET_KEY", new_secret_key())

    @app.job(max_attempts=1)
    async def report(job: Job, password: SecretStr, note: str, api_key: str) -> None:
        local = password.get_secret_value()
        raise ValueError(f"refused {local} and {note}")

    await app.tenant("acme").aenqueue(report, password=SecretStr(SECRET), note=f"use {CANARY}", api_key="plain text")
    await app.atick()
    assert sentry.flush(30)
    (event,) = server.events
    assert event["extra"]["payload"] == {
        "password": "[secret]",
        "note": "use [redacted]",
        "api_key": "[redacted]",
    }
    assert event["exception"]["values"][0]["value"] == "refused [redacted] and use [redacted]"
    for hidden in (SECRET, CANARY, "plain text"):
        assert not [text for text in server.texts if hidden in text]


async def test_causes_come_before_the_failure(app: Leasehold, sentry: Sentry, server: SentryServer) -> None:
    @app.job(max_attempts=1)
    def report(job: Job) -> None:
        try:
            raise KeyError("figures")
        except KeyError as error:
            raise RetryLater("1h", "later") from error

    await app.tenant("acme").aenqueue(report)
    await app.atick()
    assert sentry.flush(30)
    cause, raised = server.events[0]["exception"]["values"]
    assert (cause["type"], cause["value"]) == ("KeyError", "'figures'")
    assert (raised["type"], raised["value"]) == ("RetryLater", "later")
    assert [value["stacktrace"]["frames"][-1]["function"] for value in (cause, raised)] == ["report", "report"]


async def test_a_killed_worker_is_reported_by_the_one_that_reclaims(
    shop: Workplace, processes: Processes, kit: engine.TestKit, sentry: Sentry, server: SentryServer
) -> None:
    await shop.store.sync_definitions(sample_handlers.handlers.definitions)
    job = await shop.enqueue("wait", payload=processes.payload)
    worker = processes.worker("--slots", "1")
    await processes.noted("began")
    worker.send(signal.SIGKILL)
    await worker.code()
    processes.go()
    await kit.clock().move(HOUR)
    async with shop.working(sample_handlers.handlers, observe=sentry):
        await shop.ended(job)
    assert sentry.flush(30)
    (event,) = server.events
    assert event["exception"]["values"][0]["type"] == "lease_lost"
    assert event["contexts"]["job"]["attempt_status"] == "crashed"
    assert event["extra"]["payload"] == processes.payload
    assert (event["tags"]["job_id"], event["level"]) == (job, "warning")


async def test_a_failure_is_not_reported_once_more_as_a_log_line(
    app: Leasehold, sentry: Sentry, server: SentryServer, caplog: pytest.LogCaptureFixture
) -> None:
    @app.job(max_attempts=1)
    async def report(job: Job) -> None:
        raise ValueError("no luck")

    with caplog.at_level(logging.ERROR, "leasehold.worker.events"):
        await app.tenant("acme").aenqueue(report)
        await app.atick()
    assert "no luck" in caplog.text
    assert sentry.flush(30)
    assert len(server.events) == 1


async def test_jobs_go_on_while_sentry_is_away(app: Leasehold, sentry: Sentry, server: SentryServer) -> None:
    @app.job(max_attempts=2, backoff=Steps(0))
    async def report(job: Job) -> str:
        if job.tries == 1:
            raise ValueError("no luck")
        return "done"

    server.is_broken = True
    placed = await app.tenant("acme").aenqueue(report)
    await app.atick()
    assert await placed.aresult(timeout="30s") == "done"


class Away:
    """Keeps events from Sentry until it is back, as a slow network does."""

    def __init__(self) -> None:
        self.asked, self.back = threading.Event(), threading.Event()

    def keep(self, event: Any, hint: Any) -> Any:
        self.asked.set()
        self.back.wait()
        return event


@pytest.fixture
def away(server: SentryServer) -> Iterator[Away]:
    away = Away()
    sentry_sdk.init(dsn=server.dsn, before_send=away.keep, auto_session_tracking=False)
    yield away
    away.back.set()


def fail_while_away(sentry: Sentry, away: Away, count: int, payload: str, message: str = "no luck") -> None:
    """Reports failures while the first one is being sent."""
    outcome = Raised("ValueError", message)
    for number in range(count):
        claim = a_claim(payload=payload, attempt=number + 1, max_attempts=count)
        sentry.on_ends([(claim, decide(outcome, claim, 0.0), 0.1, outcome)])
        assert away.asked.wait(60)
    away.back.set()
    assert sentry.flush(60)


def test_payloads_are_left_out_while_much_waits(
    sentry: Sentry, away: Away, server: SentryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sentry_module, "MOST_TEXT_WITH_PAYLOADS", 2500)
    fail_while_away(sentry, away, 6, payload=f'{{"text": "{1000 * "x"}"}}')
    shown = [event["extra"]["payload"] for event in server.events]
    assert [isinstance(payload, dict) for payload in shown] == [True, True, True, False, False, False]
    assert shown[-1] == "[left out: too many failures waited to be sent]"
    fail_while_away(sentry, away, 1, payload='{"month": 3}')
    assert server.events[-1]["extra"]["payload"] == {"month": 3}


def test_failures_are_dropped_while_too_much_text_waits(
    sentry: Sentry,
    away: Away,
    server: SentryServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(sentry_module, "MOST_TEXT", 2500)
    fail_while_away(sentry, away, 6, payload="{}", message=1000 * "x")
    assert [event["contexts"]["job"]["attempt"] for event in server.events] == [1, 2, 3]
    assert "3 failures were not sent to Sentry" in caplog.text


def test_a_failure_that_waits_keeps_no_endless_message(sentry: Sentry, away: Away) -> None:
    claim, message = a_claim(), "".join(["x"] * 100_000)
    before = sys.getrefcount(message)
    outcome = Raised("ValueError", message)
    sentry.on_ends([(claim, decide(outcome, claim, 0.0), 0.1, outcome)])
    assert away.asked.wait(60)
    del outcome
    assert sys.getrefcount(message) == before


async def test_without_init_one_warning_is_logged(database_url: str, caplog: pytest.LogCaptureFixture) -> None:
    sentry = Sentry()
    app = Leasehold(database_url, observe=sentry)

    @app.job(max_attempts=1)
    async def report(job: Job) -> None:
        raise ValueError("no luck")

    async with app.open():
        for _ in range(2):
            await app.tenant("acme").aenqueue(report)
            await app.atick()
            assert sentry.flush(30)
    assert caplog.text.count("sentry_sdk.init was not called") == 1


def test_frames_are_read_from_the_text_of_a_traceback() -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "app.py", line 3, in report\n'
        "    fetch(url)\n"
        "    ~~~~~^^^^^\n"
        '  File "<string>", line 1, in <module>\n'
        '  File "lib.py", line 9, in fetch\n'
        "ValueError: no\n"
    )
    assert [(frame["filename"], frame["lineno"], frame.get("context_line")) for frame in frames_of(text)] == [
        ("app.py", 3, "fetch(url)"),
        ("<string>", 1, None),
        ("lib.py", 9, None),
    ]
