"""Parts of a JSON Schema as forms see them: which widget a part is, and with which bounds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from leasehold.model.secret_fields import MARK

LONG = 200
MOST_FIELDS = 60
MOST_OPTIONS = 200
MOST_PARTS = 500
_DEEPEST = 8
_FORMATS = {"date": "date", "email": "email", "uri": "url"}
# Words of a schema that no widget obeys.
_UNKNOWN = ("if", "not", "prefixItems", "contains", "patternProperties", "dependentSchemas", "propertyNames")


class Kind(StrEnum):
    TEXT = "text"
    LONG = "long text"
    SECRET = "secret"
    NUMBER = "number"
    INTEGER = "integer"
    FLAG = "yes or no"
    OPTIONS = "options"
    FIXED = "fixed"
    GROUP = "object"
    LIST = "list"
    CHOICE = "choice"
    JSON = "JSON"


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a schema, with its references followed."""

    kind: Kind
    title: str = ""
    help: str = ""
    nullable: bool = False
    placeholder: str = ""
    input: str = "text"
    bounds: Mapping[str, Any] = field(default_factory=dict)
    options: tuple[Any, ...] = ()
    properties: Mapping[str, "Part"] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    items: "Part | None" = None
    choices: tuple["Part", ...] = ()


def part_of(schema: Any, root: Mapping[str, Any]) -> Part:
    """Reads a schema, as deep as 500 parts allow. Deeper parts, and others than those below, become JSON.

    A schema whose fields refer to it again has millions of parts: all of them are cut at the same depth, so that no
    field takes the parts of its neighbors.
    """
    for deepest in range(_DEEPEST, -1, -1):
        try:
            return _SchemaReader(root, deepest).part(schema)
        except _TooManyParts:
            continue
    return Part(Kind.JSON)


class _TooManyParts(Exception):
    pass


@dataclass(slots=True)
class _SchemaReader:
    """Reads the parts of a schema. Raises _TooManyParts."""

    root: Mapping[str, Any]
    deepest: int
    left: int = MOST_PARTS

    def part(self, schema: Any, depth: int = 0) -> Part:
        self.left -= 1
        if self.left < 0:
            raise _TooManyParts
        if not isinstance(schema, Mapping) or depth > self.deepest:
            return Part(Kind.JSON)
        found = _resolve(schema, self.root)
        about: dict[str, Any] = {
            "title": str(found.get("title", "")),
            "help": str(found.get("description", "")),
            "placeholder": _placeholder(found),
        }
        if any(name in found for name in _UNKNOWN):
            return Part(Kind.JSON, **about)
        if "const" in found:
            return Part(Kind.FIXED, options=(found["const"],), **about)
        if isinstance(found.get("enum"), list) and 0 < len(found["enum"]) <= MOST_OPTIONS:
            return Part(Kind.OPTIONS, options=tuple(found["enum"]), **about)
        for name in ("anyOf", "oneOf"):
            if isinstance(found.get(name), list):
                return self._alternatives(found, found[name], depth, about)
        kinds = found.get("type")
        nullable = isinstance(kinds, list) and "null" in kinds
        names = [each for each in kinds if each != "null"] if isinstance(kinds, list) else [kinds]
        if len(names) != 1:
            return Part(Kind.JSON, **about)
        return self._part_of_type(found, names[0], depth, about | {"nullable": nullable})

    def _alternatives(
        self, found: Mapping[str, Any], given: Sequence[Any], depth: int, about: Mapping[str, Any]
    ) -> Part:
        others = [each for each in given if not (isinstance(each, Mapping) and each.get("type") == "null")]
        nullable = len(others) < len(given)
        if len(others) == 1 and isinstance(others[0], Mapping):
            kept = {name: value for name, value in found.items() if name not in ("anyOf", "oneOf")}
            one = self.part({**_resolve(others[0], self.root), **kept}, depth + 1)
            return replace(one, nullable=one.nullable or nullable)
        choices = tuple(self.part(each, depth + 1) for each in others)
        if nullable or not choices or any(each.kind is Kind.CHOICE for each in choices):
            return Part(Kind.JSON, **about)
        return Part(Kind.CHOICE, choices=choices, **about)

    def _part_of_type(self, found: Mapping[str, Any], name: Any, depth: int, about: Mapping[str, Any]) -> Part:
        if name == "boolean":
            return Part(Kind.FLAG, options=(True, False), **about)
        if name in ("integer", "number"):
            return _number(found, name, about)
        if name == "string":
            return _text(found, about)
        if name == "array" and isinstance(found.get("items"), Mapping):
            return Part(Kind.LIST, items=self.part(found["items"], depth + 1), **about)
        properties = found.get("properties")
        if name == "object" and isinstance(properties, Mapping) and 0 < len(properties) <= MOST_FIELDS:
            parts = {str(key): self.part(each, depth + 1) for key, each in properties.items()}
            required = frozenset(each for each in found.get("required", ()) if isinstance(each, str))
            return Part(Kind.GROUP, properties=parts, required=required, **about)
        return Part(Kind.JSON, **about)


