"""Forms of JSON Schemas, without a browser: which widget a part has, and that a form gives back what it shows."""

import json
from typing import Any

import pytest
from tests.console.trigger_world import SCHEMA

from leasehold.console.schema_form import FormReader, Node, Raw, as_text, build, pointer_of, reshape
from leasehold.console.schema_parts import MOST_PARTS, Kind, Part, part_of
from leasehold.model.definition import Definition

FULL = {
    "provider_id": "p_9",
    "folder": "/photos",
    "mode": "all",
    "limit": 12,
    "since": "2026-11-18",
    "dry_run": True,
    "tags": ["a", "b"],
    "quality": 0.5,
    "notify": {"email": "ada@example.com", "note": "two\nlines"},
    "target": {"album": "Summer"},
    "options": {"x": "y"},
}


def reread(schema: dict[str, Any], value: Any) -> Any:
    return FormReader(schema, dict(build(schema, value).pairs())).value()


def found(schema: dict[str, Any], value: Any, name: str) -> Node:
    return next(each for each in build(schema, value).walk() if each.name == name)


def count_parts(part: Part) -> int:
    below = [*part.properties.values(), *part.choices, *([part.items] if part.items else [])]
    return 1 + sum(map(count_parts, below))


def of(**parts: Any) -> dict[str, Any]:
    return {"type": "object", "properties": parts}


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        ({"type": "string"}, Kind.TEXT),
        ({"type": "string", "maxLength": 5000}, Kind.LONG),
        ({"type": "string", "writeOnly": True}, Kind.SECRET),
        ({"type": "integer"}, Kind.INTEGER),
        ({"type": ["number", "null"]}, Kind.NUMBER),
        ({"type": "boolean"}, Kind.OPTIONS),
        ({"enum": ["a", 1, None]}, Kind.OPTIONS),
        ({"const": 3}, Kind.FIXED),
        ({"type": "array", "items": {"type": "string"}}, Kind.LIST),
        ({"$ref": "#/$defs/place"}, Kind.GROUP),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, Kind.TEXT),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, Kind.CHOICE),
        ({"type": "object", "additionalProperties": {"type": "string"}}, Kind.JSON),
        ({"type": ["string", "integer"]}, Kind.JSON),
        ({"if": {}, "type": "string"}, Kind.JSON),
        ({"$ref": "https://elsewhere/schema"}, Kind.JSON),
        ({}, Kind.JSON),
        (True, Kind.JSON),
    ],
)
def test_a_part_of_a_schema_has_its_widget(part: Any, kind: Kind) -> None:
    schema = of(x=part) | {"$defs": {"place": of(name={"type": "string"})}}
    assert found(schema, {}, "/x").kind is kind


def test_a_required_yes_or_no_is_a_box() -> None:
    schema = of(x={"type": "boolean"}) | {"required": ["x"]}
    assert found(schema, {"x": True}, "/x").kind is Kind.FLAG
    assert [reread(schema, {"x": each}) for each in (True, False)] == [{"x": True}, {"x": False}]


@pytest.mark.parametrize(
    "value",
    [
        {},
        FULL,
        FULL | {"target": 7},
        FULL | {"target": "neither"},
        {"provider_id": "", "folder": "a\nb", "tags": [], "quality": None},
        {"limit": "12", "quality": 1, "since": "someday", "dry_run": "yes", "mode": "other"},
        {"limit": 1.0, "tags": ["", "a\r\nb"], "notify": {}, "unknown": {"deep": [1, 2]}},
        {"tags": [1, {"a": None}], "notify": {"email": 3, "more": 1}, "options": []},
        {"tags": [str(number) for number in range(100)]},
        {"notify": {"email": " ada@example.com "}, "folder": "{{x}} <b>&amp;</b>"},
    ],
)
def test_a_form_gives_back_every_value(value: Any) -> None:
    assert reread(SCHEMA, value) == value
    assert repr(reread(SCHEMA, value)) == repr({key: value[key] for key in reread(SCHEMA, value)})


def test_a_schema_that_refers_to_itself_ends() -> None:
    schema = of(child={"$ref": "#"}, name={"type": "string"})
    deep = {"child": {"child": {"child": {"child": {"child": {"child": {"child": {"name": "x"}}}}}}}}
    assert reread(schema, deep) == deep


