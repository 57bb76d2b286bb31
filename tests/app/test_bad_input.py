"""Bad input and wrong types are errors with a fix; nothing is enqueued."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from tests.app.helpers import count_size, handle, rows

from leasehold import (
    InvalidInput,
    Leasehold,
    LeaseholdError,
    PayloadInvalid,
    Unreachable,
)
from leasehold.errors import NotJson, SchemaMismatch, UnknownDefinition

Enqueue = Callable[[Leasehold], object]
BAD: list[tuple[str, type[LeaseholdError], Enqueue]] = [
    ("an argument is missing", PayloadInvalid, lambda app: handle(app).enqueue(the(app))),
    ("an argument is unknown", PayloadInvalid, lambda app: handle(app).enqueue(the(app), "p", pth="/")),
    ("an argument is of the wrong type", PayloadInvalid, lambda app: handle(app).enqueue(the(app), 5)),
    ("an object", NotJson, lambda app: handle(app).enqueue(the(app), "p", extra=object())),
    ("a datetime in a dict", NotJson, lambda app: handle(app).enqueue(the(app), "p", extra={"at": datetime.now()})),
    ("NaN", NotJson, lambda app: handle(app).enqueue(the(app), "p", extra=float("nan"))),
    ("NUL", NotJson, lambda app: handle(app).enqueue(the(app), "p\0")),
    ("a lone surrogate", NotJson, lambda app: handle(app).enqueue(the(app), "p\ud800")),
    ("too deep", NotJson, lambda app: handle(app).enqueue(the(app), "p", extra=nested(40))),
    ("over 256 KB", PayloadInvalid, lambda app: handle(app).enqueue(the(app), "p" * 300_000)),
    ("an unknown definition", UnknownDefinition, lambda app: handle(app).enqueue_key("count_siz", {})),
    ("by key, a field is missing", PayloadInvalid, lambda app: handle(app).enqueue_key("count_size", {})),
    ("no definition at all", InvalidInput, lambda app: handle(app).enqueue(count_size, "p")),
    ("a bad tenant id", InvalidInput, lambda app: app.tenant(" acme").enqueue(the(app), "p")),
    ("too long a tenant id", InvalidInput, lambda app: app.tenant("a" * 101).enqueue(the(app), "p")),
    ("a delay that is none", InvalidInput, lambda app: handle(app).options(delay="soon").enqueue(the(app), "p")),
    (
        "a delay in the past",
        InvalidInput,
        lambda app: handle(app).options(delay=-timedelta(1)).enqueue(the(app), "p"),
    ),
    ("a naive moment", InvalidInput, lambda app: handle(app).options(at=datetime(2030, 1, 1)).enqueue(the(app), "p")),
    ("a priority beyond", InvalidInput, lambda app: handle(app).options(priority=40_000).enqueue(the(app), "p")),
    ("an id that is none", InvalidInput, lambda app: handle(app).options(id="seven").enqueue(the(app), "p")),
    ("a key too long", InvalidInput, lambda app: handle(app).options(dedupe_key="k" * 1001).enqueue(the(app), "p")),
    ("one of many", NotJson, lambda app: handle(app).enqueue_many([the(app).bind("p"), the(app).bind("p\0")])),
]


def the(app: Leasehold) -> Any:
    return app.definition("count_size")


def nested(depth: int) -> dict[str, Any]:
    return {} if depth == 0 else {"a": nested(depth - 1)}


@pytest.mark.parametrize(("what", "error", "enqueue"), BAD, ids=[what for what, _, _ in BAD])
def test_bad_input_is_an_error_with_a_fix_and_nothing_is_enqueued(
    what: str, error: type[LeaseholdError], enqueue: Enqueue, app: Leasehold, database_url: str
) -> None:
    app.job(count_size)
    with pytest.raises(error) as refused:
        enqueue(app)
    assert str(refused.value).startswith(f"{error.code}: ")
    assert refused.value.fix
    assert "Nothing was" in str(refused.value)
    assert asyncio.run(rows(database_url)) == 0


def test_the_nearest_definition_is_named(app: Leasehold, database_url: str) -> None:
    app.tenant("acme").enqueue(app.job(count_size), "p")
    other = Leasehold(database_url)
    with pytest.raises(UnknownDefinition, match=r'LH-1002.*Did you mean "count_size"'):
        other.tenant("acme").enqueue_key("count_sise", {})
    other.close()


def test_a_database_that_is_away_is_said_to_be() -> None:
    app = Leasehold("postgresql://127.0.0.1:1/nobody")
    with pytest.raises(Unreachable, match="LH-3001"):
        app.tenant("acme").enqueue(app.job(count_size), "p")
    app.close()


def test_a_missing_schema_says_how_to_make_it(database_url: str) -> None:
    app = Leasehold(database_url, schema="absent")
    with pytest.raises(SchemaMismatch, match=r"LH-2001.*leasehold migrate"):
        app.tenant("acme").enqueue(app.job(count_size), "p")
    app.close()


WRONG: list[tuple[str, Enqueue]] = [
    ("a list as delay", lambda app: handle(app).options(delay=[300])),
    ("a text as moment", lambda app: handle(app).options(at="2030-01-01")),
    ("a text as priority", lambda app: handle(app).options(priority="10")),
    ("a number as correlation id", lambda app: handle(app).options(correlation_id=5)),
    ("a text as dedupe mode", lambda app: handle(app).options(dedupe="while_active")),
    ("delay and moment", lambda app: handle(app).options(delay="5m", at=datetime.now(UTC))),
    ("None as tenant", lambda app: app.tenant(None)),  # type: ignore[arg-type]
    ("a number as job id", lambda app: handle(app).get(5)),
    ("a list as payload", lambda app: handle(app).enqueue_key("count_size", ["p"])),
    ("one id for two jobs", lambda app: handle(app).options(id=str(uuid4())).enqueue_many([the(app).bind("p")] * 2)),
]


@pytest.mark.parametrize(("what", "call"), WRONG, ids=[what for what, _ in WRONG])
def test_a_value_of_a_wrong_type_is_an_error_of_ours_too(what: str, call: Enqueue, app: Leasehold) -> None:
    app.job(count_size)
    with pytest.raises(InvalidInput, match="Nothing was"):
        call(app)


REGISTERED_WRONG: list[tuple[str, dict[str, Any]]] = [
    ("a list as timeout", {"timeout": [600]}),
    ("a text as max_attempts", {"max_attempts": "5"}),
    ("a number as backoff", {"backoff": 30}),
    ("a timedelta as retention", {"retention": timedelta(days=1)}),
]


@pytest.mark.parametrize(("what", "options"), REGISTERED_WRONG, ids=[what for what, _ in REGISTERED_WRONG])
def test_an_option_of_a_wrong_type_is_refused_when_it_is_registered(what: str, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=r"can't be used: \w+=.*is not.*Nothing was registered"):
        Leasehold().job(**options)(count_size)


def test_a_uuid_is_fine_as_tenant_and_as_job_id(app: Leasehold) -> None:
    handle = app.tenant(UUID(int=7))
    placed = handle.options(id=uuid4()).enqueue(app.job(count_size), "p")
    assert handle.get(UUID(placed.id)).tenant == str(UUID(int=7))
