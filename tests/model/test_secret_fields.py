"""Secret fields: found by their marks at any depth, hidden from people, and never stored unencrypted."""

from typing import Any

import pytest

from leasehold.errors import InvalidInput, NotJson, PayloadInvalid
from leasehold.model.definition import Definition
from leasehold.model.payload import encode
from leasehold.model.secret_fields import hide_sealed, problem_of_marks, secret_fields, secret_values, unwrap, wrap

SECRET = {"type": "string", "x-secret": True}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "user": {"type": "string"},
        "password": {"type": "string", "minLength": 8, "x-secret": True},
        "maybe": {"anyOf": [SECRET, {"type": "null"}]},
        "database": {"$ref": "#/$defs/Database"},
        "tokens": {"type": "array", "items": SECRET},
        "by_name": {"type": "object", "additionalProperties": SECRET},
        "pair": {"type": "array", "prefixItems": [{"type": "string"}, SECRET]},
        "tree": {"$ref": "#/$defs/Tree"},
        "not_marked": {"type": "string", "x-secret": False},
    },
    "$defs": {
        "Database": {"type": "object", "properties": {"host": {"type": "string"}, "password": SECRET}},
        "Tree": {"type": "object", "properties": {"child": {"$ref": "#/$defs/Tree"}}},
    },
    "additionalProperties": False,
}
FIELDS = {"password", "maybe", "database", "tokens", "by_name", "pair"}


def test_a_field_is_secret_if_any_part_of_it_is_marked() -> None:
    assert secret_fields(SCHEMA) == FIELDS
    assert Definition("sync", schema=SCHEMA).secret_fields == FIELDS
    assert secret_fields(None) == Definition("free").secret_fields == frozenset()


def test_the_fields_of_a_model_that_refers_to_itself_are_found() -> None:
    node = {"type": "object", "properties": {"key": SECRET, "next": {"$ref": "#/$defs/Node"}}}
    assert secret_fields({"$ref": "#/$defs/Node", "$defs": {"Node": node}}) == {"key", "next"}


def test_only_marked_texts_are_secret_values() -> None:
    payload: dict[str, Any] = {
        "user": "ada",
        "password": "p1",
        "maybe": None,
        "database": {"host": "localhost", "password": "p2"},
        "tokens": ["p3", "p4"],
        "by_name": {"one": "p5"},
        "pair": ["public", "p6"],
        "tree": {"child": {}},
    }
    assert secret_values(SCHEMA, payload) == ("p1", "p2", "p3", "p4", "p5", "p6")


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "x-secret": True},
        {"type": "object", "additionalProperties": SECRET},
        {"anyOf": [{"properties": {"a": SECRET}}]},
    ],
)
def test_a_mark_that_is_not_of_a_field_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="x-secret marks something else than a field"):
        Definition("sync", schema=schema).check_registrable()


def test_a_message_about_a_payload_does_not_quote_its_secrets() -> None:
    definition = Definition("sync", schema=SCHEMA)
    with pytest.raises(PayloadInvalid, match=r"payload.password: .*is shorter than 8") as refused:
        definition.check({"password": 'hun"t', "user": 7})
    assert "hun" not in str(refused.value)
    assert "7 is not of type" in str(refused.value)
    with pytest.raises(PayloadInvalid, match=r"payload.database.password: .* is not of type") as refused:
        definition.check({"database": {"password": 123456}})
    assert "123456" not in str(refused.value)


def test_a_value_that_is_not_encrypted_yet_is_hidden_and_not_stored() -> None:
    payload = wrap({"user": "ada", "password": "hunter22"}, frozenset({"password"}))
    assert repr(payload) == "{'user': 'ada', 'password': '[secret]'}"
    assert unwrap(payload) == {"user": "ada", "password": "hunter22"}
    with pytest.raises(NotJson) as refused:
        encode(payload)
    assert "hunter22" not in str(refused.value)


def test_a_stored_payload_is_shown_without_encrypted_values() -> None:
    assert hide_sealed({"a": 1, "b": {"$secret": "v1.x.y"}}) == {"a": 1, "b": "[secret]"}
    plain = {"a": {"$secret": 1}, "b": {"$secret": "x", "c": 1}}
    assert hide_sealed(plain) is plain
    assert hide_sealed("damaged") == "damaged"


@pytest.mark.parametrize("ref", ["#s", "#/$defs/My%20S", "#/$defs/none"])
def test_a_mark_behind_an_unknown_reference_is_refused(ref: str) -> None:
    marked = {"$anchor": "s", "type": "string", "x-secret": True}
    schema = {"type": "object", "properties": {"x": {"$ref": ref}}, "$defs": {"My S": marked}}
    assert "can't be followed through the reference" in (problem_of_marks(schema) or "")


def test_a_field_whose_mark_has_a_condition_is_secret_as_a_whole() -> None:
    part = {"if": {"type": "string"}, "then": {"x-secret": True}}
    schema = {"type": "object", "properties": {"p": part}}
    assert secret_values(schema, {"p": "hunter2hunter2"}) == ("hunter2hunter2",)
