"""Decides by a field's JSON Schema how its values can be written into an argv.

The rules are few and simple on purpose: a schema that they don't understand counts as free text.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from leasehold.model.argv import RISKY_STARTS
from leasehold.model.scalar_text import text_of

Schema = Mapping[str, Any]

SAFE_FORMATS = frozenset({"uuid", "date", "date-time", "time", "ipv4", "ipv6"})
"""Formats whose texts start with a letter, a digit or a colon."""

# `^`, then a character that is neither `-` nor `@`, or a class of such characters, at least once.
_SAFE_PATTERN = re.compile(
    r"""\^
    (?: [A-Za-z0-9_/:]
      | \\[dw./]
      | \[ (?: [0-9]-[0-9] | [A-Za-z]-[A-Za-z] | [A-Za-z0-9_/:.] | \\[dw] )+ \]
    )
    (?! [*?] | \{(?![1-9]) )
    """,
    re.VERBOSE,
)

_NAMES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
_SCALARS = frozenset({"string", "boolean", "integer", "number"})


def types_of(schema: Any) -> frozenset[str]:
    """Returns the JSON types that the schema names; empty if it names none."""
    if not isinstance(schema, Mapping):
        return frozenset()
    if isinstance(named := schema.get("type"), str):
        return frozenset({named})
    if isinstance(named, list):
        return frozenset(named)
    if (choices := _choices(schema)) is not None:
        return frozenset(_NAMES.get(type(choice), "object") for choice in choices)
    branches = [types_of(branch) for branch in _branches(schema)]
    return frozenset().union(*branches) if all(branches) else frozenset()


def is_nullable(schema: Any) -> bool:
    return "null" in types_of(schema)


def is_list(schema: Any) -> bool:
    return types_of(schema) - {"null"} == {"array"}


def items_of(schema: Any) -> Any:
    """Returns the schema of a list's items, of any other field the schema itself; None if items differ by place."""
    if not is_list(schema):
        return schema
    return None if "prefixItems" in schema else schema.get("items")


def is_scalar(schema: Any) -> bool:
    """Returns whether all values of this schema are text, numbers or booleans; null counts as a missing value."""
    types = types_of(schema) - {"null"}
    return bool(types) and types <= _SCALARS


def starts_safely(schema: Any) -> bool:
    """Returns whether no value of this schema can start with `-` or `@`."""
    if not isinstance(schema, Mapping):
        return False
    if (choices := _choices(schema)) is not None:
        texts = [text_of(choice) for choice in choices if choice is not None]
        return all(text is not None and not text.startswith(RISKY_STARTS) for text in texts)
    if branches := [branch for branch in _branches(schema) if types_of(branch) != {"null"}]:
        return all(map(starts_safely, branches))
    types = types_of(schema) - {"null"}
    return bool(types) and all(_type_starts_safely(name, schema) for name in types)


def _type_starts_safely(name: str, schema: Schema) -> bool:
    match name:
        case "boolean":
            return True
        case "integer" | "number":
            bounds = [schema.get("minimum", -1), schema.get("exclusiveMinimum", -1)]
            return bool(max(bounds) >= 0)
        case "string":
            return schema.get("format") in SAFE_FORMATS or _pattern_starts_safely(schema.get("pattern", ""))
        case _:
            return False


def _pattern_starts_safely(pattern: str) -> bool:
    return "|" not in pattern and _SAFE_PATTERN.match(pattern) is not None


def _choices(schema: Schema) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    chosen = schema.get("enum")
    return chosen if isinstance(chosen, list) else None


def _branches(schema: Schema) -> Iterator[Any]:
    for keyword in ("anyOf", "oneOf"):
        found = schema.get(keyword)
        yield from found if isinstance(found, list) else ()
