"""Listeners: which events reach them, in batches or one by one, and that their errors disturb nobody."""

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.model.claims import a_claim

from leasehold.model.job import Claim, JobId, Source, TenantId, WorkerId
from leasehold.model.outcome import SUCCEEDED, Succeeded
from leasehold.runtime.closing import close_listeners
from leasehold.store import Registration, Subscription
from leasehold.telemetry import (
    AttemptEnd,
    Event,
    EventEmitted,
    JobClaimed,
    JobEnded,
    JobEnqueued,
    Listener,
    Listeners,
    Polled,
    WakeReceived,
    ignore_events,
)
from leasehold.telemetry.listeners import ALL_EVENTS
from leasehold.worker.events import EventReporter

NOW = datetime(2026, 11, 18, tzinfo=UTC)
ENQUEUED = JobEnqueued(
    at=NOW, tenant=TenantId("acme"), definition="report", count=1, created=1, source=Source.MANUAL, job=JobId("1")
)
EMITTED = EventEmitted(at=NOW, tenant=TenantId("acme"), name="a.b", jobs=0)
REGISTRATION = Registration(WorkerId("w"), Subscription(("report",), None))
POLLED = Polled(at=NOW, worker=WorkerId("w"), reason="wake", claimed=3)


class Emits(Listener):
    wants = (EventEmitted,)

    def __init__(self) -> None:
        self.heard: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.heard.append(event)


class Batches(Listener):
    def __init__(self) -> None:
        self.events: list[Event] = []
        self.claims: list[Claim] = []
        self.ends: list[AttemptEnd] = []

    def __call__(self, event: Event) -> None:
        self.events.append(event)

    def on_claims(self, claims: Sequence[Claim]) -> None:
        self.claims += claims

    def on_ends(self, ends: Sequence[AttemptEnd]) -> None:
        self.ends += ends


class Closes(Listener):
    def __init__(self) -> None:
        self.count = 0
        self.closed = threading.Event()

    def close(self) -> None:
        self.count += 1
        self.closed.set()


def test_a_function_gets_every_event_and_a_listener_those_that_it_wants() -> None:
    everything: list[Event] = []
    emits = Emits()
    listeners = Listeners([everything.append, emits])
    for event in (ENQUEUED, EMITTED, POLLED):
        listeners.tell(event)
    assert everything == [ENQUEUED, EMITTED, POLLED]
    assert emits.heard == [EMITTED]


def test_an_event_that_no_listener_wants_need_not_be_made() -> None:
    listeners = Listeners([Emits()])
    assert listeners.wants(EventEmitted)
    assert not any(listeners.wants(kind) for kind in ALL_EVENTS - {EventEmitted})
    assert not any(Listeners([ignore_events]).wants(kind) for kind in ALL_EVENTS)
    assert not Listeners([ignore_events])


def test_a_listener_that_takes_batches_gets_no_events_for_them() -> None:
    batches = Batches()
    listeners = Listeners([batches])
    assert not listeners.wants(JobClaimed)
    assert not listeners.wants(JobEnded)
    claim = a_claim()
    end: AttemptEnd = (claim, SUCCEEDED, 0.5, Succeeded())
    listeners.tell_directly(listeners.on_claims, "job.claimed", [claim])
    listeners.tell_directly(listeners.on_ends, "job.ended", [end])
    listeners.tell(POLLED)
    assert (batches.claims, batches.ends, batches.events) == ([claim], [end], [POLLED])


def test_a_listener_can_take_wakes_and_polls_without_events() -> None:
    class Counts(Listener):
        def __init__(self) -> None:
            self.taken: list[object] = []

        def on_wake(self, channel: str) -> None:
            self.taken.append(channel)

        def on_poll(self, reason: str, claimed: int) -> None:
            self.taken.append((reason, claimed))

    counts, everything = Counts(), list[Event]()
    reporter = EventReporter(Listeners([counts, everything.append]))
    assert not {WakeReceived, Polled} & {kind for kind in ALL_EVENTS if Listeners([counts]).wants(kind)}
    reporter.report_wake(REGISTRATION, "work")
    reporter.report_poll(REGISTRATION, "wake", 3)
    assert counts.taken == ["work", ("wake", 3)]
    assert [event.event for event in everything] == ["wake.received", "worker.polled"]


