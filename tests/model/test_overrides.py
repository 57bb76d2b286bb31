"""Overrides as values: applied to the content of code, stored as JSON, and read back."""

from datetime import UTC, datetime, timedelta

import pytest

from leasehold.errors import InvalidInput
from leasehold.model.backoff import Exponential, Steps
from leasehold.model.definition import Definition, Override, Registered, Retention
from leasehold.model.overrides import OverrideChange, as_json, effective, from_json, plan_override, read_values

NOON = datetime(2030, 1, 2, 12, tzinfo=UTC)
WITH_SECRET = Definition(
    "login", schema={"type": "object", "properties": {"password": {"type": "string", "x-secret": True}}}
)


def plan(base: Definition, **values: object) -> Definition:
    change = OverrideChange(read_values(values, base), frozenset(), "anna")
    return effective(base, plan_override(Registered(base, 1, True), base, change, NOON))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("timeout", timedelta(seconds=90, microseconds=1)),
        ("backoff", Exponential(base=1.5, factor=3, cap=600, jitter=0.25)),
        ("backoff", Steps(0.5, 30)),
        ("retention", Retention(succeeded="36h", canceled=None)),
        ("schema", {"type": "object"}),
        ("max_attempts", 7),
        ("active", False),
    ],
)
def test_an_override_is_read_back_as_it_was_stored(field: str, value: object) -> None:
    overrides = {field: Override(value, "anna", NOON)}
    assert from_json(as_json(overrides)) == (overrides, ())


@pytest.mark.parametrize(
    "stored",
    [
        {"shape": {"value": 1, "by": "anna", "at": "2030-01-02T12:00:00+00:00"}},
        {"max_attempts": {"value": "many", "by": "anna", "at": "2030-01-02T12:00:00+00:00"}},
        {"timeout": {"value": 5}},
        {"timeout": 5},
    ],
)
def test_an_override_of_a_newer_release_is_told_and_left_out(stored: dict[str, object]) -> None:
    found, (problem,) = from_json(stored)
    assert found == {}
    assert problem.startswith(f"overrides {min(stored)} can't be read")


def test_a_field_that_the_code_keeps_secret_stays_secret() -> None:
    open_schema = {"type": "object", "properties": {"password": {"type": "string", "minLength": 8}}}
    assert plan(WITH_SECRET, schema=open_schema).secret_fields == {"password"}
    assert plan(WITH_SECRET, schema={"type": "object"}).secret_fields == {"password"}


def test_a_schema_that_makes_more_fields_secret_is_refused() -> None:
    more = {"type": "object", "properties": {"user": {"type": "string", "x-secret": True}}}
    with pytest.raises(InvalidInput, match="marks 'user' as secret"):
        plan(WITH_SECRET, schema=more)


def test_a_retention_keeps_the_statuses_that_are_not_named() -> None:
    changed = plan(WITH_SECRET, retention={"failed": "90d"})
    assert changed.retention == Retention(failed="90d")


def test_a_value_that_is_set_again_keeps_its_author() -> None:
    before = {"max_attempts": Override(7, "anna", NOON)}
    change = OverrideChange({"max_attempts": 7, "timeout": timedelta(1)}, frozenset(), "ben")
    after = change.apply(before, NOON + timedelta(1))
    assert {name: override.by for name, override in after.items()} == {"max_attempts": "anna", "timeout": "ben"}
