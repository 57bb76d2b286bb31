"""Secret fields of payloads: which fields a schema marks, and how they are stored and shown.

A field is secret if its schema, or any part of it, has `"x-secret": true`, as the schema of a `SecretStr` has. Such a
field is stored encrypted as a whole: {"password": {"$secret": "v1.…"}}.
"""

from collections.abc import Iterator, Mapping
from typing import Any

MARK = "x-secret"
SEALED = "$secret"
SHOWN = "[secret]"
_DEEPEST = 50
_ALTERNATIVES = ("anyOf", "oneOf", "allOf", "prefixItems")
_PARTS = ("items", "additionalProperties", "contains", "not", "if", "then", "else", "propertyNames")
_NAMED_PARTS = ("properties", "patternProperties", "dependentSchemas")


class Unsealed:
    """A secret value of a payload that is not encrypted yet. It can't be stored, and does not show its value."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"'{SHOWN}'"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unsealed) and self.value == other.value

    __hash__ = None  # type: ignore[assignment]


def secret_fields(schema: Mapping[str, Any] | None) -> frozenset[str]:
    """Returns the names of the payload's fields that hold a secret, at any depth."""
    if not schema:
        return frozenset()
    root = _resolved(schema, schema)
    return frozenset(name for name, part in root.get("properties", {}).items() if _has_mark(part, schema, set()))


def problem_of_marks(schema: Mapping[str, Any] | None) -> str | None:
    """Returns why the marks of a schema can't be used: only fields of the payload can be secret."""
    if not schema:
        return None
    root = _resolved(schema, schema)
    others = {name: part for name, part in root.items() if name != "properties"}
    if root.get(MARK) is True or _has_mark(others, schema, set()):
        return f"{MARK} marks something else than a field of the payload"
    nested = list(_mappings(schema))
    if any(part.get(MARK) is True for part in nested):
        refs = [part[name] for part in nested for name in ("$ref", "$dynamicRef") if isinstance(part.get(name), str)]
        if unknown := [ref for ref in refs if not isinstance(_target(ref, schema), Mapping | bool)]:
            return f"{MARK} can't be followed through the reference {unknown[0]!r:.80}: write it like #/$defs/name"
    return None


def _mappings(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yields all parts of a schema, those included that only a reference leads to."""
    if isinstance(value, Mapping):
        yield value
        for item in value.values():
            yield from _mappings(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _mappings(item)


def secret_values(schema: Mapping[str, Any] | None, payload: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the secret texts of a plain payload: those that are marked, and not all of the fields they are in."""
    if not schema:
        return ()
    found = list(_marked(schema, payload, schema, 0))
    properties = _resolved(schema, schema).get("properties", {})
    for name in secret_fields(schema) & payload.keys():
        # A mark below `if` or `contains` is not followed by value: all of the field counts then.
        if not any(_marked(properties[name], payload[name], schema, 0)):
            found += _texts(payload[name])
    return tuple(dict.fromkeys(found))


def is_sealed(value: Any) -> bool:
    """Returns whether the value of a field is stored encrypted."""
    return type(value) is dict and len(value) == 1 and isinstance(value.get(SEALED), str)


def hide_sealed(payload: Any) -> Any:
    """Returns a stored payload as people see it: without the encrypted values."""
    if type(payload) is not dict or not any(map(is_sealed, payload.values())):
        return payload
    return {name: SHOWN if is_sealed(value) else value for name, value in payload.items()}


def wrap(payload: Mapping[str, Any], fields: frozenset[str]) -> dict[str, Any]:
    """Returns a plain payload whose secret fields have to be encrypted before it can be stored."""
    return {name: Unsealed(value) if name in fields else value for name, value in payload.items()}


def unwrap(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a payload with the values of those that are not encrypted yet."""
    return {name: value.value if type(value) is Unsealed else value for name, value in payload.items()}


def _has_mark(schema: Any, whole: Mapping[str, Any], seen: set[str]) -> bool:
    """Follows each reference once: parts that refer to each other may have billions of ways."""
    if not isinstance(schema, Mapping):
        return False
    if schema.get(MARK) is True:
        return True
    ref = schema.get("$ref")
    if isinstance(ref, str) and ref not in seen:
        seen.add(ref)
        if _has_mark(_target(ref, whole), whole, seen):
            return True
    return any(_has_mark(part, whole, seen) for part in _parts(schema))


def _parts(schema: Mapping[str, Any]) -> Iterator[Any]:
    for name in _ALTERNATIVES:
        if isinstance(parts := schema.get(name), list):
            yield from parts
    for name in _PARTS:
        yield schema.get(name)
    for name in _NAMED_PARTS:
        if isinstance(named := schema.get(name), Mapping):
            yield from named.values()


def _marked(schema: Any, value: Any, whole: Mapping[str, Any], depth: int) -> Iterator[str]:
    if not isinstance(schema, Mapping) or depth > _DEEPEST:
        return
    if schema.get(MARK) is True:
        yield from _texts(value)
        return
    if isinstance(ref := schema.get("$ref"), str):
        yield from _marked(_target(ref, whole), value, whole, depth + 1)
    for name in ("anyOf", "oneOf", "allOf"):
        for part in schema.get(name) or ():
            yield from _marked(part, value, whole, depth + 1)
    if isinstance(value, Mapping):
        properties = schema.get("properties") or {}
        for name, item in value.items():
            part = properties.get(name, schema.get("additionalProperties"))
            yield from _marked(part, item, whole, depth + 1)
            for other in (schema.get("patternProperties") or {}).values():
                yield from _marked(other, item, whole, depth + 1)
    elif isinstance(value, list | tuple):
        first = schema.get("prefixItems") or ()
        for index, item in enumerate(value):
            part = first[index] if index < len(first) else schema.get("items")
            yield from _marked(part, item, whole, depth + 1)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def _resolved(schema: Mapping[str, Any], whole: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the schema of an object: a model that refers to itself is a reference as a whole."""
    target = _target(schema["$ref"], whole) if isinstance(schema.get("$ref"), str) else schema
    return target if isinstance(target, Mapping) else {}


def _target(ref: str, whole: Mapping[str, Any]) -> Any:
    if not ref.startswith("#/"):
        return None
    found: Any = whole
    for step in ref[2:].split("/"):
        found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
    return found
