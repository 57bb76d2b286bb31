"""Schemas and payloads that would keep a validator busy are refused, and those of large models are not."""

from typing import Any

import pytest
from tools import bombs
from tools.bombs import BOMBS, MANY, field, nested, seconds_for

from leasehold import InvalidInput
from leasehold.errors import PayloadInvalid
from leasehold.model.definition import Definition
from leasehold.model.schema_load import MOST_CHECKS, load_of

TREE = {"$ref": "#/$defs/node", "$defs": {"node": {"properties": {}}}}
NODE: dict[str, Any] = TREE["$defs"]["node"]  # type: ignore[index]
NODE["properties"] = {"left": {"$ref": "#/$defs/node"}, "right": {"$ref": "#/$defs/node"}}


def test_no_bomb_costs_more_than_400_large_payloads() -> None:
    """By processor time in one run: `python -m tools.bombs` prints it."""
    numbers = {"a": list(range(MANY))}
    plain = max(seconds_for(field({"items": {"type": "integer"}}), numbers)[0] for _ in range(3))
    cost = {name: seconds_for(*bomb)[0] for name, bomb in BOMBS.items()}
    assert len(cost) >= 20
    assert {name: seconds for name, seconds in cost.items() if seconds > 400 * plain} == {}


@pytest.mark.parametrize(("slow", "code"), [("unique items", 1), ("none", 0)])
def test_the_tool_fails_and_names_a_bomb_that_costs_too_much(
    slow: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def seconds(schema: object, payload: object) -> tuple[float, str]:
        return 0.251 if slow in BOMBS and BOMBS[slow] == (schema, payload) else 0.249, "fits"

    monkeypatch.setattr(bombs, "seconds_for", seconds)
    assert bombs.main() == code
    named = capsys.readouterr().err
    assert named == ("More than 250 ms of processor time: unique items.\n" if code else "")


@pytest.mark.parametrize("name", ["allOf that doubles 2^30", "anchors that double 2^30", "references in a chain"])
def test_a_schema_that_asks_for_too_much_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match=r"The schema can't be used: .*(checks|levels deep)"):
        Definition("bomb", schema=BOMBS[name][0]).check_registrable()


def test_a_part_with_an_id_of_its_own_is_refused() -> None:
    with pytest.raises(InvalidInput, match="has an \\$id"):
        load_of({"properties": {"a": {"$id": "http://x/a", "$ref": "#/$defs/b"}}})


def test_a_model_of_a_thousand_fields_is_accepted() -> None:
    fields = {f"field_{number}": {"type": "string", "maxLength": 9} for number in range(1000)}
    assert load_of({"properties": fields, "required": list(fields)}).checks < MOST_CHECKS


def test_a_tree_is_checked_at_any_depth() -> None:
    assert load_of(TREE).again == 1
    Definition("tree", schema=TREE).check(nested(30))


def test_a_recursion_that_doubles_takes_a_shallow_payload() -> None:
    schema, deep = BOMBS["a recursion through another"]
    definition = Definition("bomb", schema=schema)
    definition.check(nested(5))
    with pytest.raises(PayloadInvalid, match="nested 30 levels deep"):
        definition.check(deep)


def test_of_a_large_payload_the_first_problem_is_named() -> None:
    schema, payload = BOMBS["80,000 items of a wrong type"]
    with pytest.raises(PayloadInvalid, match=r'payload\.a\[0\]: 0 is not of type "string"\. Nothing'):
        Definition("bomb", schema=schema).check(payload)
