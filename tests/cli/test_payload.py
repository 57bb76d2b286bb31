"""Payloads from the words of a command line."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from leasehold.cli.payload import read_document, read_moment, read_words, takes_text
from leasehold.errors import InvalidInput, PayloadInvalid


class Color(BaseModel):
    name: str


class Order(BaseModel):
    sku: str
    count: int
    price: float | None = None
    note: str | None = None
    color: Color | None = None
    tags: list[str] = []


SCHEMA = Order.model_json_schema()


def test_what_takes_text_is_text_and_all_else_is_json() -> None:
    words = ["sku=007", "count=3", "price=1.5", "note=null", 'tags=["a","b"]', 'color={"name":"red"}']
    assert read_words(words, SCHEMA) == {
        "sku": "007",
        "count": 3,
        "price": 1.5,
        "note": "null",
        "tags": ["a", "b"],
        "color": {"name": "red"},
    }


def test_with_a_colon_it_is_always_json() -> None:
    assert read_words(["note:=null", 'sku:="007"'], SCHEMA) == {"note": None, "sku": "007"}


def test_without_a_schema_it_is_text() -> None:
    assert read_words(["count=3", "count2:=3"], None) == {"count": "3", "count2": 3}


def test_text_may_hold_anything_even_another_sign() -> None:
    assert read_words(["sku=a=b:=c", "note="], SCHEMA) == {"sku": "a=b:=c", "note": ""}


@pytest.mark.parametrize("word", ["sku", "=x", ":=3", ""])
def test_a_word_that_is_no_field_is_refused(word: str) -> None:
    with pytest.raises(InvalidInput, match=r"is not a field of a payload\. Nothing was enqueued\. Write name=text"):
        read_words([word], SCHEMA)


def test_a_field_that_is_given_twice_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"count is given twice\. Nothing was enqueued"):
        read_words(["count=1", "count:=2"], SCHEMA)


def test_a_value_that_is_neither_text_nor_json_is_refused() -> None:
    with pytest.raises(PayloadInvalid, match="'many' is not JSON, and count takes no other text") as refused:
        read_words(["count=many"], SCHEMA)
    assert refused.value.fix.endswith("""text in quotes: count:='"many"'.""")


@pytest.mark.parametrize(
    ("field", "text"),
    [
        (True, True),
        ({}, True),
        ({"type": "string"}, True),
        ({"type": ["string", "null"]}, True),
        ({"type": ["integer", "null"]}, False),
        ({"enum": ["a", "b"]}, True),
        ({"enum": [1, 2]}, False),
        ({"const": 1}, False),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, True),
        ({"oneOf": [{"type": "integer"}, {"type": "null"}]}, False),
        ({"allOf": [{"type": "integer"}]}, False),
        ({"$ref": "#/$defs/number"}, False),
        ({"$ref": "#/$defs/text"}, True),
        ({"$ref": "#/$defs/itself"}, True),
        ({"$ref": "#/$defs/absent"}, True),
    ],
)
def test_a_schema_tells_whether_text_may_stand_for_a_field(field: Any, text: bool) -> None:
    schema = {
        "properties": {"name": field},
        "$defs": {
            "number": {"type": "number"},
            "text": {"$ref": "#/$defs/words"},
            "words": {"type": "string"},
            "itself": {"$ref": "#/$defs/itself"},
        },
    }
    assert takes_text(schema, "name") is text


def test_an_unnamed_field_is_judged_by_additional_properties() -> None:
    assert takes_text({"additionalProperties": {"type": "integer"}}, "other") is False
    assert takes_text({"additionalProperties": False}, "other") is True


def test_a_document_is_json_or_a_file_of_it(tmp_path: Path) -> None:
    file = tmp_path / "payload.json"
    file.write_text('{"sku": "ä"}')
    assert read_document('{"sku": "ä"}') == read_document(f"@{file}") == {"sku": "ä"}


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("{sku: 1}", r"--payload: the text is not JSON: .*Nothing was enqueued"),
        ("", "--payload: the text is not JSON"),
        ("[1]", r"the text is a list, a payload is a JSON object\. Nothing was enqueued"),
        ('"sku"', "the text is text"),
        ("null", "the text is null"),
        ("true", "the text is true or false"),
        ("3", "the text is a number"),
        ("@no/such/file.json", r"no/such/file\.json can't be read: No such file or directory\. Nothing was enqueued"),
    ],
)
def test_a_document_that_can_not_be_used_is_refused(given: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        read_document(given)


def test_a_moment_has_a_zone() -> None:
    assert read_moment("2030-01-31T09:00Z") == datetime(2030, 1, 31, 9, tzinfo=UTC)
    assert read_moment("2030-01-31 11:00+02:00") == datetime(2030, 1, 31, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("tomorrow", r"--at: 'tomorrow' is not a time\. Nothing was done\. Write it as 2030-01-31T09:00Z"),
        (
            "2030-01-31T09:00",
            r"has no zone, and so names no moment\. Nothing was done\. Add one: 2030-01-31T09:00Z",
        ),
    ],
)
def test_what_names_no_moment_is_refused(text: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        read_moment(text)