def test_listeners_of_an_app_and_of_its_worker_are_told_in_their_order() -> None:
    order: list[str] = []
    of_app = Listeners([lambda _event: order.append("app")])
    both = of_app.with_listener(lambda _event: order.append("worker"))
    Listeners([both]).tell(POLLED)
    of_app.tell(POLLED)
    assert order == ["app", "worker", "app"]


def test_a_listener_that_raises_is_logged_once_and_others_are_told(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Batches):
        def __call__(self, event: Event) -> None:
            raise RuntimeError("no ears")

        def on_claims(self, claims: Sequence[Claim]) -> None:
            raise RuntimeError("no hands")

    heard: list[Event] = []
    listeners = Listeners([Broken(), Broken(), heard.append])
    for _ in range(3):
        listeners.tell(POLLED)
        listeners.tell_directly(listeners.on_claims, "job.claimed", [a_claim()])
    assert heard == 3 * [POLLED]
    assert [record.levelno for record in caplog.records] == 2 * [logging.ERROR]
    assert "Broken raised at worker.polled; it is told on" in caplog.messages[0]


def test_errors_around_a_handler_reach_neither_it_nor_other_listeners(caplog: pytest.LogCaptureFixture) -> None:
    steps: list[str] = []

    class Span(Listener):
        wants = ()

        @contextmanager
        def around(self, claim: Claim) -> Iterator[None]:
            steps.append(f"begin {claim.attempt}")
            yield
            steps.append("end")

    class NotMade(Listener):
        wants = ()

        def around(self, claim: Claim) -> Any:
            raise RuntimeError("no span")

    class NotEnded(Listener):
        wants = ()

        @contextmanager
        def around(self, claim: Claim) -> Iterator[None]:
            yield
            raise RuntimeError("no end")

    listeners = Listeners([NotMade(), NotEnded(), Span()])
    with ExitStack() as around:
        for manager in listeners.managers_around(a_claim(attempt=2)):
            around.enter_context(manager)
        steps.append("handler")
    assert steps == ["begin 2", "handler", "end"]
    assert len(caplog.records) == 2


def test_an_error_of_the_handler_passes_what_listeners_put_around_it() -> None:
    class Span(Listener):
        wants = ()

        @contextmanager
        def around(self, claim: Claim) -> Iterator[None]:
            yield

    def fail_within_listeners() -> None:
        (manager,) = Listeners([Span()]).managers_around(a_claim())
        with manager:
            raise ValueError("its own")

    with pytest.raises(ValueError, match="its own"):
        fail_within_listeners()


def test_a_listener_that_raises_at_its_close_disturbs_no_other(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Listener):
        def close(self) -> None:
            raise RuntimeError("no hands")

    closes = Closes()
    Listeners([Broken(), closes, Broken()]).close()
    assert closes.count == 1
    assert [record.getMessage() for record in caplog.records] == 2 * [
        f"the listener {Broken.__qualname__} raised when it was closed"
    ]


def test_a_close_that_takes_too_long_is_left_behind(caplog: pytest.LogCaptureFixture) -> None:
    let_go = threading.Event()

    class Slow(Listener):
        def close(self) -> None:
            let_go.wait()

    closes = Closes()
    try:
        Listeners([Slow(), closes]).close(timeout=0.01)
        assert "Slow was not closed within 0.01 s" in caplog.text
        assert closes.closed.wait(60)
    finally:
        let_go.set()


async def test_a_close_on_a_loop_leaves_a_late_listener_behind(caplog: pytest.LogCaptureFixture) -> None:
    """The end of the late one comes when nobody waits for it any more, and disturbs nothing."""
    let_go, closes = threading.Event(), Closes()

    class Slow(Closes):
        def close(self) -> None:
            let_go.wait()
            super().close()

    slow = Slow()
    try:
        await close_listeners(Listeners([slow, closes]), timeout=0.01)
        assert "Slow was not closed within 0.01 s" in caplog.text
        assert closes.closed.wait(60)
    finally:
        let_go.set()
    assert slow.closed.wait(60)
    assert [record.levelno for record in caplog.records if "Slow" in record.getMessage()] == [logging.WARNING]


def test_functions_and_listeners_without_a_close_need_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leasehold.telemetry.listeners.threading.Thread", None)
    Listeners([Emits(), lambda _event: None]).close()
