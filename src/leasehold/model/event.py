"""Events: a dotted name and data, the patterns that select names, and filters that compare values of the data.

A filter maps paths into the data to a value, or to comparisons of which all must hold:

    {"provider": "dropbox", "size": {"gt": 100, "lte": 5000}, "folder.kind": {"in": ["a", "b"]},
     "deleted_at": {"exists": false}}

    eq, ne              equal, not equal; a value alone means eq
    in                  equal to one of a list
    lt, lte, gt, gte    two numbers by size, two texts by their characters, so that ISO dates in UTC compare as dates
    exists              whether the path leads to a value; null is a value

A path that is missing fits `exists: false` and nothing else, and values of different types are never equal. Nothing
is evaluated.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, NewType
from uuid import UUID

from leasehold.errors import InvalidInput
from leasehold.model import payload as payloads
from leasehold.model.bounds import describe, problems_of_text, storable
from leasehold.model.job import TenantId
from leasehold.model.path import Missing, Step, kind_of, look_up, parse_path

EventId = NewType("EventId", str)

MAX_NAME = 200
MAX_WORDS = 16
MAX_CONDITIONS = 20
MAX_CHOICES = 100
MAX_OPERAND = 1000
_NAME = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*")
_SHOWN = 80


def event_name(text: Any) -> str:
    """Returns the name of an event; raises InvalidInput for a text that is not dotted words."""
    if problem := _problem_of_name(text):
        raise InvalidInput(
            f"The event name {describe(text)} can't be used: {problem}.",
            fix='Nothing was changed. Write dotted words, like "provider.folder.updated".',
        )
    return str(text)


def event_id(text: str | UUID) -> EventId:
    """Returns the stored spelling of a UUID."""
    try:
        return EventId(str(UUID(str(text))))
    except ValueError as error:
        raise InvalidInput(
            f"{describe(text)} is not an event id: it is a UUID.", fix="Nothing was changed. Copy the whole id."
        ) from error


def event_pattern(text: Any) -> str:
    """Returns a pattern: a name, or words followed by `.*`, which select all names that begin with them."""
    name = text.removesuffix(".*") if isinstance(text, str) else text
    problem = "a pattern for all events is not supported" if text == "*" else _problem_of_name(name)
    if problem is None and name != text and name.count(".") >= MAX_WORDS - 1:
        problem = f"it has {MAX_WORDS} words before the .*, so no name fits"
    if problem:
        raise InvalidInput(
            f"The event pattern {describe(text)} can't be used: {problem}.",
            fix='Nothing was changed. Write a name, like "provider.folder.updated", or "provider.*".',
        )
    return str(text)


def matches(pattern: str, name: str) -> bool:
    """Returns whether a pattern selects a name: `provider.*` selects `provider.folder.updated`, not `provider`."""
    return name.startswith(pattern[:-1]) if pattern.endswith(".*") else name == pattern


def patterns_of(name: str) -> tuple[str, ...]:
    """Returns every pattern that selects this name, at most MAX_WORDS, for a lookup by equality."""
    words = name.split(".")
    return (name, *(".".join(words[:count]) + ".*" for count in range(len(words) - 1, 0, -1)))


def _problem_of_name(text: Any) -> str | None:
    if not isinstance(text, str):
        return "it is not text"
    if len(text) > MAX_NAME:
        return f"it has {len(text)} characters, at most {MAX_NAME} are kept"
    if not _NAME.fullmatch(text):
        return "its words have letters, digits, _ and -, with one dot between them"
    if text.count(".") >= MAX_WORDS:
        return f"it has {text.count('.') + 1} words, at most {MAX_WORDS} are kept"
    return None


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event to emit. It has no tenant: the tenant handle that emits it has one. Data is bounded like a payload.

    With an `id`, a repeated emit writes it once. `text` is the data as JSON. Jobs that the event makes get its
    `correlation_id` and its `trace_context`.
    """

    name: str
    data: Mapping[str, Any] = field(default_factory=dict, hash=False)
    correlation_id: str | None = None
    created_by: str | None = None
    id: EventId | None = None
    trace_context: str | None = None
    text: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        event_name(self.name)
        object.__setattr__(self, "text", payloads.encode_event(self.data))
        for name in ("correlation_id", "created_by"):
            if (text := getattr(self, name)) is not None and (problems := list(problems_of_text(name, text))):
                raise InvalidInput(
                    f"The event {self.name} can't be emitted: {problems[0]}.",
                    fix="Nothing was emitted. Correct the values.",
                )


@dataclass(frozen=True, slots=True)
class Event:
    """An event as it was stored. The database's clock set `at`.

    Before `expanded_at`, no trigger has decided about it: a worker will expand it in a moment.
    """

    id: EventId
    tenant: TenantId
    name: str
    data: Mapping[str, Any] = field(hash=False)
    at: datetime
    correlation_id: str | None = None
    created_by: str | None = None
    expanded_at: datetime | None = None
    trace_context: str | None = None


class Operator(StrEnum):
    EQ = "eq"
    NE = "ne"
    IN = "in"
    LT = "lt"
    LTE = "lte"
    GT = "gt"
    GTE = "gte"
    EXISTS = "exists"


_ORDER = frozenset({Operator.LT, Operator.LTE, Operator.GT, Operator.GTE})
_SIGNS = {
    Operator.EQ: "=",
    Operator.NE: "≠",
    Operator.IN: "in",
    Operator.LT: "<",
    Operator.LTE: "≤",
    Operator.GT: ">",
    Operator.GTE: "≥",
    Operator.EXISTS: "exists",
}


