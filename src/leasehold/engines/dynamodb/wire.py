"""Items as DynamoDB sends them, and back; and expressions, in which `#name` and `:value` stand for what they say."""

import re
from collections.abc import Mapping
from typing import Any

Item = dict[str, Any]
"""An item with plain values: text, whole numbers, booleans, lists, dicts and sets of text."""

_NAME = re.compile(r"#(\w+)")
_VALUE = re.compile(r":(\w+)")


def to_wire(value: Any) -> dict[str, Any]:
    match value:
        case str():
            return {"S": value}
        case bool():
            return {"BOOL": value}
        case int():
            return {"N": str(value)}
        case None:
            return {"NULL": True}
        case set() | frozenset():
            return {"SS": sorted(value)}
        case list() | tuple():
            return {"L": [to_wire(each) for each in value]}
        case Mapping():
            return {"M": {name: to_wire(each) for name, each in value.items()}}
    raise TypeError(f"{type(value).__name__} can't be stored")


def from_wire(value: Mapping[str, Any]) -> Any:
    ((kind, held),) = value.items()
    match kind:
        case "N":
            return int(held)
        case "SS":
            return set(held)
        case "L":
            return [from_wire(each) for each in held]
        case "M":
            return {name: from_wire(each) for name, each in held.items()}
        case "NULL":
            return None
    return held


def item_to_wire(item: Mapping[str, Any]) -> dict[str, Any]:
    """Leaves out values that are None: an attribute that is not there means the same, and costs nothing."""
    return {name: to_wire(value) for name, value in item.items() if value is not None}


def item_from_wire(item: Mapping[str, Any]) -> Item:
    return {name: from_wire(value) for name, value in item.items()}


MOST_IN_REQUEST = 900_000
"""Bytes of a request's body. The client warns above a megabyte, since sending it would hold up the event loop."""


def body_size(item: Mapping[str, Any]) -> int:
    """Returns how many bytes an item takes in a request at most, where all but ASCII is escaped."""
    texts = [value for value in item.values() if isinstance(value, str)]
    return 1000 + sum(len(text) if text.isascii() else 6 * len(text) for text in texts)


def expressions(values: Mapping[str, Any], **texts: str | None) -> dict[str, Any]:
    """Returns the parameters of a request that has these expressions: only the names and values that they use."""
    given = {name: text for name, text in texts.items() if text}
    parameters: dict[str, Any] = dict(given)
    joined = " ".join(given.values())
    if names := {f"#{name}": name for name in _NAME.findall(joined)}:
        parameters["ExpressionAttributeNames"] = names
    if used := {f":{name}": to_wire(values[name]) for name in _VALUE.findall(joined)}:
        parameters["ExpressionAttributeValues"] = used
    return parameters


def update_expression(
    sets: Mapping[str, Any] = {},
    removes: tuple[str, ...] = (),
) -> tuple[str, dict[str, Any]]:
    """Returns an expression that sets these attributes and removes those, or whose value is None; and its values."""
    values = {name: value for name, value in sets.items() if value is not None}
    gone = [*removes, *(name for name, value in sets.items() if value is None)]
    text = "SET " + ", ".join(f"#{name} = :{name}" for name in values) if values else ""
    if gone:
        text += " REMOVE " + ", ".join(f"#{name}" for name in gone)
    return text.strip(), values
