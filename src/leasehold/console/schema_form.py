"""Forms made of a JSON Schema: a widget for each part that a form can hold, and a text of JSON for all others.

A form loses nothing: a value that its widget can't give back as it is becomes JSON. A field that is empty is left
out of the payload, so that the default of the handler applies. Names of fields are JSON pointers; `!json`,
`!count` and `!choice` after them say how they are read.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from leasehold.api.strict_json import read_json
from leasehold.console.rendering import pretty
from leasehold.console.schema_parts import Kind, Part, part_of
from leasehold.errors import LeaseholdError
from leasehold.operations import views

DEPTH = 50
DEEPEST = 5
MOST_ITEMS = 30
MOST_WIDGETS = 120
ROOT = ""
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


class _Absent:
    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent()
"""The value of a field that is left out."""


@dataclass(frozen=True, slots=True)
class Raw:
    """A text that is not JSON, kept as it was typed."""

    text: str


@dataclass(frozen=True, slots=True)
class Node:
    """A widget. `text` is the value of its control, `children` are the fields of a group or the items of a list."""

    kind: Kind
    name: str
    part: Part
    required: bool
    text: str = ""
    children: tuple["Node", ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    problem: str = ""
    is_item: bool = False
    title: str = ""

    @property
    def id(self) -> str:
        return "field" + "".join(letter if letter.isalnum() else f"-{ord(letter):x}-" for letter in self.name)

    def walk(self) -> Iterator["Node"]:
        yield self
        for child in self.children:
            yield from child.walk()

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yields the fields that a browser would send."""
        match self.kind:
            case Kind.JSON:
                yield f"{self.name}!json", self.text
            case Kind.FLAG:
                if self.text:
                    yield self.name, self.text
            case Kind.GROUP | Kind.LIST | Kind.CHOICE:
                if self.kind is Kind.LIST:
                    yield f"{self.name}!count", str(len(self.children))
                if self.kind is Kind.CHOICE:
                    yield f"{self.name}!choice", self.text
                for child in self.children:
                    yield from child.pairs()
            case Kind.LONG:
                yield self.name, self.text.replace("\r\n", "\n").replace("\r", "\n")
            case _:
                yield self.name, _as_typed(self.text, self.part.input)


def _as_typed(text: str, kind: str) -> str:
    """Returns what a browser makes of the value of a control of one line."""
    line = text.translate({10: None, 13: None})
    if kind == "date":
        return line if _DATE.fullmatch(line) else ""
    return line if kind == "text" else line.strip()


# ------------------------------------------------------------------------------------------------------------- read


@dataclass
class FormReader:
    """Reads the fields of a form by its schema. `problems` has texts that are not JSON."""

    root: Mapping[str, Any]
    form: Mapping[str, str]
    problems: dict[str, str] = field(default_factory=dict)

    def value(self) -> Any:
        """Returns the payload; an empty one if nothing was filled in."""
        found = self.read(part_of(self.root, self.root), ROOT, True)
        return {} if found is ABSENT else found

    def read(self, part: Part, name: str, required: bool, is_item: bool = False) -> Any:
        if (text := self.form.get(f"{name}!json")) is not None:
            return self._json(name, text)
        match part.kind:
            case Kind.GROUP:
                return self._group(part, name, required)
            case Kind.LIST:
                return self._list(part, name, required)
            case Kind.CHOICE:
                return self.read(self._chosen(part, name), name, required)
            case Kind.FLAG if is_flag(part, name, required):
                return bool(self.form.get(name))
            case Kind.FIXED:
                return part.options[0] if required else self._option(part, name)
            case Kind.FLAG | Kind.OPTIONS:
                return self._option(part, name, required)
        return self._text(part, name, required, is_item)

    def _chosen(self, part: Part, name: str) -> Part:
        return part.choices[_index(self.form.get(f"{name}!choice"), part.choices) or 0]

    def _json(self, name: str, text: str) -> Any:
        if not text.strip():
            return ABSENT
        try:
            return read_json(text.encode(), DEPTH)
        except LeaseholdError as error:
            self.problems[name] = f"This is not JSON: {error.happened}"
            return Raw(text)

    def _group(self, part: Part, name: str, required: bool) -> Any:
        found = {
            key: self.read(each, pointer(name, key), key in part.required) for key, each in part.properties.items()
        }
        filled = {key: value for key, value in found.items() if value is not ABSENT}
        said = [key for key in filled if part.properties[key].kind is not Kind.FIXED]
        return filled if said or required else ABSENT

    def _list(self, part: Part, name: str, required: bool) -> Any:
        count = min(_count(self.form.get(f"{name}!count")) or 0, MOST_ITEMS)
        assert part.items is not None
        items = [self.read(part.items, pointer(name, str(number)), True, True) for number in range(count)]
        kept = [value for value in items if value is not ABSENT]
        return kept if kept or required else ABSENT

    def _option(self, part: Part, name: str, required: bool = False) -> Any:
        number = _index(self.form.get(name), part.options)
        if number is None:
            return None if required and part.nullable else ABSENT
        return part.options[number]

    def _text(self, part: Part, name: str, required: bool, is_item: bool) -> Any:
        text = self.form.get(name, "").replace("\r\n", "\n")
        if text == "":
            if is_item and part.kind is not Kind.JSON:
                return ""
            return None if required and part.nullable else ABSENT
        return _number(text, part.kind) if part.kind in (Kind.NUMBER, Kind.INTEGER) else text