@dataclass(frozen=True, slots=True)
class Condition:
    path: str
    operator: Operator
    operand: Any = field(hash=False)
    steps: tuple[Step, ...] = field(compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.path} {_SIGNS[self.operator]} {_spelled(self.operand)}"

    def why_not(self, data: Mapping[str, Any]) -> str | None:
        """Returns why the condition does not hold for this data; None if it holds."""
        found = look_up(data, self.steps)
        if self.operator is Operator.EXISTS:
            missing = isinstance(found, Missing)
            return (
                None if self.operand != missing else f"{self} → {found.why if missing else f'{self.path} is there'}"
            )
        if isinstance(found, Missing):
            return f"{self} → {found.why}"
        if self.operator in _ORDER and not (_comparable(found, self.operand)):
            return f"{self} → {self.path} is {kind_of(found)}, and {kind_of(self.operand)} is compared"
        return None if self._holds(found) else f"{self} → {self.path} is {_spelled(found)}"

    def _holds(self, found: Any) -> bool:
        match self.operator:
            case Operator.EQ:
                return _equal(found, self.operand)
            case Operator.NE:
                return not _equal(found, self.operand)
            case Operator.IN:
                return any(_equal(found, choice) for choice in self.operand)
            case Operator.LT:
                return bool(found < self.operand)
            case Operator.LTE:
                return bool(found <= self.operand)
            case Operator.GT:
                return bool(found > self.operand)
            case _:
                return bool(found >= self.operand)


@dataclass(frozen=True, slots=True)
class Filter:
    """Comparisons of the data of an event; all must hold. An empty filter fits every event."""

    conditions: tuple[Condition, ...] = ()

    def why_not(self, data: Mapping[str, Any]) -> str | None:
        """Returns the first comparison that does not hold, with the value found; None if the data fits."""
        return next(filter(None, (condition.why_not(data) for condition in self.conditions)), None)

    def as_json(self) -> dict[str, dict[str, Any]]:
        """Returns the filter as stored: each path with its comparisons."""
        stored: dict[str, dict[str, Any]] = {}
        for condition in self.conditions:
            stored.setdefault(condition.path, {})[condition.operator.value] = condition.operand
        return stored


NO_FILTER = Filter()


def read_filter(given: Any) -> Filter:
    """Returns the filter of this mapping; raises InvalidInput with all reasons why it can't be used."""
    if isinstance(given, Filter):
        return given
    if not isinstance(given, Mapping):
        raise _refused(f"{describe(given)} is not a mapping of paths to comparisons")
    try:
        pairs = [pair for path, wanted in given.items() for pair in _comparisons(path, wanted)]
    except Exception as error:
        raise _refused(f"it can't be read: {type(error).__name__}") from error
    if len(pairs) > MAX_CONDITIONS:
        raise _refused(f"it has {len(pairs)} comparisons, at most {MAX_CONDITIONS} are kept")
    if problems := [problem for path, name, operand in pairs for problem in _problems(path, name, operand)]:
        raise _refused("; ".join(problems))
    return Filter(
        tuple(Condition(path, Operator(name), _kept(operand), parse_path(path)) for path, name, operand in pairs)
    )


def _comparisons(path: Any, wanted: Any) -> list[tuple[Any, Any, Any]]:
    if isinstance(wanted, Mapping):
        return [(path, name, operand) for name, operand in wanted.items()] or [(path, "", None)]
    return [(path, "eq", wanted)]


def _problems(path: Any, name: Any, operand: Any) -> Iterator[str]:
    if not isinstance(path, str):
        yield f"the path {describe(path)} is not text"
        return
    if not storable(path):
        yield f"the path {path!r:.80} has a NUL character or a lone surrogate"
        return
    try:
        parse_path(path)
    except ValueError as error:
        yield str(error)
    if name not in set(Operator):
        yield f"{path:.80}: {describe(name)} is not a comparison ({', '.join(Operator)})"
    elif name == Operator.EXISTS:
        if not isinstance(operand, bool):
            yield f"{path:.80}: exists takes true or false, not {describe(operand)}"
    elif name == Operator.IN:
        if not isinstance(operand, list | tuple) or not 0 < len(operand) <= MAX_CHOICES:
            yield f"{path:.80}: in takes a list of 1 to {MAX_CHOICES} values"
        elif not all(map(_is_scalar, operand)):
            yield f"{path:.80}: in compares text, numbers, true, false and null"
    elif name in _ORDER:
        if isinstance(operand, bool) or operand is None or not _is_scalar(operand):
            yield f"{path:.80}: {name} compares a number or a text, not {describe(operand)}"
    elif not _is_scalar(operand):
        yield f"{path:.80}: {name} compares text, a number, true, false or null, not {describe(operand)}"


def _is_scalar(value: Any) -> bool:
    if value is not None and type(value) not in (bool, int, float, str):
        return False
    try:
        return len(payloads.encode({"value": value})) <= MAX_OPERAND
    except InvalidInput:
        return False


def _kept(operand: Any) -> Any:
    return tuple(operand) if isinstance(operand, list) else operand


def _comparable(left: Any, right: Any) -> bool:
    return (isinstance(left, str) and isinstance(right, str)) or (_is_number(left) and _is_number(right))


def _equal(left: Any, right: Any) -> bool:
    """Compares as JSON does: true is not 1, and 1 is 1.0."""
    return bool(left == right) and (type(left) is type(right) or (_is_number(left) and _is_number(right)))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _spelled(value: Any) -> str:
    listed = list(value) if isinstance(value, tuple) else value
    text = payloads.encode_plain(listed)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _refused(why: str) -> InvalidInput:
    return InvalidInput(
        f"The filter can't be used: {why}.",
        fix='Nothing was changed. Write it like {"size": {"gt": 100}, "provider": "dropbox"}.',
    )
