"""Definitions refuse invalid values, and payloads that don't fit their schema, field by field."""

import re
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from leasehold.errors import InvalidInput, PayloadInvalid
from leasehold.model.backoff import Steps
from leasehold.model.definition import (
    SHOWN_PROBLEMS,
    Definition,
    OnExhausted,
    Retention,
    differences,
)
from leasehold.model.status import FINAL, Status

SCHEMA = {
    "type": "object",
    "properties": {
        "email": {"type": "string"},
        "count": {"type": "integer", "minimum": 1},
        "account": {"type": "string", "format": "uuid"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "address": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
    "required": ["email"],
    "additionalProperties": False,
}
SEND_MAIL = Definition("send_mail", schema=SCHEMA)


def refusal_of(payload: Any, definition: Definition = SEND_MAIL) -> str:
    with pytest.raises(PayloadInvalid) as refusal:
        definition.check(payload)
    return str(refusal.value)


def refusal_of_schema(schema: dict[Any, Any]) -> str:
    with pytest.raises(InvalidInput) as refusal:
        Definition("broken", schema=schema).check({})
    assert not isinstance(refusal.value, PayloadInvalid)
    return str(refusal.value)


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"key": ""}, "key is empty"),
        ({"key": "k" * 101}, "key has 101 characters, at most 100 are kept"),
        ({"key": "send\0mail"}, "key has a NUL character"),
        ({"key": "send\ud800mail"}, "a lone surrogate"),
        ({"timeout": timedelta()}, "is not longer than zero"),
        ({"timeout": timedelta(seconds=-1)}, "is not longer than zero"),
        ({"max_attempts": 0}, "max_attempts=0 is not at least 1"),
        ({"priority": 32768}, "priority=32768 is not between -32768 and 32767"),
        ({"priority": -32769}, "priority=-32769 is not between -32768 and 32767"),
        ({"on_exhausted": "explode"}, "on_exhausted='explode' is neither"),
    ],
    ids=str,
)
def test_a_definition_that_cannot_be_used_is_refused_with_the_problem(values: dict[str, Any], problem: str) -> None:
    values = {"key": "send_mail"} | values
    with pytest.raises(InvalidInput) as refusal:
        Definition(**values)

    assert repr(values["key"]) in str(refusal.value)
    assert problem in str(refusal.value)
    assert "Nothing was registered" in str(refusal.value)


def test_all_problems_of_a_definition_are_named_at_once() -> None:
    with pytest.raises(InvalidInput, match=r"timeout=0:00:00 is.*; max_attempts=0 is.*; priority=99999 is"):
        Definition("send_mail", timeout=timedelta(), max_attempts=0, priority=99_999)


@pytest.mark.parametrize(
    "values",
    [
        {"key": "k" * 100},
        {"key": "büro.senden"},
        {"timeout": timedelta(microseconds=1)},
        {"max_attempts": 1},
        {"priority": 32767},
        {"priority": -32768},
    ],
    ids=str,
)
def test_a_definition_at_its_bounds_keeps_its_values(values: dict[str, Any]) -> None:
    definition = Definition(**({"key": "send_mail"} | values))
    assert {name: getattr(definition, name) for name in values} == values


@pytest.mark.parametrize("word", ["failed", "dead_letter"])
def test_on_exhausted_may_be_given_as_text(word: Any) -> None:
    assert Definition("send_mail", on_exhausted=word).on_exhausted is OnExhausted(word)


def test_definitions_with_equal_content_are_the_same_version() -> None:
    assert Definition("send_mail", schema=dict(SCHEMA)) == SEND_MAIL
    assert len({Definition("send_mail", schema=dict(SCHEMA)), SEND_MAIL}) == 1


@pytest.mark.parametrize("payload", [{}, {"anything": [1, None]}])
def test_without_a_schema_every_payload_fits(payload: dict[str, Any]) -> None:
    Definition("send_mail").check(payload)


def test_a_payload_that_fits_is_accepted() -> None:
    SEND_MAIL.check(
        {
            "email": "a@b.example",
            "count": 1,
            "account": "0197c000-0000-7000-8000-00000000abcd",
            "tags": ["x"],
            "address": {"city": "Wien"},
        }
    )


