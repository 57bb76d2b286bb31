"""The argv of a command: exact tokens from a payload, and no value that becomes an option."""

import argparse
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.model.commands import JOB, TEXT, argv_of, make, schema_of

from leasehold.errors import PayloadInvalid
from leasehold.model.argv import MAX_ARGUMENT, render
from leasehold.model.command import Command
from leasehold.model.command_rules import require_usable
from leasehold.model.definition import Definition

STRINGS = {"type": "array", "items": TEXT}


# -------------------------------------------------------------------------------------------------------------- slots


@pytest.mark.parametrize(
    ("schema", "value", "written"),
    [
        (TEXT, "a b", "a b"),
        (TEXT, "", ""),
        ({"type": "boolean"}, True, "true"),
        ({"type": "boolean"}, False, "false"),
        ({"type": "integer"}, -7, "-7"),
        ({"type": "number"}, 1.5, "1.5"),
        ({"type": "integer"}, 2.0, "2"),
        ({"type": "integer"}, 1e22, "10000000000000000000000"),
        ({"type": "integer", "minimum": 0}, -0.0, "0"),
        ({"enum": ["a", 3]}, 3, "3"),
    ],
)
def test_a_value_is_written_behind_its_flag(schema: dict[str, Any], value: Any, written: str) -> None:
    assert argv_of(make("--x={x}", fields={"x": schema}), x=value) == [f"--x={written}"]


def test_reserved_slots_are_filled_from_the_job() -> None:
    assert argv_of(make("--tenant", "{tenant}", "{job_id}", "{attempt}")) == ["--tenant", "acme", JOB, "2"]


def test_a_token_may_have_several_slots_and_literal_braces() -> None:
    command = make("--range={{{a}..{b}}}", fields={"a": TEXT, "b": TEXT})
    assert argv_of(command, a="1", b="{a}") == ["--range={1..{a}}"]


def test_a_list_becomes_one_token_for_each_item() -> None:
    command = make("--tag={tags}", "--", "{paths}", fields={"tags": STRINGS, "paths": STRINGS})
    assert argv_of(command, tags=["a", "b"], paths=["-x", "y"]) == ["--tag=a", "--tag=b", "--", "-x", "y"]
    assert argv_of(command, tags=[], paths=[]) == ["--"]


def test_the_program_is_the_absolute_path_once_it_is_known() -> None:
    found = replace(make("run"), executable="/usr/bin/sync")
    assert render(found, {}, tenant="acme", job_id=JOB, attempt=1).argv == ("/usr/bin/sync", "run")


# ------------------------------------------------------------------------------------------------------------- groups

SINCE = make(("--since", "{since}"), fields={"since": {"type": ["string", "null"], "format": "date"}}, required=False)


def test_a_group_is_there_if_its_field_is_given() -> None:
    assert argv_of(SINCE, since="2027-01-31") == ["--since", "2027-01-31"]


@pytest.mark.parametrize("payload", [{}, {"since": None}])
def test_a_group_is_left_out_if_its_field_is_missing(payload: dict[str, Any]) -> None:
    assert argv_of(SINCE, **payload) == []


def test_a_group_is_left_out_for_an_empty_list() -> None:
    command = make(("--tags", "{tags}"), fields={"tags": {"type": "array", "items": {"enum": ["a", "b"]}}})
    assert argv_of(command, tags=[]) == []
    assert argv_of(command, tags=["a", "b"]) == ["--tags", "a", "b"]


def test_a_group_with_some_of_its_fields_is_refused() -> None:
    command = make(("--from={a}", "--to={b}"), fields={"a": TEXT, "b": TEXT}, required=False)
    assert argv_of(command, a="1", b="2") == ["--from=1", "--to=2"]
    with pytest.raises(PayloadInvalid, match="a can't be used without b"):
        argv_of(command, a="1")


