"""Commands that are refused when they are declared, each with its reason, and those that are not."""

from datetime import timedelta
from typing import Any

import pytest
from tests.model.commands import TEXT, make, schema_of

from leasehold.errors import InvalidInput
from leasehold.model.command import Command, ResourceLimits
from leasehold.model.command_rules import require_usable
from leasehold.model.definition import Definition

ID = {"type": "string", "format": "uuid"}
FLAG = {"type": "boolean"}
STRINGS = {"type": "array", "items": TEXT}


def refusal_of(command: Command) -> str:
    with pytest.raises(InvalidInput) as refused:
        require_usable(command)
    assert "Nothing was registered" in refused.value.fix
    return refused.value.happened


def of_template(*template: Any) -> Command:
    return Command(Definition("sync", schema=schema_of({})), template)


def of_schema(schema: dict[str, Any] | None, *arguments: str) -> Command:
    return Command(Definition("sync", schema=schema), ("sync", *arguments))


# ----------------------------------------------------------------------------------------------------------- template


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ((), "argv is empty"),
        ((("sync", "{x}"),), "argv begins with a group"),
        (("",), r"argv\[0\] is empty"),
        (("sync", ()), r"argv\[1\] is empty"),
        (("sync", 7), "not text"),
        (("sync", (7,)), "not text"),
        (("sync", "a\0"), r"argv\[1\] has a NUL"),
        (("sync", "{x"), "has a single {, a literal one is written twice"),
        (("sync", "x}"), "has a single }"),
        (("sync",) + ("x",) * 1000, "argv has 1001 items"),
        (("{tenant}",), "a payload must not choose the program"),
        (("bin/sync",), "a relative path"),
    ],
)
def test_a_template_that_can_not_be_read_is_refused(template: Any, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        require_usable(of_template(*template))


def test_all_problems_are_told_at_once() -> None:
    told = refusal_of(make("{y}", fields={"x": TEXT}, env={"A B": ""}, fail_on=frozenset({0})))
    assert "'{y}' names 'y'" in told
    assert "x has neither a slot" in told
    assert "'A B' is not the name" in told
    assert "fail_on=0" in told


# ------------------------------------------------------------------------------------------------------------- schema


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (None, "schema is missing"),
        (schema_of({}) | {"type": "array"}, 'schema.type is not "object"'),
        (schema_of({}) | {"additionalProperties": True}, "schema.additionalProperties is not false"),
        ({"type": "object"}, "schema.additionalProperties is not false"),
        (schema_of({}) | {"patternProperties": {"^x": TEXT}}, "schema.patternProperties"),
        (schema_of({"tenant": TEXT}), "schema.properties.tenant has the name of a reserved slot"),
    ],
)
def test_a_schema_that_allows_unknown_fields_is_refused(schema: dict[str, Any] | None, why: str) -> None:
    assert why in refusal_of(of_schema(schema))


def test_a_field_without_a_slot_is_refused() -> None:
    assert "x, y have neither a slot in argv or env nor a payload file" in refusal_of(
        make(fields={"x": TEXT, "y": ID})
    )


def test_a_field_without_a_slot_goes_into_the_payload_file() -> None:
    require_usable(make(fields={"x": {"type": "object"}}, payload_file="JOB_PAYLOAD"))


def test_a_slot_without_a_field_is_refused_with_the_nearest_name() -> None:
    told = refusal_of(make("--x={provider}", "--id={provider_id}", fields={"provider_id": ID}))
    assert "'provider', which is not a field of the schema (did you mean \"provider_id\"?)" in told


# -------------------------------------------------------------------------------------------------------------- slots


@pytest.mark.parametrize("arguments", [("--x={x}",), ("name={x}",), ("--", "{x}"), ("--", "-{x}"), (("--", "{x}"),)])
def test_free_text_is_allowed_where_it_can_not_be_an_option(arguments: tuple[Any, ...]) -> None:
    require_usable(make(*arguments, fields={"x": TEXT}, required=isinstance(arguments[0], str)))


@pytest.mark.parametrize("arguments", [("{x}",), ("--flag", "{x}"), ("{x}", "--"), ("{x}.txt",)])
def test_free_text_is_refused_where_it_could_be_an_option(arguments: tuple[str, ...]) -> None:
    assert "x may start with a dash" in refusal_of(make(*arguments, fields={"x": TEXT}))


@pytest.mark.parametrize("argument", ["-{x}", "--{x}", "-o{x}", "-o={x}", "--{x}=1", "--a b={x}"])
def test_a_slot_inside_the_name_of_an_option_is_refused(argument: str) -> None:
    assert "lets a payload write options" in refusal_of(make(argument, fields={"x": ID}))


@pytest.mark.parametrize("argument", ["{x}", "{tenant}-{x}", "{x}:{tenant}"])
def test_a_value_that_can_not_be_an_option_may_stand_alone(argument: str) -> None:
    require_usable(make("--flag", argument, fields={"x": ID}))


@pytest.mark.parametrize("schema", [{"type": "object"}, {}, {"type": "array"}, {"type": ["string", "object"]}])
def test_a_value_that_is_not_a_single_one_is_refused(schema: dict[str, Any]) -> None:
    assert "x has no type that '--x={x}' can be filled with" in refusal_of(make("--x={x}", fields={"x": schema}))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": STRINGS},
        {"type": "array", "items": TEXT, "prefixItems": [{"type": "object"}]},
        {"type": ["array", "string"], "items": TEXT},
    ],
)
def test_a_list_of_other_things_than_single_values_is_refused(schema: dict[str, Any]) -> None:
    assert "x has no type that '--x={x}' can be filled with" in refusal_of(make("--x={x}", fields={"x": schema}))