@pytest.mark.parametrize(
    ("payload", "problem"),
    [
        ({}, 'payload: "email" is a required property'),
        ({"email": 7}, 'payload.email: 7 is not of type "string"'),
        ({"email": None}, 'payload.email: null is not of type "string"'),
        ({"email": "a", "count": 0}, "payload.count: 0 is less than the minimum of 1"),
        ({"email": "a", "account": "acme"}, 'payload.account: "acme" is not a "uuid"'),
        ({"email": "a", "tags": ["x", 7]}, 'payload.tags[1]: 7 is not of type "string"'),
        ({"email": "a", "address": {}}, 'payload.address: "city" is a required property'),
        ({"email": "a", "address": {"city": 1}}, 'payload.address.city: 1 is not of type "string"'),
        ({"email": "a", "zzz": 1}, "payload.zzz: unknown field."),
        ({"email": "a", "cuont": 1}, 'payload.cuont: unknown field (did you mean "count"?)'),
        ([1], 'payload: [1] is not of type "object"'),
    ],
    ids=str,
)
def test_a_payload_that_does_not_fit_is_refused_by_its_field(payload: Any, problem: str) -> None:
    message = refusal_of(payload)
    assert message.startswith(f"LH-1001: send_mail: {problem}")
    assert "Nothing was enqueued" in message


def test_every_field_that_is_wrong_is_named() -> None:
    message = refusal_of({"emial": "a", "count": "x", "tags": [1, 2], "address": {"city": 3}, "zzz": 0})
    for problem in (
        '"email" is a required property',
        'payload.emial: unknown field (did you mean "email"?)',
        "payload.zzz: unknown field",
        'payload.count: "x"',
        "payload.tags[0]: 1",
        "payload.tags[1]: 2",
        "payload.address.city: 3",
    ):
        assert problem in message


def test_of_very_many_problems_the_first_are_named() -> None:
    message = refusal_of({"email": "a", "tags": list(range(5_000))})
    assert f"payload.tags[{SHOWN_PROBLEMS - 1}]: " in message
    assert f"payload.tags[{SHOWN_PROBLEMS}]: " not in message
    assert "; and more." in message


def test_of_very_many_unknown_fields_the_first_are_named() -> None:
    message = refusal_of({"email": "a"} | {f"emai{number}": 1 for number in range(5_000)})
    assert message.count("unknown field") == SHOWN_PROBLEMS
    assert "; and more." in message


def test_just_as_many_problems_as_are_shown_are_all() -> None:
    assert "and more" not in refusal_of({"email": "a", "tags": list(range(SHOWN_PROBLEMS))})


@pytest.mark.parametrize("value", [["x" * 200_000], {"b": "x" * 500, "a": "ä"}], ids=["list", "object"])
def test_a_problem_tells_the_size_of_a_long_value_and_quotes_no_part(value: Any) -> None:
    message = refusal_of({"email": value})
    assert re.search(r'payload\.email: a value of [\d,]+ characters is not of type "string"', message)
    assert "xx" not in message


@pytest.mark.parametrize(
    "value", [datetime(2030, 1, 1, tzinfo=UTC), object(), {1: 2}], ids=["datetime", "object", "number as a key"]
)
def test_a_payload_that_is_not_json_does_not_fit_either(value: Any) -> None:
    assert refusal_of({"email": value}).startswith("LH-1001: send_mail: payload")


def test_a_payload_nested_without_end_does_not_fit_either() -> None:
    payload: dict[str, Any] = {"email": "a"}
    payload["address"] = payload
    assert "send_mail: payload" in refusal_of(payload)


@pytest.mark.parametrize(
    ("format_", "wrong", "right"),
    [
        ("uuid", "0197c000", "0197c000-0000-7000-8000-00000000abcd"),
        ("date-time", "yesterday", "2030-01-01T00:00:00Z"),
        ("date", "2030-02-30", "2030-02-28"),
        ("email", "nobody", "a@b.example"),
        ("ipv4", "300.1.1.1", "127.0.0.1"),
        ("uri", "not a uri", "https://a.example/"),
    ],
)
def test_formats_are_checked(format_: str, wrong: str, right: str) -> None:
    definition = Definition("send_mail", schema={"properties": {"value": {"type": "string", "format": format_}}})
    definition.check({"value": right})
    assert f'is not a "{format_}"' in refusal_of({"value": wrong}, definition)