@pytest.mark.parametrize(("payload", "argv"), [({"force": True}, ["--force"]), ({"force": False}, []), ({}, [])])
def test_a_switch_is_there_only_if_its_field_is_true(payload: dict[str, Any], argv: list[str]) -> None:
    command = make(("--force", "{force?}"), fields={"force": {"type": "boolean"}}, required=False)
    assert argv_of(command, **payload) == argv


# ------------------------------------------------------------------------------------------------------- payload file


def test_fields_without_a_slot_go_into_the_payload_file() -> None:
    command = make("--x={x}", fields={"x": TEXT, "rows": {"type": "array"}}, payload_file="JOB_PAYLOAD")
    rendered = render(command, {"x": "a", "rows": [1, {"b": None}]}, tenant="acme", job_id=JOB, attempt=1)
    assert rendered.argv == ("sync", "--x=a")
    assert orjson.loads(rendered.payload_file or b"") == {"rows": [1, {"b": None}]}


def test_without_a_payload_file_there_is_no_content() -> None:
    assert render(make(), {}, tenant="acme", job_id=JOB, attempt=1).payload_file is None


# ------------------------------------------------------------------------------------------------------------ attacks

ATTACKS = [
    *("-", "--", "-oX", "--out=/etc/x", "@file", "$(id)", "`id`", ";", "a\nb", "../", "*", " ", "'\""),
    *("é", "{tenant}", "--force", "--depth"),
]
UNUSABLE = ["a\0b", "\ud800", "x" * 200_000]


@pytest.mark.parametrize("value", ATTACKS)
def test_a_hostile_value_stays_one_token_behind_its_flag(value: str) -> None:
    assert argv_of(make("--x={x}", fields={"x": TEXT}), x=value) == [f"--x={value}"]


@pytest.mark.parametrize("value", [attack for attack in ATTACKS if not attack.startswith("@")])
def test_a_hostile_value_stays_one_token_behind_two_dashes(value: str) -> None:
    assert argv_of(make("--", "{x}", "{x}", fields={"x": TEXT}), x=value) == ["--", value, value]


@pytest.mark.parametrize("value", UNUSABLE, ids=["NUL", "surrogate", "200 KB"])
@pytest.mark.parametrize("arguments", [("--x={x}",), ("--", "{x}")], ids=["flag", "behind"])
def test_a_value_that_no_argument_can_hold_is_refused(arguments: tuple[str, ...], value: str) -> None:
    with pytest.raises(PayloadInvalid):
        argv_of(make(*arguments, fields={"x": TEXT}), x=value)


def test_a_file_of_arguments_is_refused_behind_two_dashes() -> None:
    with pytest.raises(PayloadInvalid, match="starts with @, so a program may read it as the name of a file"):
        argv_of(make("--", "{x}", fields={"x": TEXT}), x="@/etc/passwd")


@pytest.mark.parametrize("tenant", ["-rf", "--", "@acme"])
def test_a_tenant_that_looks_like_an_option_is_refused(tenant: str) -> None:
    with pytest.raises(PayloadInvalid, match="tenant="):
        argv_of(make("--tenant-id", "{tenant}"), tenant=tenant)
    assert argv_of(make("--tenant-id={tenant}"), tenant=tenant) == [f"--tenant-id={tenant}"]


def test_an_argument_of_the_largest_size_is_accepted() -> None:
    command = make("--x={x}", fields={"x": TEXT})
    fits = "é" * ((MAX_ARGUMENT - len("--x=")) // 2)
    assert argv_of(command, x=fits) == [f"--x={fits}"]
    with pytest.raises(PayloadInvalid, match="131,072 bytes, an argument has at most 131,071"):
        argv_of(command, x=fits + "é")


def test_arguments_that_are_too_large_together_are_refused() -> None:
    command = make(f"--{'long' * 20}={{x}}", fields={"x": STRINGS})
    with pytest.raises(PayloadInvalid, match="20,001 arguments of"):
        argv_of(command, x=["a"] * 20_000)


# ---------------------------------------------------------------------------------------------------- another version


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        ({}, '"x" is a required property'),
        ({"x": 7}, "payload.x"),
        ({"x": "a", "y": "b"}, "payload.y: unknown field"),
    ],
)
def test_a_payload_of_another_schema_fails_and_says_why(payload: dict[str, Any], why: str) -> None:
    with pytest.raises(PayloadInvalid, match=why):
        argv_of(make("--x={x}", fields={"x": TEXT}), **payload)