def test_a_list_with_null_among_its_items_is_refused() -> None:
    items = {"type": "array", "items": {"type": ["string", "null"]}}
    assert "x may have null among its items" in refusal_of(make("--x={x}", fields={"x": items}))


def test_two_slots_in_one_token_can_not_be_lists() -> None:
    assert "x is a list, so it has to be the only slot" in refusal_of(
        make("--x={x}/{y}", fields={"x": STRINGS, "y": TEXT})
    )


def test_a_list_that_may_be_empty_needs_a_group_with_its_flag() -> None:
    numbers = {"type": "array", "items": {"type": "integer", "minimum": 0}}
    assert "x may be an empty list" in refusal_of(make("--x", "{x}", fields={"x": numbers}))
    require_usable(make("--x", "{x}", fields={"x": numbers | {"minItems": 1}}))
    require_usable(make(("--x", "{x}"), fields={"x": numbers}))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "x-secret": True},
        {"type": "array", "items": {"type": "string", "x-secret": True}},
    ],
)
def test_a_secret_has_no_slot(schema: dict[str, Any]) -> None:
    assert "x is secret" in refusal_of(make("--x={x}", fields={"x": schema}))


# ------------------------------------------------------------------------------------------------------------- groups


@pytest.mark.parametrize("schema", [TEXT, {"type": ["string", "null"]}])
def test_a_field_that_may_be_missing_needs_a_group(schema: dict[str, Any]) -> None:
    required = "null" in schema["type"]
    told = refusal_of(make("--x={x}", fields={"x": schema}, required=required))
    assert "x may be missing, so '--x={x}' belongs into a group" in told


def test_a_required_field_stands_outside_of_a_group() -> None:
    assert "x is required, so '--x={x}' stands outside" in refusal_of(make(("--x={x}",), fields={"x": TEXT}))


@pytest.mark.parametrize("group", [("--all",), ("--tenant", "{tenant}")])
def test_a_group_without_a_field_is_refused(group: tuple[str, ...]) -> None:
    assert "it would never be left out" in refusal_of(make(group))


def test_a_group_with_two_dashes_is_the_last_item() -> None:
    command = make(("--", "{x}"), "--y={y}", fields={"x": STRINGS, "y": TEXT})
    assert "has --, so it has to be the last item" in refusal_of(command)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("{x?}",), "is a switch, and stands in a group"),
        ((("--x={x?}",),), "has more than a switch"),
        ((("--all", "{tenant?}"), ("--x", "{x?}")), "tenant is not a boolean"),
    ],
)
def test_a_switch_is_a_boolean_alone_in_a_group(arguments: tuple[Any, ...], why: str) -> None:
    assert why in refusal_of(make(*arguments, fields={"x": FLAG}, required=False))


def test_a_switch_of_another_type_is_refused() -> None:
    assert "x is not a boolean" in refusal_of(make(("--x", "{x?}"), fields={"x": TEXT}, required=False))


# ------------------------------------------------------------------------------------------------------ other options


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"env": {"A=B": ""}}, "'A=B' is not the name of an environment variable"),
        ({"env": {"A": 1}}, "env.A is not text"),
        ({"env": {"A": "\0"}}, "env.A is not text"),
        ({"env": {"JOB_ID": "7"}}, "JOB_ID is a name that Leasehold sets"),
        ({"pass_env": ("LEASEHOLD_SECRET_KEY",)}, "LEASEHOLD_SECRET_KEY is a name"),
        ({"pass_env": ("PATH",)}, "PATH differs from machine to machine"),
        ({"pass_env": ("A",), "env": {"A": ""}}, "A is in env and in pass_env"),
        ({"payload_file": "a b"}, "payload_file='a b' is not the name"),
        ({"payload_file": "JOB_ID"}, "payload_file='JOB_ID' is the name of another variable"),
        ({"fail_on": frozenset({256})}, "fail_on=256 is not between 1 and 255"),
        ({"fail_on": frozenset({True})}, "fail_on=True is not a whole number"),
        ({"snooze_on": {75: "soon"}}, "snooze_on[75]='soon' is not a duration"),
        ({"fail_on": frozenset({75}), "snooze_on": {75: timedelta(5)}}, "75 is in fail_on and in snooze_on"),
        ({"grace": timedelta(seconds=-1)}, "grace="),
        ({"limits": ResourceLimits(memory=0)}, "limits.memory=0 is not between 1"),
        ({"limits": ResourceLimits(cpu=timedelta())}, "limits.cpu="),
        ({"progress": "no"}, "progress='no' is neither true nor false"),
    ],
)
def test_a_wrong_option_is_refused_by_its_name(options: dict[str, Any], why: str) -> None:
    assert why in refusal_of(make(**options))


def test_a_path_of_its_own_is_searched_for_the_program() -> None:
    require_usable(own := make(env={"PATH": "/opt/bin"}, pass_env=("HOME",)))
    assert own.search_path == "/opt/bin"
    assert "/usr/bin" in make().search_path
