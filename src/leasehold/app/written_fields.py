"""The fields that pydantic writes of the models, dataclasses and named tuples in a type, read from its schema.

A huge result is refused before it is dumped, since a dump of 10 million items stops the loop for seconds. Fields that
are excluded, or that write themselves in a way of their own, are left out: their JSON may be small.
"""

from collections.abc import Iterator, Mapping
from typing import Any

_OBJECTS = frozenset({"model", "dataclass", "named-tuple"})
_FIELDS = frozenset({"model-field", "dataclass-field", "named-tuple-field"})
# These hold values of the caller's own.
_SKIPPED = frozenset({"default", "expected", "metadata", "config"})
_EXCLUDED = ("serialization_exclude", "serialization_exclude_if")
_EXTRA = "__pydantic_extra__"


def written_fields(schema: Any) -> dict[type, tuple[str, ...]]:
    """Returns the names of the fields that are written, by class. A class that writes itself is not in it."""
    nodes = list(_nodes(schema))
    by_ref = {ref: node for node in nodes if (ref := _text(node, "ref"))}
    return {
        node["cls"]: (*_names(node, by_ref), *([_EXTRA] if node["type"] == "model" else []))
        for node in nodes
        if _text(node, "type") in _OBJECTS and not _is_written_by_a_function(node)
    }


def _names(of: Mapping[str, Any], by_ref: Mapping[str, Any]) -> Iterator[str]:
    if of.get("root_model"):
        fields: list[tuple[str, Any]] = [("root", {"schema": of["schema"]})]
    else:
        fields = list(_fields(of.get("fields") if of["type"] == "named-tuple" else of.get("schema")))
    for name, field in fields:
        if not any(field.get(key) for key in _EXCLUDED) and not _writes_itself(field.get("schema"), by_ref, set()):
            yield name


def _fields(schema: Any) -> Iterator[tuple[str, Any]]:
    """Yields the fields of one object, and not those of the objects within it."""
    if isinstance(schema, dict):
        if _text(schema, "type") in _OBJECTS:
            return
        for key, value in schema.items():
            if _is_field(value):
                yield value.get("name", key), value
            elif key not in _SKIPPED:
                yield from _fields(value)
    elif isinstance(schema, list | tuple):
        for value in schema:
            if _is_field(value):
                yield value["name"], value
            else:
                yield from _fields(value)


def _writes_itself(schema: Any, by_ref: Mapping[str, Any], seen: set[str]) -> bool:
    """Tells whether a function of the caller's own writes this part; objects within it are judged by themselves."""
    if isinstance(schema, list | tuple):
        return any(_writes_itself(value, by_ref, seen) for value in schema)
    if not isinstance(schema, dict):
        return False
    if _is_written_by_a_function(schema):
        return True
    if ref := _text(schema, "schema_ref"):
        if ref in seen:
            return False
        seen.add(ref)
        return _writes_itself(by_ref.get(ref), by_ref, seen)
    return _text(schema, "type") not in _OBJECTS and any(
        _writes_itself(value, by_ref, seen) for key, value in schema.items() if key not in _SKIPPED
    )


def _is_written_by_a_function(schema: Mapping[str, Any]) -> bool:
    """Tells whether it is a caller's function; pydantic's own, as that of a deque, write all items."""
    written = schema.get("serialization")
    function = written.get("function") if isinstance(written, dict) else None
    return function is not None and not (getattr(function, "__module__", None) or "").startswith("pydantic.")


def _is_field(schema: Any) -> bool:
    return isinstance(schema, dict) and _text(schema, "type") in _FIELDS


def _text(schema: Mapping[str, Any], key: str) -> str | None:
    """Returns None where the mapping holds fields by their names, and one field has this very name."""
    value = schema.get(key)
    return value if isinstance(value, str) else None


def _nodes(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
        for key, value in schema.items():
            if key not in _SKIPPED:
                yield from _nodes(value)
    elif isinstance(schema, list | tuple):
        for value in schema:
            yield from _nodes(value)
