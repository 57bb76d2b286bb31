"""The app of the poison run: its handlers return, raise and log hostile values, chosen by the payload's index."""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from math import inf, nan
from typing import Any

from leasehold import Leasehold
from leasehold.model.backoff import Steps
from leasehold.model.definition import Definition
from leasehold.worker import Fail, Job, RetryLater, Snooze

app = Leasehold()
handlers = app.handlers
SOON = Steps(0.05)


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def cyclic() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


class Spiteful:
    """Raises whenever somebody looks at it."""

    def __str__(self) -> str:
        raise RuntimeError("not to be shown")

    __repr__ = __str__

    def __iter__(self) -> Any:
        raise RuntimeError("not to be read")


class SpitefulError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not to be shown")

    __repr__ = __str__


class NumberAsText(Exception):
    def __str__(self) -> Any:
        return 7


class SpitefulDict(dict[str, Any]):
    def items(self) -> Any:
        raise RuntimeError("not to be read")


class Careless(RetryLater):
    def __init__(self, delay: Any) -> None:
        Exception.__init__(self, "later")
        self.delay = delay


class Drowsy(Snooze):
    def __init__(self, delay: Any) -> None:
        Exception.__init__(self, "later")
        self.delay = delay


def caused_by_itself() -> Exception:
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one
    return one


def with_notes(notes: Any) -> Exception:
    error = ValueError("noted")
    error.__notes__ = notes
    return error


def grouped(depth: int) -> Exception:
    error: Exception = ValueError("innermost")
    for _ in range(depth):
        error = ExceptionGroup("a\0group", [error])
    return error


TEXTS = [
    "a\0b",
    "a\ud800b",
    "\u202ea\u202cb",
    "\u200b\ufeff",
    "x" * 300_000,
    "\x1b[2J\x07",
    "é" * 9_999,
    "\r\n" * 99,
    "",
]
NUMBERS: list[Any] = [
    nan,
    inf,
    -inf,
    2**53 + 1,
    2**63,
    2**70,
    -(10**400),
    1e308,
    Decimal("NaN"),
    Decimal("1e400"),
    1j,
]
OBJECTS: list[Any] = [
    object(),
    {1, 2},
    b"\xff",
    Spiteful(),
    SpitefulDict(a=1),
    {1: 2},
    {"a\0b": 1},
    {"\ud800": 1},
    {None: 1},
    {nan: 1},
    cyclic(),
    nested(100),
    nested(5_000),
    nested(200_000),
    [Spiteful()],
    {"a": Spiteful()},
    {"x": "y" * 5_000_000},
    datetime.max,
    datetime.min.replace(tzinfo=UTC),
    timedelta.max,
    ...,
    NotImplemented,
    int,
    len,
    ValueError("a value"),
    iter([1]),
    range(3),
    "\\u0000",
    memoryview(b"a"),
    [1] * 200_000,
]
DELAYS: list[Any] = [timedelta.max, timedelta.min, timedelta(-1), timedelta(days=10**6), "5m", 5, nan, [], None]
ERRORS: list[Callable[[], BaseException]] = [
    SpitefulError,
    NumberAsText,
    caused_by_itself,
    lambda: grouped(3),
    lambda: grouped(500),
    MemoryError,
    RecursionError,
    lambda: with_notes(7),
    lambda: with_notes(["a\0b", 7]),
    lambda: ValueError(Spiteful()),
    lambda: ValueError(cyclic()),
    lambda: OSError(2**70, "huge"),
    lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "a\0b"),
    lambda: KeyError("\ud800"),
    StopAsyncIteration,
    lambda: BaseException("bare"),
    GeneratorExit,
    asyncio.CancelledError,
    lambda: SystemExit("a\0b"),
    lambda: type("X" * 20_000, (Exception,), {})("long name"),
    lambda: TimeoutError("a\0b"),
    AssertionError,
    lambda: type("Ünï\u202e", (Exception,), {})("named oddly"),
    lambda: Fail(Spiteful()),
    lambda: Fail("a\0b\ud800"),
]

Deed = Callable[[Job], Any]


def returning(value: Any) -> Deed:
    return lambda job: value


def raising(make: Callable[[], BaseException]) -> Deed:
    def deed(job: Job) -> None:
        raise make()

    return deed


def once(make: Callable[[Any], BaseException], delay: Any) -> Deed:
    """Raises in the first attempt only: a snooze without a delay would begin again for ever."""

    def deed(job: Job) -> None:
        if job.attempt == 1:
            raise make(delay)

    return deed


def saying(say: Callable[[Job], object]) -> Deed:
    def deed(job: Job) -> str:
        say(job)
        return "said"

    return deed


def _log(value: Any) -> Deed:
    return saying(lambda job: job.log(value))


def _progress(fraction: Any, text: Any = "") -> Deed:
    return saying(lambda job: job.progress(fraction, text))


def _error(text: str) -> Deed:
    return raising(lambda: ValueError(text))


DEEDS: list[Deed] = [
    *(returning(value) for value in [*TEXTS, *NUMBERS, *OBJECTS]),
    *(_error(text) for text in TEXTS),
    *(raising(make) for make in ERRORS),
    *(once(kind, delay) for kind in (Careless, Drowsy, RetryLater, Snooze) for delay in DELAYS),
    *(_log(value) for value in [*TEXTS, None, 7, nan, b"\xff", Spiteful(), [Spiteful()]]),
    *(_progress(value) for value in [nan, inf, -1, 2, 10**400, "half", None, Spiteful(), True]),
    *(_progress(0.5, text) for text in [*TEXTS, None, 7, Spiteful()]),
]


@handlers.add(Definition("small"))
async def small(job: Job, payload: dict[str, Any]) -> float:
    """Returns when it began, for a bystander that measures how long its job waited."""
    return time.monotonic()


@handlers.add(Definition("taken", max_attempts=2, backoff=SOON))
async def taken(job: Job, payload: dict[str, Any]) -> dict[str, Any]:
    """Returns the payload, hostile as it is."""
    return payload


@handlers.add(Definition("odd", max_attempts=2, backoff=SOON))
async def odd(job: Job, payload: dict[str, Any]) -> dict[str, Any]:
    """Fails once: people have changed the row of its definition by hand."""
    if job.attempt == 1:
        raise ValueError("again")
    return payload


@handlers.add(Definition("hostile", max_attempts=2, backoff=SOON))
async def hostile(job: Job, payload: dict[str, Any]) -> Any:
    return DEEDS[payload["index"]](job)


@handlers.add(Definition("hostile_in_thread", max_attempts=2, backoff=SOON))
def hostile_in_thread(job: Job, payload: dict[str, Any]) -> Any:
    return DEEDS[payload["index"]](job)


@app.job(max_attempts=2, backoff=SOON)
async def typed(
    job: Job,
    number: int = 0,
    real: float = 0.0,
    text: str = "",
    moment: datetime | None = None,
    span: timedelta | None = None,
    listed: list[int] | None = None,
    anything: Any = None,
) -> str:
    return text


ticks = Leasehold()


@ticks.job(max_attempts=2, backoff=SOON)
async def ticked(job: Job) -> str:
    """Runs in a tick only: no worker of the poison run serves it."""
    return "ticked"