def test_a_schema_with_many_ways_to_itself_is_read() -> None:
    again = of(**{f"f{number}": {"$ref": "#/$defs/again"} for number in range(20)}, name={"type": "string"})
    schema = again | {"$defs": {"again": again}}
    part = part_of(schema, schema)
    assert count_parts(part) <= MOST_PARTS
    assert {each.kind for each in part.properties.values()} == {Kind.GROUP, Kind.TEXT}
    assert reread(schema, {"f3": {"f4": {"name": "x"}}, "name": "y"}) == {"f3": {"f4": {"name": "x"}}, "name": "y"}


def test_a_choice_among_too_many_is_json() -> None:
    assert part_of({"oneOf": [{"type": "string"}] * 1000}, {}).kind is Kind.JSON


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-1e999", "[" * 100_000, "9" * 5000])
def test_a_text_that_is_no_number_of_json_stays_text(text: str) -> None:
    assert FormReader(SCHEMA, {"/quality": text, "/limit": text}).value() == {"quality": text, "limit": text}
    assert found(SCHEMA, {"limit": text}, "/limit").text == text


@pytest.mark.parametrize("text", ["0000009", "²", "٣", "-1", "9", "99999", "1" * 5000])
def test_an_index_that_names_nothing_is_left_out(text: str) -> None:
    sent = {"/mode": text, "/target!choice": text, "/tags!count": "²"}
    assert FormReader(SCHEMA, sent).value() == {}
    assert build(SCHEMA, {}, sent=sent).kind is Kind.GROUP
    schema = of(rows={"type": "array", "items": {"type": "array", "items": {"type": "string"}}})
    for action in (f"add:/rows/{text}", f"remove:/rows/0/{text}"):
        assert reshape(schema, {"rows": [["a"]]}, action) == {"rows": [["a"]]}


def test_an_integer_beyond_64_bits_is_shown() -> None:
    value = {"limit": 2**70, "options": {"x": -(2**70)}}
    assert reread(SCHEMA, value) == value
    assert json.loads(as_text(value)) == value


def test_values_that_are_not_json_are_a_problem_of_the_payload() -> None:
    ((path, text),) = Definition("x", schema=SCHEMA).problems_by_place({"folder": {1, 2}})
    assert (path, "set" in text) == ((), True)


def test_a_number_that_is_none_is_kept_as_it_was_typed() -> None:
    reading = FormReader(SCHEMA, {"/limit": "twelve"})
    assert reading.value() == {"limit": "twelve"}
    assert found(SCHEMA, {"limit": "twelve"}, "/limit").kind is Kind.INTEGER


def test_a_text_that_is_not_json_is_kept_and_explained() -> None:
    reading = FormReader(SCHEMA, {"/options!json": "{oops"})
    assert reading.value() == {"options": Raw("{oops")}
    assert "not JSON" in reading.problems["/options"]
    assert found(SCHEMA, reading.value(), "/options").text == "{oops"


def test_an_object_that_was_not_touched_is_left_out() -> None:
    schema = of(who=of(kind={"const": "x"}, name={"type": "string"}) | {"required": ["kind", "name"]})
    assert FormReader(schema, {"/who/name": ""}).value() == {}
    assert FormReader(schema, {"/who/name": "ada"}).value() == {"who": {"kind": "x", "name": "ada"}}


def test_buttons_of_a_list_add_remove_and_move_items() -> None:
    value: Any = reshape(SCHEMA, {}, "add:/tags")
    assert value == {"tags": [""]}
    assert reshape(SCHEMA, {"tags": ["a", "b", "c"]}, "up:/tags/2") == {"tags": ["a", "c", "b"]}
    assert reshape(SCHEMA, {"tags": ["a", "b"]}, "remove:/tags/0") == {"tags": ["b"]}
    for action in ("remove:/tags/9", "up:/tags/0", "up:/tags/x", "add:/nothing/here", "dance", ""):
        assert reshape(SCHEMA, {"tags": ["a"]}, action) == {"tags": ["a"]}


def test_a_problem_is_bound_to_its_field_or_the_nearest_one() -> None:
    problems = {pointer_of(("tags", 1)): "one", "/options/deep/er": "two", "/folder": "three"}
    nodes = {each.name: each for each in build(SCHEMA, {"tags": ["a"]}, problems).walk()}
    assert [nodes[name].problem for name in ("/tags", "/options", "/folder")] == ["one", "two", "three"]


def test_bounds_and_examples_are_shown() -> None:
    part = part_of(SCHEMA, SCHEMA)
    assert part.properties["limit"].bounds == {"min": 1, "max": 5000, "step": "1"}
    assert part.properties["limit"].placeholder == "default: 500"
    assert part.properties["folder"].placeholder == "for example /photos/2026"
    assert part.properties["since"].input == "date"
