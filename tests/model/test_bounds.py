"""Values that can't be stored are refused at once: moments, durations, numbers, texts."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from math import inf, nan
from typing import Any

import pytest

from leasehold.errors import InvalidInput
from leasehold.model.backoff import Exponential, Steps
from leasehold.model.bounds import EARLIEST, LATEST, LONGEST, LONGEST_RETENTION
from leasehold.model.dedupe import Always, Dedupe, Within
from leasehold.model.definition import Definition, Retention
from leasehold.model.job import NewJob
from leasehold.model.limits import Limits, Pause, Rate, Scope, ScopeKind
from leasehold.model.outcome import Succeeded
from leasehold.store import Filter
from leasehold.worker import WorkerSettings
from leasehold.worker.heartbeat import Leases


class Raising(tzinfo):
    def utcoffset(self, moment: datetime | None) -> timedelta:
        raise RuntimeError("no offset")

    dst = utcoffset

    def tzname(self, moment: datetime | None) -> str:
        return "raising"


BAD_MOMENTS = [
    datetime.max.replace(tzinfo=UTC),
    datetime.max.replace(tzinfo=timezone(timedelta(hours=-14))),
    datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(1899, 12, 31, tzinfo=UTC),
    LATEST,
    datetime.max,
    datetime(2030, 1, 1),
    datetime(2030, 1, 1, tzinfo=Raising()),
    "2030-01-01",
    1893456000,
]
BAD_DURATIONS = [
    timedelta.max,
    timedelta.min,
    timedelta(days=300_000 * 365),
    timedelta(seconds=-1),
    -1,
    nan,
    "soon",
    True,
]
BAD_COUNTS = [0, -1, 2**31, 10**400, 1.5, nan, True, "3"]

MOMENTS: list[Callable[[Any], object]] = [
    lambda moment: NewJob(definition="report", at=moment),
    lambda moment: NewJob(definition="report", deadline=moment),
    lambda moment: Pause("the provider is down", moment),
    lambda moment: Filter(created_after=moment),
    lambda moment: Filter(created_before=moment),
]
DURATIONS: list[Callable[[Any], object]] = [
    lambda span: NewJob(definition="report", delay=span),
    lambda span: Rate(1, span),
    lambda span: Within(span),
    lambda span: Always(span),
    lambda span: Definition("report", timeout=span),
    lambda span: Retention(succeeded=span),
    lambda span: Retention(canceled=span),
    lambda span: Retention(failed=span),
    lambda span: Retention(dead_letter=span),
    lambda span: Leases(busy=span),
    lambda span: Leases(idle=span),
    lambda span: WorkerSettings(fallback=span),
    lambda span: WorkerSettings(grace=span),
    lambda span: WorkerSettings(prune_every=span),
]
COUNTS: list[Callable[[Any], object]] = [
    lambda count: NewJob(definition="report", version=count),
    lambda count: NewJob(definition="report", max_attempts=count),
    lambda count: Rate(count, timedelta(seconds=1)),
    lambda count: Limits(max_running=count),
    lambda count: Definition("report", max_attempts=count),
    lambda count: WorkerSettings(slots=count),
    lambda count: WorkerSettings(dispatchers=count),
]
BAD_TEXTS = ["a\0b", "a\ud800b", "x" * 10_001, 7]
TEXTS: list[Callable[[Any], object]] = [
    lambda text: NewJob(definition=text),
    lambda text: NewJob(definition="report", source_ref=text),
    lambda text: NewJob(definition="report", correlation_id=text),
    lambda text: NewJob(definition="report", created_by=text),
    lambda text: Dedupe(text),
    lambda text: Definition(text),
    lambda text: Definition("report", description=text),
    lambda text: Pause(text),
    lambda text: Scope(ScopeKind.TENANT, text),
    lambda text: Filter(correlation_id=text),
    lambda text: Filter(definitions=(text,)),
    lambda text: WorkerSettings(version=text),
    lambda text: WorkerSettings(metadata={"note": text}),
    lambda text: WorkerSettings(metadata={text: "note"}),
]


@pytest.mark.parametrize("moment", BAD_MOMENTS, ids=lambda moment: f"{type(moment).__name__} {moment!r:.40}")
@pytest.mark.parametrize("make", MOMENTS)
def test_a_moment_beyond_all_calendars_is_refused(make: Callable[[Any], object], moment: Any) -> None:
    with pytest.raises(InvalidInput):
        make(moment)


@pytest.mark.parametrize("moment", [EARLIEST, LATEST - timedelta(microseconds=1), datetime(1970, 1, 1, tzinfo=UTC)])
@pytest.mark.parametrize("make", MOMENTS)
def test_a_moment_within_the_bounds_is_taken(make: Callable[[Any], object], moment: datetime) -> None:
    make(moment)


@pytest.mark.parametrize("span", BAD_DURATIONS)
@pytest.mark.parametrize("make", DURATIONS)
def test_a_duration_that_no_clock_can_add_is_refused(make: Callable[[Any], object], span: Any) -> None:
    with pytest.raises(InvalidInput):
        make(span)


@pytest.mark.parametrize("make", DURATIONS)
def test_the_longest_duration_is_taken(make: Callable[[Any], object]) -> None:
    make(LONGEST)


def test_retention_may_be_a_hundred_years() -> None:
    assert Retention(succeeded=LONGEST_RETENTION).succeeded == timedelta(days=36500)


@pytest.mark.parametrize("count", BAD_COUNTS, ids=lambda count: f"{str(count)[:20] if count != 10**400 else 'huge'}")
@pytest.mark.parametrize("make", COUNTS)
def test_a_count_that_no_column_holds_is_refused(make: Callable[[Any], object], count: Any) -> None:
    with pytest.raises(InvalidInput):
        make(count)


@pytest.mark.parametrize("text", BAD_TEXTS, ids=["NUL", "surrogate", "long", "number"])
@pytest.mark.parametrize("make", TEXTS)
def test_a_text_that_no_column_holds_is_refused(make: Callable[[Any], object], text: Any) -> None:
    with pytest.raises(InvalidInput):
        make(text)


@pytest.mark.parametrize(
    "value", [10**5000, 10**400, inf, nan, "soon", None, True], ids=lambda value: f"{type(value)}"
)
@pytest.mark.parametrize("field", ["base", "factor", "cap", "jitter"])
def test_a_backoff_of_other_than_finite_numbers_is_refused(field: str, value: Any) -> None:
    if (field, value) == ("jitter", True):
        value = "soon"
    with pytest.raises(InvalidInput):
        Exponential(**{field: value})
    with pytest.raises(InvalidInput):
        Steps(value)


def test_a_factor_that_json_would_round_is_rounded_at_once() -> None:
    assert Exponential(factor=10**100).as_json()["factor"] == 1e100


@pytest.mark.parametrize(
    "schema",
    [{"title": "a\0b"}, {"title": "a\ud800b"}, {"maximum": inf}, {"title": "x" * 300_000}, {"default": object()}, []],
    ids=["NUL", "surrogate", "infinite", "large", "object", "list"],
)
def test_a_schema_that_cannot_be_stored_is_refused(schema: Any) -> None:
    with pytest.raises(InvalidInput):
        Definition("report", schema=schema).check_registrable()


@pytest.mark.parametrize("text", [r'"\\u0000"', r'{"regex": "[\\u0000-\\u001f]"}', r'"\\\\\\u0000"'])
def test_a_result_may_have_the_text_of_an_escaped_nul(text: str) -> None:
    """These are a backslash and five letters, which Postgres stores."""
    assert Succeeded(text).result == text


@pytest.mark.parametrize("text", [r'"\u0000"', r'"\\\u0000"', r'"a\\\\\u0000b"'])
def test_a_result_with_a_real_nul_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="NUL"):
        Succeeded(text)
