"""Bounds the work that a JSON Schema can ask for, before a validator is made of it.

A schema of one kilobyte whose parts refer twice to each other asks for billions of checks. `load_of` counts the
checks of a schema with its references expanded, by one visit of each part, and refuses a schema that makes too many.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from leasehold.errors import InvalidInput
from leasehold.model.payload import MAX_DEPTH

MOST_CHECKS = 20_000
MOST_CHECKS_OF_A_PAYLOAD = 5_000_000
# A payload can't have more, by its bytes.
MOST_VALUES = 131_072
DEEPEST = 100
# Lists whose members are each compared with a value.
_COMPARED = ("enum", "required")
_IN_PLACE = ("not", "if", "then", "else")
_ALTERNATIVES = ("anyOf", "oneOf", "allOf")
_ITEMS = ("items", "contains", "unevaluatedItems")
_OTHERS = ("additionalProperties", "unevaluatedProperties", "propertyNames")
ANY_NAME, ANY_ITEM = "*", "[]"
Place = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SchemaLoad:
    """The checks that a schema asks for.

    checks   of one payload with one value in each place
    of_each  of one value among any number of them: an item, or a field of any name; 0 if there are none
    again    how many times a value is checked by a schema that refers to itself; more than 1 doubles with each level
    """

    checks: int
    of_each: int
    again: int

    def refuses(self, payload: Any) -> str | None:
        """Returns why a payload is too much for the schema: for most schemas without a look at the payload."""
        if self.again > 1:
            deep = depth_of(payload)
            if self.checks * self.again**deep > MOST_CHECKS_OF_A_PAYLOAD:
                return f"nested {deep} levels deep, and its schema checks {self.again} times as much at each level"
        most = MOST_CHECKS_OF_A_PAYLOAD // max(1, self.of_each)
        if most < MOST_VALUES and count_values(payload, most) > most:
            return f"more than {most:,} values, of which its schema checks each {self.of_each:,} times"
        return None


def load_of(schema: Mapping[str, Any]) -> SchemaLoad:
    """Returns the load of a schema. Raises InvalidInput for one that asks for too much."""
    visit = _Visit(schema)
    found = visit.part(schema, (), 0)
    require_few(found.checks)
    return SchemaLoad(found.checks, visit.of_each, visit.again())


def require_few(checks: int) -> None:
    if checks > MOST_CHECKS:
        raise _refused(
            f"with its references expanded it makes more than {MOST_CHECKS:,} checks",
            "Let fewer parts refer to each other, or use a wider type.",
        )


def count_values(payload: Any, most: int) -> int:
    """Returns how many values a payload has at all levels, or one more than the most: it may be without end."""
    many, to_see = 0, [payload]
    while to_see and many <= most:
        seen = to_see.pop()
        many += 1
        if isinstance(seen, Mapping):
            to_see.extend(seen.values())
        elif isinstance(seen, list | tuple):
            to_see.extend(seen)
    return many


def depth_of(payload: Any) -> int:
    """Returns how many levels of lists and dicts a payload has, as far as it can be stored."""
    deep, level = 0, [payload]
    while deep <= MAX_DEPTH and (
        level := [
            item
            for value in level
            if isinstance(value, Mapping | list | tuple)
            for item in (value.values() if isinstance(value, Mapping) else value)
        ]
    ):
        deep += 1
    return deep


@dataclass(frozen=True, slots=True)
class _Found:
    """The checks of a part: in its own place, with all places below, and of one value among any number below it."""

    here: int
    checks: int
    of_each: int = 0


class _Visit:
    """Counts a schema. A part that references lead to is counted once, and added for each of them.

    A reference to a part that is being counted returns to it. `_returns` has, for each part that is referred to, the
    parts to which it returns, and the places from its own one.
    """

    def __init__(self, whole: Mapping[str, Any]) -> None:
        self.of_each = 0
        self._whole = whole
        self._parts = 0
        self._anchors: dict[str, Any] | None = None
        self._known: dict[str, _Found] = {}
        self._open: dict[str, Place] = {}
        self._returns: dict[str, dict[tuple[str, Place], int]] = {}

    def part(self, schema: Any, place: Place, depth: int) -> _Found:
        if not isinstance(schema, Mapping):
            return _Found(1, 1)
        if depth > DEEPEST:
            raise _refused(f"its parts are nested, or refer to each other, more than {DEEPEST} levels deep")
        if "$id" in schema and schema is not self._whole:
            raise _refused("a part of it has an $id, so that references within it lead elsewhere", "Leave it out.")
        self._parts += 1
        require_few(self._parts)
        here = 1 + len(schema) + sum(len(found) for name in _COMPARED if isinstance(found := schema.get(name), list))
        below = of_each = 0
        refs = [ref for ref in (schema.get("$ref"), schema.get("$dynamicRef")) if isinstance(ref, str)]
        for found in chain(
            (self._reference(ref, place, depth) for ref in refs),
            (self.part(part, place, depth + 1) for part in _in_place(schema)),
        ):
            here, below = here + found.here, below + found.checks - found.here
            of_each += found.of_each
            require_few(here + below)
        for step, part in _steps(schema):
            found = self.part(part, (*place, step), depth + 1)
            here, below = here + 1, below + found.checks
            of_each += found.here if step in (ANY_NAME, ANY_ITEM) else 0
        first = [self.part(part, (*place, ANY_ITEM), depth + 1) for part in _first_items(schema)]
        here, below = here + len(first), below + sum(found.checks for found in first)
        of_each += max((found.here for found in first), default=0)  # an item is checked by one of them
        self.of_each = max(self.of_each, of_each)
        return _Found(here, here + below, of_each)

    def _reference(self, ref: str, place: Place, depth: int) -> _Found:
        if ref in self._open:
            self._note_return(ref, place, 1)
            return _Found(1, 1)
        if ref in self._known:
            for (target, rest), many in self._returns[ref].items():
                if target in self._open:
                    self._note_return(target, place + rest, many)
            return self._known[ref]
        self._open[ref] = place
        self._returns[ref] = {}
        self._known[ref] = found = self.part(self._target(ref), place, depth + 1)
        del self._open[ref]
        require_few(found.checks)
        return found

    def _note_return(self, target: str, place: Place, many: int) -> None:
        for each, begun in reversed(self._open.items()):
            returns, place_of_it = self._returns[each], (target, place[len(begun) :])
            returns[place_of_it] = returns.get(place_of_it, 0) + many
            if each == target:
                return

    def again(self) -> int:
        """Returns how many references lead from a part back to it, in one place of a payload."""
        return max((_most_in_one_place(part, returns) for part, returns in self._returns.items()), default=0)

    def _target(self, ref: str) -> Any:
        if not ref.startswith("#"):
            if "$id" in self._whole:
                raise _refused(f"the reference {ref!r:.80} does not begin with #", "Write it like #/$defs/name.")
            return None  # another document: no validator is made of it
        if not ref.startswith("#/"):
            return self._whole if ref == "#" else self._anchor(ref[1:])
        found: Any = self._whole
        for step in ref[2:].split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and name.isascii() and name.isdigit() and int(name) < len(found):
                found = found[int(name)]
            else:
                found = found.get(name) if isinstance(found, Mapping) else None
        return found

    def _anchor(self, name: str) -> Any:
        if self._anchors is None:
            self._anchors = _anchors_of(self._whole)
        return self._anchors.get(name)


def _in_place(schema: Mapping[str, Any]) -> Iterator[Any]:
    """Yields the parts that check the same value."""
    for name in _ALTERNATIVES:
        if isinstance(parts := schema.get(name), list):
            yield from parts
    yield from (schema[name] for name in _IN_PLACE if name in schema)
    if isinstance(named := schema.get("dependentSchemas"), Mapping):
        yield from named.values()


def _steps(schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yields the parts that check values within this one, each with its place."""
    if isinstance(named := schema.get("properties"), Mapping):
        yield from ((f".{name}", part) for name, part in named.items())
    if isinstance(patterns := schema.get("patternProperties"), Mapping):
        yield from ((ANY_NAME, part) for part in patterns.values())
    yield from ((ANY_NAME, schema[name]) for name in _OTHERS if name in schema)
    yield from ((ANY_ITEM, schema[name]) for name in _ITEMS if name in schema)


def _first_items(schema: Mapping[str, Any]) -> list[Any]:
    return first if isinstance(first := schema.get("prefixItems"), list) else []


def _anchors_of(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Returns all parts that have a name of their own, by one walk: references by name may be many."""
    found: dict[str, Any] = {}
    to_see: list[Any] = [schema]
    while to_see:
        seen = to_see.pop()
        if isinstance(seen, Mapping):
            for name in (seen.get("$anchor"), seen.get("$dynamicAnchor")):
                if isinstance(name, str):
                    found.setdefault(name, seen)
            to_see.extend(seen.values())
        elif isinstance(seen, list):
            to_see.extend(seen)
    return found


def _most_in_one_place(part: str, returns: Mapping[tuple[str, Place], int]) -> int:
    """Counts those of any name for each name, too, since both may check one value."""
    own = {place: many for (target, place), many in returns.items() if target == part}
    anywhere = sum(many for place, many in own.items() if ANY_NAME in place)
    return anywhere + max((many for place, many in own.items() if ANY_NAME not in place), default=0)


def _refused(why: str, fix: str = "Write a flatter schema.") -> InvalidInput:
    return InvalidInput(f"The schema can't be used: {why}.", fix=f"Nothing was changed. {fix}")