def is_flag(part: Part, name: str, required: bool) -> bool:
    """Returns whether a boolean is a box to tick: one that is left out, or null, needs a third choice."""
    return required and not part.nullable and name.count("/") == 1


def _number(text: str, kind: Kind) -> Any:
    """Returns the number, or the text itself, which no schema of a number accepts."""
    try:
        found = read_json(text.strip().encode(), 0)
    except LeaseholdError:
        return text
    fits = isinstance(found, int) if kind is Kind.INTEGER else isinstance(found, int | float)
    return found if fits and not isinstance(found, bool) else text


def _count(text: str | None) -> int | None:
    """Returns the number that a control or a button has sent; None for any other text."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 6 else None


def _index(text: str | None, among: Sequence[Any]) -> int | None:
    """Returns the place that a text names among others; None if it names none of them."""
    number = _count(text)
    return number if number is not None and number < len(among) else None


# ------------------------------------------------------------------------------------------------------------- build


def build(
    schema: Mapping[str, Any],
    value: Any,
    problems: Mapping[str, str] | None = None,
    sent: Mapping[str, str] | None = None,
) -> Node:
    """Returns the widgets for a value. `sent` are the fields of the form before: they say which choice was taken."""
    made = _FormBuilder(schema, sent or {}).node(part_of(schema, schema), ROOT, value, True)
    if sum(1 for _ in made.walk()) > MOST_WIDGETS:
        made = _as_json(made.part, ROOT, value, True)
    return _with_problems(made, problems or {})


@dataclass(frozen=True, slots=True)
class _FormBuilder:
    root: Mapping[str, Any]
    sent: Mapping[str, str]

    def node(self, part: Part, name: str, value: Any, required: bool, is_item: bool = False) -> Node:
        """Returns the widget of a value; JSON if the widget would not give it back."""
        made = self._widget(part, name, value, required, is_item)
        if made is not None and _same(self._reread(part, made, required, is_item), value):
            return made
        return _as_json(part, name, value, required, is_item)

    def _reread(self, part: Part, made: Node, required: bool, is_item: bool) -> Any:
        return FormReader(self.root, dict(made.pairs())).read(part, made.name, required, is_item)

    def _widget(self, part: Part, name: str, value: Any, required: bool, is_item: bool) -> Node | None:
        node = Node(part.kind, name, part, required, is_item=is_item)
        if isinstance(value, Raw) or part.kind is Kind.JSON or name.count("/") > DEEPEST:
            return None
        match part.kind:
            case Kind.GROUP:
                given = value if isinstance(value, Mapping) else {}
                fields = (
                    self.node(each, pointer(name, key), given.get(key, ABSENT), key in part.required)
                    for key, each in part.properties.items()
                )
                return replace(node, children=tuple(sorted(fields, key=lambda each: not each.required)))
            case Kind.LIST:
                return self._list(node, value)
            case Kind.CHOICE:
                return self._choice(node, value)
            case Kind.FLAG | Kind.OPTIONS | Kind.FIXED:
                return self._options(node, value)
        return replace(node, text=_shown(value))

    def _list(self, node: Node, value: Any) -> Node | None:
        items = value if isinstance(value, list) else []
        if len(items) > MOST_ITEMS or node.part.items is None:
            return None
        children = (
            self.node(node.part.items, pointer(node.name, str(number)), each, True, True)
            for number, each in enumerate(items)
        )
        return replace(node, children=tuple(children))

    def _choice(self, node: Node, value: Any) -> Node | None:
        choices = node.part.choices
        sent = _index(self.sent.get(f"{node.name}!choice"), choices) or 0
        for number in dict.fromkeys((sent, *range(len(choices)))):
            chosen = self.node(choices[number], node.name, value, node.required, node.is_item)
            if chosen.kind is not Kind.JSON or choices[number].kind is Kind.JSON:
                titles = tuple((str(index), each.title or each.kind.value) for index, each in enumerate(choices))
                return replace(node, text=str(number), children=(chosen,), options=titles)
        return None

    def _options(self, node: Node, value: Any) -> Node:
        part = node.part
        if part.kind is Kind.FLAG and is_flag(part, node.name, node.required):
            return replace(node, text="yes" if value is True else "")
        chosen = next((str(number) for number, each in enumerate(part.options) if _same(each, value)), "")
        shown = tuple((str(number), _label(each)) for number, each in enumerate(part.options))
        kind = Kind.OPTIONS if part.kind is Kind.FLAG else part.kind
        return replace(node, kind=kind, text=chosen, options=shown)


def _as_json(part: Part, name: str, value: Any, required: bool, is_item: bool = False) -> Node:
    text = "" if value is ABSENT else value.text if isinstance(value, Raw) else as_text(_plain(value))
    return Node(Kind.JSON, name, part, required, text=text, is_item=is_item)


def as_text(value: Any) -> str:
    """Writes a value of a form as JSON, also an integer beyond 64 bits, which only an enqueue refuses."""
    try:
        return pretty(value)
    except TypeError:
        return views.printable(json.dumps(value, indent=2, ensure_ascii=False))


def _plain(value: Any) -> Any:
    """Returns a value without texts that are not JSON, and without what was left out."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items() if each is not ABSENT}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value.text if isinstance(value, Raw) else value


