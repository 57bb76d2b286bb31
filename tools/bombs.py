"""Small schemas and payloads that ask a validator for too much: `python -m tools.bombs` prints the cost of each.

Each is refused, or checked, in at most 250 ms of processor time. The command names those that take longer, and exits
with 1.
"""

import json
import sys
from collections.abc import Mapping
from time import process_time
from typing import Any

from leasehold.errors import LeaseholdError
from leasehold.model.definition import Definition

Bomb = tuple[Mapping[str, Any], dict[str, Any]]
MANY = 80_000
MOST_SECONDS = 0.25


def doubling(times: int, word: str, reference: str = "#/$defs/") -> dict[str, Any]:
    """Returns a schema each of whose parts refers twice to the one before."""
    parts: dict[str, Any] = {"d0": {"$anchor": "d0", "required": ["a"]}}
    for number in range(1, times + 1):
        before = {"$ref": f"{reference}d{number - 1}"}
        parts[f"d{number}"] = {"$anchor": f"d{number}", word: [before, before]}
    return {"$ref": f"{reference}d{times}", "$defs": parts}


def field(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"properties": {"a": schema}}


def nested(levels: int) -> dict[str, Any]:
    return dict(json.loads('{"a":' * levels + "{}" + "}" * levels))


AGAIN = field({"$ref": "#/$defs/n"})
TWICE = {"allOf": [AGAIN, AGAIN]}
THROUGH = {"n": {"allOf": [field({"$ref": "#/$defs/m"}), field({"$ref": "#/$defs/m"})]}, "m": {"$ref": "#/$defs/n"}}
ZEROS = {"a": [0] * MANY}
BOMBS: dict[str, Bomb] = {
    "allOf that doubles 2^30": (doubling(30, "allOf"), {"a": 1}),
    "anyOf that doubles 2^30": (doubling(30, "anyOf"), {}),
    "oneOf that doubles 2^16": (doubling(16, "oneOf"), {"a": 1}),
    "anchors that double 2^30": (doubling(30, "allOf", "#"), {"a": 1}),
    "addresses that double 2^30": (
        {"$id": "http://x/", **doubling(30, "allOf", "http://x/#/$defs/")},
        {"a": 1},
    ),
    "references in a chain": (
        {
            "$ref": "#/$defs/d5000",
            "$defs": {f"d{number}": {"$ref": f"#/$defs/d{number - 1}"} for number in range(1, 5001)},
        },
        {},
    ),
    "a reference to itself": ({"$ref": "#"}, {}),
    "a recursion that doubles": ({"$ref": "#/$defs/n", "$defs": {"n": TWICE}}, nested(30)),
    "a recursion through another": ({"$ref": "#/$defs/n", "$defs": THROUGH}, nested(30)),
    "a recursion by any name": (
        {"$ref": "#/$defs/n", "$defs": {"n": {**AGAIN, "patternProperties": {"^a": {"$ref": "#/$defs/n"}}}}},
        nested(30),
    ),
    "a pattern that backtracks": (field({"pattern": "^(a+)+$"}), {"a": "a" * 200_000 + "!"}),
    "a pattern of names": ({"patternProperties": {"^(a|a)*$": {}}}, {"a" * 200_000 + "!": 1}),
    "a pattern of a gigabyte": (field({"pattern": "((a{0,100}){0,100}){0,100}"}), {"a": "a"}),
    "a pattern of letters": (field({"pattern": r"(\p{L}{1,100}){1,20}"}), {"a": "é" * 100_000}),
    "a format of 200 KB": (field({"format": "email"}), {"a": "a" * 200_000 + "@"}),
    "80,000 items of a wrong type": (field({"items": {"type": "string"}}), ZEROS),
    "an enum of 4,000 for 80,000": (field({"items": {"enum": list(range(1, 4000))}}), ZEROS),
    "2,000 required for 60,000": (
        field({"items": {"required": [f"k{number}" for number in range(2000)]}}),
        {"a": [{}] * 60_000},
    ),
    "1,000 conditions for 80,000": (field({"items": {"allOf": [{"minimum": 0}] * 1000}}), ZEROS),
    "300 patterns for 15,000 names": (
        {"patternProperties": {f"^a{number}": {"type": "string"} for number in range(300)}},
        {f"k{number}": 1 for number in range(15_000)},
    ),
    "3,000 patterns for 15,000 names": (
        {"patternProperties": {f"^a{number}": {} for number in range(3000)}},
        {f"k{number}": 1 for number in range(15_000)},
    ),
    "2,500 times items for 80,000": (field({"anyOf": [{"items": {"type": "string"}}] * 2500}), ZEROS),
    "10,000 references by name": ({"allOf": [{"$ref": f"#n{number}"} for number in range(10_000)]}, {}),
    "10,000 unknown names": (
        {"allOf": [field({})] * 300, "unevaluatedProperties": False},
        {f"z{number}": 1 for number in range(10_000)},
    ),
    "unique items": (field({"uniqueItems": True}), {"a": [{"k": number} for number in range(15_000)]}),
    "another document": ({"$ref": "http://127.0.0.1:9/schema.json"}, {}),
    "a file": ({"$ref": "file:///etc/hostname"}, {}),
}


def seconds_for(schema: Mapping[str, Any], payload: dict[str, Any]) -> tuple[float, str]:
    """Returns the processor time of registering the schema and checking the payload, and the answer."""
    began, said = process_time(), "fits"
    try:
        definition = Definition("bomb", schema=schema)
        definition.check_registrable()
        definition.check(payload)
    except LeaseholdError as error:
        said = str(error)
    return process_time() - began, said


def main() -> int:
    """Prints the cost of each bomb. Returns 1 if one costs too much."""
    too_slow = []
    for name, (schema, payload) in BOMBS.items():
        seconds, said = seconds_for(schema, payload)
        sys.stdout.write(f"{seconds * 1000:7.1f} ms  {name:30}  {said[:100]}\n")
        too_slow += [name] if seconds > MOST_SECONDS else []
    if too_slow:
        sys.stderr.write(f"More than {MOST_SECONDS * 1000:g} ms of processor time: {', '.join(too_slow)}.\n")
    return 1 if too_slow else 0


if __name__ == "__main__":
    sys.exit(main())
