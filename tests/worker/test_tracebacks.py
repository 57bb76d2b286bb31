"""Tracebacks: where a failed attempt failed, and the way there."""

import asyncio
import json
from datetime import timedelta
from types import TracebackType
from typing import Any

import pytest
from tests.worker.shop import Payload, Shop, only

from leasehold.errors import InvalidInput
from leasehold.model.job import Attempt, NewJob, tenant_id
from leasehold.model.outcome import SHOWN_TRACEBACK, Trace
from leasehold.telemetry import Event, JobEnded
from leasehold.worker import Fail, Job, RetryLater
from leasehold.worker.handlers import Call
from leasehold.worker.tracebacks import trace_of

HERE = "tests/worker/test_tracebacks.py"


def fetch(payload: Payload) -> Any:
    return payload["row"]


def in_a_thread(job: Job, payload: Payload) -> None:
    fetch(payload)


async def on_the_loop(job: Job, payload: Payload) -> None:
    fetch(payload)


async def gives_up(job: Job, payload: Payload) -> None:
    raise Fail("no use")


async def retries_later(job: Job, payload: Payload) -> None:
    raise RetryLater(timedelta(hours=1))


async def takes_too_long(job: Job, payload: Payload) -> None:
    await asyncio.sleep(3600)


def stops_an_iteration(job: Job, payload: Payload) -> None:
    next(iter(()))


def line_of(call: Any, below: int = 1) -> int:
    return int(call.__code__.co_firstlineno) + below


async def failed(shop: Shop, call: Call, **fields: Any) -> Attempt:
    async with shop.working(only(call, max_attempts=1, **fields)):
        job = await shop.enqueue()
        await shop.ended(job)
    (attempt,) = await shop.jobs.attempts(job)
    return attempt


@pytest.mark.parametrize("call", [in_a_thread, on_the_loop])
async def test_an_attempt_keeps_where_it_failed_and_the_way_there(shop: Shop, call: Call) -> None:
    details = (await failed(shop, call)).details
    assert details["where"] == f"{HERE}:{line_of(fetch)} in fetch"
    first, *frames = [line for line in details["traceback"].splitlines() if not line.startswith("    ")]
    assert first == "Traceback (most recent call last):"
    assert [line.rpartition(" in ")[2] for line in frames[:-1]] == [call.__name__, "fetch"]
    assert frames[-1] == "KeyError: 'row'"


@pytest.mark.parametrize(
    ("call", "fields"),
    [
        (gives_up, {}),
        (retries_later, {}),
        (takes_too_long, {"timeout": timedelta(milliseconds=50)}),
        (stops_an_iteration, {}),
    ],
    ids=["Fail", "RetryLater", "a timeout", "StopIteration"],
)
async def test_however_it_failed_its_place_is_the_apps_own(shop: Shop, call: Call, fields: Payload) -> None:
    details = (await failed(shop, call, **fields)).details
    assert details["where"] == f"{HERE}:{line_of(call)} in {call.__name__}"


async def test_an_observer_gets_the_place_of_a_failure(shop: Shop) -> None:
    heard: list[Event] = []
    async with shop.working(only(on_the_loop, max_attempts=1), observe=heard.append):
        await shop.ended(await shop.enqueue())
    (ended,) = [event for event in heard if isinstance(event, JobEnded)]
    assert ended.where == f"{HERE}:{line_of(fetch)} in fetch"


async def test_a_success_has_no_details(shop: Shop) -> None:
    async def report(job: Job, payload: Payload) -> None: ...

    assert (await failed(shop, report)).details == {}


def caught(call: Any, *arguments: Any) -> BaseException:
    try:
        call(*arguments)
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def traced(call: Any, *arguments: Any) -> Trace:
    trace = trace_of(caught(call, *arguments))
    assert trace is not None
    return trace


def test_what_a_library_raises_was_caused_by_the_line_that_called_it() -> None:
    def reading() -> None:
        json.loads("{")

    trace = traced(reading)
    assert trace.where == f"{HERE}:{line_of(reading)} in reading"
    assert "in raw_decode" in trace.traceback


def test_so_was_what_leasehold_raises() -> None:
    def building() -> None:
        NewJob(definition="report", delay=timedelta(-1))

    assert isinstance(caught(building), InvalidInput)
    assert traced(building).where == f"{HERE}:{line_of(building)} in building"


def test_the_error_behind_an_error_is_told_as_well() -> None:
    def wrapped() -> None:
        try:
            fetch({})
        except KeyError as error:
            raise ValueError("no such account") from error

    trace = traced(wrapped)
    assert trace.where == f"{HERE}:{line_of(wrapped, 4)} in wrapped"
    assert trace.traceback.index("KeyError: 'row'") < trace.traceback.index("ValueError: no such account")


def test_of_a_deep_recursion_the_last_frames_are_kept() -> None:
    def down(depth: int) -> None:
        if depth == 0:
            raise ValueError("the bottom")
        down(depth - 1)

    trace = traced(down, 500)
    assert trace.where == f"{HERE}:{line_of(down, 2)} in down"
    assert len(trace.traceback) < 2_000


@pytest.mark.parametrize("message", ["x" * 300_000, "x\n" * 300_000], ids=["long", "many lines"])
def test_an_endless_message_leaves_room_for_the_way(message: str) -> None:
    def shouting() -> None:
        raise ValueError(message)

    trace = traced(shouting)
    assert len(trace.traceback) <= SHOWN_TRACEBACK
    assert "in shouting" in trace.traceback


def test_an_error_that_can_not_say_what_it_is_still_says_where() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    def muttering() -> None:
        raise Mute

    assert traced(muttering).where == f"{HERE}:{line_of(muttering)} in muttering"


def test_an_error_that_nobody_can_read_has_no_trace() -> None:
    class Hostile(Exception):
        @property
        def __cause__(self) -> BaseException | None:  # type: ignore[override]
            raise RuntimeError("not for you")

    def hostile() -> None:
        raise Hostile

    assert trace_of(caught(hostile)) is None


def test_where_only_our_own_code_was_on_the_way_there_is_no_trace() -> None:
    error = caught(tenant_id, "")
    assert isinstance(error.__traceback__, TracebackType)
    assert trace_of(error.with_traceback(error.__traceback__.tb_next)) is None