def _with_problems(node: Node, problems: Mapping[str, str]) -> Node:
    """Binds each problem to the widget with its name, or else to the nearest one that holds it."""
    names = {each.name for each in node.walk()}
    bound: dict[str, str] = {}
    for name, text in problems.items():
        place = name
        while place not in names and place:
            place = place.rpartition("/")[0]
        bound[place] = f"{bound[place]}; {text}" if place in bound else text
    return _bind(node, bound)


def _bind(node: Node, bound: Mapping[str, str]) -> Node:
    children = tuple(_bind(child, bound) for child in node.children)
    taken = node.kind is Kind.CHOICE and node.children and node.children[0].name == node.name
    return replace(node, children=children, problem="" if taken else bound.get(node.name, ""))


def _shown(value: Any) -> str:
    if value is ABSENT or value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def _label(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _same(one: Any, other: Any) -> bool:
    """Returns whether two values are equal as JSON: 1 is neither 1.0 nor true."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return type(one) is type(other) and bool(one == other)


# ------------------------------------------------------------------------------------------------------------ change


def pointer(name: str, key: str) -> str:
    return f"{name}/{key.replace('~', '~0').replace('/', '~1')}"


def pointer_of(path: Sequence[str | int]) -> str:
    return "".join(pointer("", str(step)) for step in path)


def reshape(schema: Mapping[str, Any], value: Any, action: str) -> Any:
    """Returns the value after a button of a list: `add:/items`, `remove:/items/0`, `up:/items/1`."""
    verb, _, name = action.partition(":")
    if verb not in ("add", "remove", "up") or not name.startswith("/"):
        return value
    place, number = name, None
    if verb != "add":
        place, _, text = name.rpartition("/")
        number = _count(text)
    steps = [step.replace("~1", "/").replace("~0", "~") for step in place.split("/")[1:]]
    return _change(part_of(schema, schema), value, steps, verb, number)


def _change(part: Part, value: Any, steps: Sequence[str], verb: str, number: int | None) -> Any:
    if part.kind is Kind.CHOICE:
        part = next((each for each in part.choices if each.kind in (Kind.LIST, Kind.GROUP)), part)
    if not steps:
        items = list(value) if isinstance(value, list) else []
        if verb == "add" and part.items is not None and len(items) < MOST_ITEMS:
            return [*items, _empty(part.items)]
        if number is None or number >= len(items):
            return items
        if verb == "remove":
            return [*items[:number], *items[number + 1 :]]
        if verb == "up" and number > 0:
            return [*items[: number - 1], items[number], items[number - 1], *items[number + 1 :]]
        return items
    first, *rest = steps
    if isinstance(value, list):
        index = _index(first, value)
        if part.items is None or index is None:
            return value
        return [
            _change(part.items, each, rest, verb, number) if at == index else each for at, each in enumerate(value)
        ]
    if first not in part.properties:
        return value
    given = dict(value) if isinstance(value, Mapping) else {}
    return {**given, first: _change(part.properties[first], given.get(first), rest, verb, number)}


def _empty(part: Part) -> Any:
    match part.kind:
        case Kind.GROUP:
            return {}
        case Kind.LIST:
            return []
        case Kind.FLAG:
            return False
        case Kind.OPTIONS | Kind.FIXED:
            return part.options[0]
        case Kind.JSON | Kind.CHOICE:
            return None
    return ""