def _number(found: Mapping[str, Any], name: str, about: Mapping[str, Any]) -> Part:
    kind = Kind.INTEGER if name == "integer" else Kind.NUMBER
    bounds = {
        "min": found.get("minimum"),
        "max": found.get("maximum"),
        "step": "1" if name == "integer" else "any",
    }
    return Part(kind, bounds={key: value for key, value in bounds.items() if value is not None}, **about)


def _text(found: Mapping[str, Any], about: Mapping[str, Any]) -> Part:
    bounds = {
        "minlength": found.get("minLength"),
        "maxlength": found.get("maxLength"),
        "pattern": found.get("pattern"),
    }
    kept = {key: value for key, value in bounds.items() if value is not None}
    if found.get("writeOnly") is True or found.get(MARK) is True or found.get("format") == "password":
        return Part(Kind.SECRET, bounds=kept, **about)
    length = found.get("maxLength")
    if found.get("format") == "textarea" or (isinstance(length, int) and length > LONG):
        return Part(Kind.LONG, bounds=kept, **about)
    shape = str(found.get("format", ""))
    return Part(Kind.TEXT, input=_FORMATS.get(shape, "text"), bounds=kept, **_with_example(about, shape))


def _with_example(about: Mapping[str, Any], shape: str) -> dict[str, Any]:
    examples = {"date-time": "2030-01-31T09:00:00Z", "uuid": "3f2b…-…", "date": "2030-01-31"}
    return {**about, "placeholder": about["placeholder"] or examples.get(shape, "")}


def _placeholder(found: Mapping[str, Any]) -> str:
    if (default := found.get("default")) not in (None, ""):
        return f"default: {_short(default)}"
    examples = found.get("examples")
    return f"for example {_short(examples[0])}" if isinstance(examples, list) and examples else ""


def _short(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = str(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def _resolve(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Follows references within the schema, and merges a single `allOf`. Words beside a reference stay."""
    for _ in range(_DEEPEST):
        reference, merged = schema.get("$ref"), schema.get("allOf")
        if isinstance(reference, str) and isinstance(target := _target(reference, root), Mapping):
            schema = {**target, **{name: value for name, value in schema.items() if name != "$ref"}}
        elif isinstance(merged, list) and len(merged) == 1 and isinstance(merged[0], Mapping):
            schema = {**merged[0], **{name: value for name, value in schema.items() if name != "allOf"}}
        else:
            break
    known = "$ref" not in schema and "allOf" not in schema
    return schema if known else {name: schema[name] for name in ("title", "description") if name in schema}


def _target(reference: str, root: Mapping[str, Any]) -> Any:
    if not reference.startswith("#/"):
        return None
    found: Any = root
    for step in reference[2:].split("/"):
        found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
    return found