# ----------------------------------------------------------------------------------------------------- there and back

REFERENCE = Command(
    Definition(
        "reference",
        schema=schema_of(
            {
                "provider_id": {"type": "string", "format": "uuid"},
                "mode": {"enum": ["fast", "full"]},
                "depth": {"type": "integer", "minimum": 0},
                "text": TEXT,
                "note": TEXT,
                "since": {"type": "string", "format": "date"},
                "ratio": {"type": "number"},
                "force": {"type": "boolean"},
                "tags": STRINGS,
                "levels": {"type": "array", "items": {"type": "integer", "minimum": 0}},
                "paths": {"type": "array", "items": {"type": "string", "pattern": "^[^@]"}},
            }
        )
        | {"required": ["provider_id", "mode", "depth", "text", "paths"]},
    ),
    (
        *("sync", "--tenant-id", "{tenant}", "--provider-id", "{provider_id}"),
        *("--mode", "{mode}", "--depth", "{depth}"),
        "--text={text}",
        ("--note={note}",),
        ("--since", "{since}"),
        ("--ratio={ratio}",),
        ("--force", "{force?}"),
        ("--tag={tags}",),
        ("--levels", "{levels}"),
        *("--", "{paths}"),
    ),
)
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
HOSTILE = ANY_TEXT | st.sampled_from([*ATTACKS, "--force", "--tag=x", "--depth", "-1"])
# Before Python 3.13, argparse loses a value that is exactly two dashes: `--text=--`.
BEHIND_A_FLAG = HOSTILE.filter(lambda text: text != "--")
PAYLOADS = st.fixed_dictionaries(
    {
        "provider_id": st.uuids().map(str),
        "mode": st.sampled_from(["fast", "full"]),
        "depth": st.integers(0, 2**63 - 1),
        "text": BEHIND_A_FLAG,
        "paths": st.lists(HOSTILE.filter(lambda text: text != "" and not text.startswith("@")), max_size=4),
    },
    optional={
        "note": BEHIND_A_FLAG,
        "since": st.dates().map(str),
        "ratio": st.floats(allow_nan=False, allow_infinity=False),
        "force": st.booleans(),
        "tags": st.lists(BEHIND_A_FLAG, max_size=4),
        "levels": st.lists(st.integers(0, 9), max_size=4),
    },
)


def reference_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--tenant-id", required=True)
    parser.add_argument("--provider-id", required=True)
    parser.add_argument("--mode", required=True)
    parser.add_argument("--depth", type=int, required=True)
    parser.add_argument("--text", required=True)
    parser.add_argument("--note")
    parser.add_argument("--since")
    parser.add_argument("--ratio", type=float)
    parser.add_argument("--force", action="store_true")
    parser.add_argument("--tag", action="append", dest="tags")
    parser.add_argument("--levels", type=int, nargs="+")
    parser.add_argument("paths", nargs="*")
    return parser


PARSER = reference_parser()


def test_the_reference_command_is_usable() -> None:
    require_usable(REFERENCE)


@settings(max_examples=2000, deadline=None)
@given(PAYLOADS, ANY_TEXT.filter(lambda text: not text.startswith(("-", "@"))))
def test_a_parser_reads_the_payload_back_from_the_argv(payload: dict[str, Any], tenant: str) -> None:
    parsed = vars(PARSER.parse_args(argv_of(REFERENCE, tenant=tenant, **payload)))
    assert parsed.pop("tenant_id") == tenant
    assert given_fields(parsed) == given_fields(payload)


def given_fields(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value != [] and value is not None and value is not False}