@pytest.fixture
def canary() -> Iterator[tuple[str, list[str]]]:
    """A web server that would serve a schema, and the paths that were requested."""
    hits: list[str] = []

    class Canary(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            hits.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    with HTTPServer(("127.0.0.1", 0), Canary) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/schema.json", hits
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef"])
def test_a_remote_reference_is_refused_and_nothing_is_fetched(canary: tuple[str, list[str]], keyword: str) -> None:
    address, hits = canary
    message = refusal_of_schema({"properties": {"a": {keyword: address}}})

    assert address in message
    assert "Nothing was changed" in message
    assert hits == []


@pytest.mark.parametrize("keyword", ["$schema", "$id"])
def test_the_name_of_a_schema_is_not_fetched(canary: tuple[str, list[str]], keyword: str) -> None:
    address, hits = canary
    Definition("send_mail", schema={keyword: address, "type": "object"}).check({})
    assert hits == []


def test_a_reference_to_a_file_is_refused() -> None:
    assert "remote reference file:///etc/hostname refused" in refusal_of_schema({"$ref": "file:///etc/hostname"})


def test_a_reference_within_the_schema_is_followed() -> None:
    schema = {"properties": {"to": {"$ref": "#/$defs/address"}}, "$defs": {"address": {"required": ["city"]}}}
    assert 'payload.to: "city" is a required property' in refusal_of({"to": {}}, Definition("x", schema=schema))


@pytest.mark.parametrize("place", ["pattern", "patternProperties"])
def test_a_catastrophic_pattern_does_not_hang(place: str) -> None:
    text = "a" * 50_000 + "b"
    if place == "pattern":
        schema: dict[str, Any] = {"properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}
        assert "payload.a: " in refusal_of({"a": text}, Definition("x", schema=schema))
    else:
        schema = {"patternProperties": {"^(a+)+$": False}}
        Definition("x", schema=schema).check({text: 1})


@pytest.mark.parametrize(
    "schema",
    [
        {"type": 5},
        {"type": "objekt"},
        {"properties": []},
        {"required": "email"},
        {"properties": {"a": {"pattern": "("}}},
        {"properties": {"a": {"pattern": "^(?=look)ahead"}}},
        {"properties": {"a": {"pattern": "((a{1000}){1000}){1000}"}}},
        {"$ref": "#/$defs/nowhere"},
        {"enum": {1, 2}},
        {1: "number as a key"},
    ],
    ids=str,
)
def test_the_error_of_a_broken_schema_names_the_schema(schema: dict[Any, Any]) -> None:
    message = refusal_of_schema(schema)
    assert message.startswith("LH-1000: The schema can't be used: ")
    assert message.endswith("Nothing was changed. Correct the schema.")
    assert "\n" not in message


@pytest.mark.parametrize(
    ("status", "kept"),
    [
        (Status.SUCCEEDED, timedelta(days=30)),
        (Status.CANCELED, timedelta(days=30)),
        (Status.FAILED, None),
        (Status.DEAD_LETTER, None),
    ],
)
def test_successes_and_cancels_are_kept_30_days_and_failures_forever(status: Status, kept: timedelta | None) -> None:
    assert Definition("send_mail").retention.keep(status) == kept


@pytest.mark.parametrize("status", sorted(FINAL))
def test_retention_can_be_set_for_each_final_status(status: Status) -> None:
    retention = Retention(**{status.value: timedelta(days=7)})
    assert {other for other in FINAL if retention.keep(other) == timedelta(days=7)} == {status}


def test_equal_definitions_have_no_differences() -> None:
    assert differences(SEND_MAIL, Definition("send_mail", schema=dict(SCHEMA))) == {}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("description", "Sends one mail"),
        ("schema", None),
        ("timeout", timedelta(seconds=5)),
        ("max_attempts", 9),
        ("backoff", Steps(1)),
        ("priority", 1),
        ("retention", Retention(succeeded=None)),
        ("on_exhausted", OnExhausted.FAILED),
        ("durable_claims", True),
    ],
)
def test_a_difference_is_named_with_before_and_after(field: str, value: Any) -> None:
    after = Definition(**({"key": "send_mail", "schema": SCHEMA} | {field: value}))
    assert differences(SEND_MAIL, after) == {field: (getattr(SEND_MAIL, field), value)}


def test_a_retention_in_the_past_is_refused() -> None:
    with pytest.raises(InvalidInput, match="failed=-1 day, 23:59:59 is not between zero and 36500 days"):
        Retention(failed=timedelta(seconds=-1))


def test_a_broken_schema_is_found_before_any_payload_is_checked() -> None:
    with pytest.raises(InvalidInput, match="Nothing was changed"):
        Definition("report", schema={"type": "no such type"}).check_registrable()
