"""The forms that a handler can have: functions, coroutines and classes, decorated or not."""

import functools
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel
from tests.app.helpers import ended

from leasehold import Job, Leasehold
from leasehold.errors import InvalidInput, UnusableHandler


class Summary(BaseModel):
    day: str
    loud: bool = False


class DailySummary:
    """Sends a summary."""

    handled: ClassVar[list[Summary]] = []

    @classmethod
    def payload_model(cls) -> type[Summary]:
        return Summary

    def handle(self, payload: Summary) -> None:
        self.handled.append(payload)


class AsyncSummary(DailySummary):
    async def handle(self, job: Job, payload: Summary) -> str:  # type: ignore[override]
        return f"{job.tenant}: {payload.day}"


async def test_a_class_that_names_its_payload_model_is_a_handler(app: Leasehold) -> None:
    summary = app.add("daily_summary", DailySummary, max_attempts=2)
    DailySummary.handled.clear()
    async with app.open(worker=True):
        first = await ended(app, await app.tenant("acme").aenqueue(summary, Summary(day="monday")))
        await ended(app, await app.tenant("acme").aenqueue_key("daily_summary", {"day": "tuesday", "loud": True}))
    assert (first.payload, first.max_attempts) == ({"day": "monday", "loud": False}, 2)
    assert DailySummary.handled == [Summary(day="monday"), Summary(day="tuesday", loud=True)]


async def test_a_class_may_handle_as_a_coroutine_and_ask_for_the_job(app: Leasehold) -> None:
    summary = app.add("summary", AsyncSummary)
    async with app.open(worker=True):
        job = await ended(app, await app.tenant("acme").aenqueue(summary, Summary(day="monday")))
    assert job.result == "acme: monday"


def test_a_class_whose_payload_model_is_none_is_refused() -> None:
    class Wrong:
        @classmethod
        def payload_model(cls) -> Any:
            return dict

        def handle(self, payload: Any) -> None: ...

    with pytest.raises(UnusableHandler, match="which is not a Pydantic model"):
        Leasehold().add("wrong", Wrong)


async def test_a_coroutine_under_an_ordinary_decorator_is_awaited(app: Leasehold) -> None:
    def ordinary(handler: Any) -> Any:
        @functools.wraps(handler)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return handler(*args, **kwargs)

        return wrapper

    @app.job
    @ordinary
    async def wrapped(job: Job, number: int) -> int:
        return number + 1

    async with app.open(worker=True):
        job = await ended(app, await app.tenant("acme").aenqueue(wrapped, 1))
    assert job.result == 2


def test_generators_are_no_handlers() -> None:
    def produces(job: Job) -> Any:
        yield 1

    with pytest.raises(UnusableHandler, match="a generator does nothing"):
        Leasehold().job(produces)


@pytest.mark.parametrize("handler", [Summary(day="x"), Summary, object()], ids=["instance", "no handle", "object"])
def test_what_is_no_handler_class_is_refused(handler: Any) -> None:
    with pytest.raises(UnusableHandler, match="is not a class with"):
        Leasehold().add("wrong", handler)


@pytest.mark.parametrize(
    "handler", ["name", functools.partial(print), lambda job: None], ids=["text", "partial", "lambda"]
)
def test_what_has_no_name_is_no_handler(handler: Any) -> None:
    with pytest.raises(UnusableHandler, match="is not a function with a name"):
        Leasehold().job(handler)


def test_an_empty_key_is_refused_and_not_replaced() -> None:
    with pytest.raises(InvalidInput, match="key is empty"):
        Leasehold().job(key="")(lambda job: None)
