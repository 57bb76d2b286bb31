"""Which values can start with a dash, by the schema of their field."""

from typing import Any

import pytest
from tests.model.commands import UUID, schema_of

from leasehold.errors import PayloadInvalid
from leasehold.model.definition import Definition
from leasehold.model.slot_types import SAFE_FORMATS, starts_safely


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "format": "uuid"},
        {"type": "string", "format": "date"},
        {"type": "string", "format": "date-time"},
        {"type": ["string", "null"], "format": "uuid"},
        {"type": "boolean"},
        {"type": "integer", "minimum": 0},
        {"type": "number", "exclusiveMinimum": 0},
        {"enum": ["a", "b", 3, True]},
        {"const": "x"},
        {"anyOf": [{"type": "string", "format": "uuid"}, {"type": "null"}]},
        {"type": "string", "pattern": "^[a-z]+$"},
        {"type": "string", "pattern": "^[A-Za-z0-9_][a-z-]*$"},
        {"type": "string", "pattern": "^/"},
        {"type": "string", "pattern": r"^\d{4}"},
        {"type": "string", "pattern": "^a{2,}"},
    ],
)
def test_values_of_these_schemas_can_not_start_with_a_dash(schema: dict[str, Any]) -> None:
    assert starts_safely(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {},
        None,
        True,
        {"type": "string"},
        {"type": "string", "format": "email"},
        {"type": "string", "minLength": 1},
        {"format": "uuid"},
        {"type": ["string", "integer"], "format": "uuid"},
        {"type": "integer"},
        {"type": "integer", "minimum": -1},
        {"enum": ["a", "-b"]},
        {"enum": ["@a"]},
        {"enum": [["a"]]},
        {"const": -1},
        {"anyOf": [{"type": "string", "format": "uuid"}, {"type": "string"}]},
        {"type": "object"},
        {"type": "array", "items": {"type": "boolean"}},
        {"type": "string", "pattern": "[a-z]+"},
        {"type": "string", "pattern": "^[a-z]*$"},
        {"type": "string", "pattern": "^a?"},
        {"type": "string", "pattern": "^a{0,3}"},
        {"type": "string", "pattern": "^[^-]"},
        {"type": "string", "pattern": "^[a-z-]"},
        {"type": "string", "pattern": "^[+-9]"},
        {"type": "string", "pattern": "^[0-Z]"},
        {"type": "string", "pattern": "^."},
        {"type": "string", "pattern": "^a|-b"},
        {"type": "string", "pattern": "^(a|-)"},
        {"type": "string", "pattern": r"^\D"},
        {"type": "string", "pattern": r"^\W"},
    ],
)
def test_everything_else_counts_as_free_text(schema: Any) -> None:
    assert not starts_safely(schema)


STARTS = ["-", "@"]
TAILS = ["", "1", "a", "2027-01-31", "10:00:00Z", "2027-01-31T10:00:00Z", UUID, "::1"]


@pytest.mark.parametrize("name", sorted(SAFE_FORMATS))
@pytest.mark.parametrize("start", STARTS)
def test_the_validator_refuses_a_risky_start_of_a_format(name: str, start: str) -> None:
    definition = Definition("sync", schema=schema_of({"x": {"type": "string", "format": name}}))
    for tail in TAILS:
        with pytest.raises(PayloadInvalid):
            definition.check({"x": start + tail})
