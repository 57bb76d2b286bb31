"""Payload templates: JSON whose texts may have placeholders, like `{{event.folder.path}}`.

    {{event.a.b}}         a value of the event's data; {{event}} is all of it. `event.` is always the data, so
                          {{event.name}} is the data's own field `name`
    {{event_name}}        the name of the event; {{event_id}} its id, {{event_at}} when it was emitted
    {{schedule.fire_at}}  the fire time of a schedule; {{schedule.previous}} the one before by the calendar, even if
                          it was missed or is before the schedule was saved
    {{tenant}}            the tenant of the job

A text that is one placeholder alone becomes the value, with its JSON type. In other texts values are joined as text:
text as it is, everything else as JSON. Times are text in UTC, like 2027-03-14T07:00:00Z. `{{{{` is a literal `{{`,
and `}}` outside a placeholder is text. Keys are not templates. A path is looked up, never evaluated, and a value that
contains `{{…}}` stays as it is. A path that leads nowhere is a TemplateProblem: no job is made.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any

import jsonschema_rs

from leasehold.errors import InvalidInput, PayloadInvalid
from leasehold.model import payload as payloads
from leasehold.model.bounds import describe
from leasehold.model.definition import Definition
from leasehold.model.event import Event
from leasehold.model.path import Missing, Step, look_up, parse_path

MAX_PLACEHOLDERS = 1000
EVENT_ROOTS = ("event", "event_name", "event_id", "event_at", "tenant")
SCHEDULE_ROOTS = ("schedule", "tenant")
_SCHEDULE_VALUES = ("fire_at", "previous")
_TIMES = (("schedule", "fire_at"), ("schedule", "previous"))
# Roots, and paths of `schedule`, whose value is text whenever a template is rendered.
_ALWAYS_TEXT = frozenset({("event_name",), ("event_id",), ("event_at",), ("tenant",), *_TIMES})
_TOKEN = re.compile(r"\{\{\{\{|\{\{(?P<path>[^{}]*)\}\}|\{\{")
# Errors of these keywords are certain from the keys and the types alone, whatever the placeholders become.
_BY_SHAPE = frozenset(
    {"required", "additionalProperties", "type", "minProperties", "maxProperties", "minItems", "maxItems"}
)
# A schema below these applies or not, depending on values that may be placeholders.
_CONDITIONAL = frozenset(
    {"if", "then", "else", "not", "dependentSchemas", "unevaluatedProperties", "unevaluatedItems"}
)

Path = tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class TemplateProblem:
    """Why a template can't be rendered for this event or fire."""

    why: str


@dataclass(frozen=True, slots=True)
class _Placeholder:
    text: str
    steps: Path


@dataclass(frozen=True, slots=True)
class _Text:
    """A text with placeholders. `alone`: it is one placeholder and nothing else."""

    parts: tuple[str | _Placeholder, ...]

    @property
    def alone(self) -> _Placeholder | None:
        first = self.parts[0]
        return first if len(self.parts) == 1 and isinstance(first, _Placeholder) else None


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed template. `source` is the JSON that it was made from."""

    source: Mapping[str, Any] = field(hash=False)
    _tree: Mapping[str, Any] = field(repr=False, compare=False)

    @property
    def placeholders(self) -> tuple[str, ...]:
        """The placeholders, in the order of the template."""
        return tuple(placeholder.text for placeholder in _placeholders(self._tree))

    def render(self, values: Mapping[str, Any]) -> dict[str, Any] | TemplateProblem:
        """Returns the payload for these values of the roots, or why there is none."""
        try:
            rendered: dict[str, Any] = _Rendering(values).of(self._tree)
        except _Unrenderable as error:
            return TemplateProblem(str(error))
        return rendered

    def check_fits(self, definition: Definition) -> None:
        """Raises InvalidInput if no event or fire can give a payload that the definition's schema accepts.

        A payload with stand-ins for the placeholders is validated, and only errors that don't depend on a stand-in
        count: required fields that are missing, unknown fields, constants of a wrong value, text in place of a
        number. A template that passes may still give an invalid payload for some event.
        """
        unknown: dict[Path, bool] = {}
        sample: dict[str, Any] = _stand_in(self._tree, (), unknown)
        try:
            definition.check(sample, counts=lambda error: _is_certain(error, unknown))
        except PayloadInvalid as error:
            raise InvalidInput(
                f"The template can never give a valid payload: {error.happened}",
                fix=f"Nothing was changed. Its schema: leasehold definitions show {definition.key}",
            ) from error


def parse_template(source: Any, roots: tuple[str, ...]) -> Template:
    """Returns the template; raises InvalidInput for a placeholder that can't be read or has an unknown root."""
    if not isinstance(source, Mapping):
        raise _refused(f"{describe(source)} is not a mapping")
    try:
        plain: dict[str, Any] = payloads.decode(payloads.encode(dict(source)))
    except PayloadInvalid as error:
        raise _refused(error.happened.rstrip(".")) from error
    tree = _parse(plain, roots, "payload")
    if (count := sum(1 for _ in _placeholders(tree))) > MAX_PLACEHOLDERS:
        raise _refused(f"it has {count:,} placeholders, at most {MAX_PLACEHOLDERS:,} are replaced")
    return Template(plain, tree)


def values_of_event(event: Event) -> dict[str, Any]:
    """Returns the values of the roots for an event."""
    return {
        "event": event.data,
        "event_name": event.name,
        "event_id": event.id,
        "event_at": moment_text(event.at),
        "tenant": event.tenant,
    }


def values_of_fire(fire_at: datetime, previous: datetime, tenant: str) -> dict[str, Any]:
    """Returns the values of the roots for a fire of a schedule."""
    times = {"fire_at": moment_text(fire_at), "previous": moment_text(previous)}
    return {"schedule": times, "tenant": tenant}


def moment_text(moment: datetime) -> str:
    """Returns a moment as ISO text in UTC, like 2027-03-14T07:00:00Z."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _parse(value: Any, roots: tuple[str, ...], path: str) -> Any:
    if isinstance(value, str):
        return _parse_text(value, roots, path) if "{{" in value else value
    if isinstance(value, list):
        return [_parse(item, roots, f"{path}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, dict):
        if bad := next((key for key in value if "{{" in key), None):
            raise _refused(f"{path}: the key {describe(bad)} has a placeholder, and keys are not templates")
        return {key: _parse(item, roots, f"{path}.{key}") for key, item in value.items()}
    return value


def _parse_text(text: str, roots: tuple[str, ...], path: str) -> _Text | str:
    parts: list[str | _Placeholder] = []
    end = 0
    for token in _TOKEN.finditer(text):
        literal = text[end : token.start()]
        end = token.end()
        if token[0] == "{{{{":
            parts.append(literal + "{{")
            continue
        if token["path"] is None:
            raise _refused(f"{path:.200}: {{{{ without a placeholder in {describe(text)}; {{{{{{{{ is a literal one")
        parts += [literal] if literal else []
        parts.append(_placeholder(token["path"].strip(), roots, path))
    parts += [text[end:]] if end < len(text) else []
    if all(isinstance(part, str) for part in parts):
        return "".join(str(part) for part in parts)
    return _Text(tuple(parts))


def _placeholder(text: str, roots: tuple[str, ...], path: str) -> _Placeholder:
    try:
        steps = parse_path(text)
    except ValueError as error:
        raise _refused(f"{path:.200}: the placeholder {{{{{text:.80}}}}} can't be read: {error}") from error
    root = steps[0]
    if root not in roots:
        near = get_close_matches(str(root), roots, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise _refused(f"{path:.200}: {{{{{text:.80}}}}} is not one of {', '.join(roots)}{hint}")
    if root == "schedule" and (len(steps) != 2 or steps[1] not in _SCHEDULE_VALUES):
        raise _refused(f"{path:.200}: {{{{{text:.80}}}}} is neither schedule.fire_at nor schedule.previous")
    if root not in ("event", "schedule") and len(steps) > 1:
        raise _refused(f"{path:.200}: {{{{{text:.80}}}}} leads nowhere: {root} is text")
    return _Placeholder(text, steps)


def _placeholders(value: Any) -> Iterator[_Placeholder]:
    if isinstance(value, _Text):
        yield from (part for part in value.parts if isinstance(part, _Placeholder))
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _placeholders(item)


class _Unrenderable(Exception):
    pass


class _Rendering:
    """One rendering. A value may be used often, so the size of the result is bounded while it grows."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        self._sizes: dict[str, int] = {}
        self._left = payloads.MAX_BYTES

    def of(self, value: Any) -> Any:
        if isinstance(value, _Text):
            alone = value.alone
            return self._look_up(alone) if alone else "".join(map(self._as_text, value.parts))
        if isinstance(value, dict):
            return {key: self.of(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.of(item) for item in value]
        return value

    def _as_text(self, part: str | _Placeholder) -> str:
        if isinstance(part, str):
            return part
        found = self._look_up(part)
        return found if isinstance(found, str) else payloads.encode_plain(found)

    def _look_up(self, placeholder: _Placeholder) -> Any:
        root = str(placeholder.steps[0])
        found = look_up(self._values.get(root), placeholder.steps[1:], root)
        if isinstance(found, Missing):
            raise _Unrenderable(f"{{{{{placeholder.text}}}}}: {found.why}{_metadata_hint(placeholder)}")
        if placeholder.text not in self._sizes:
            self._sizes[placeholder.text] = len(payloads.encode_plain(found))
        self._left -= self._sizes[placeholder.text]
        if self._left < 0:
            raise _Unrenderable(f"the payload would have more than {payloads.MAX_BYTES:,} bytes of JSON")
        return found


def _metadata_hint(placeholder: _Placeholder) -> str:
    match placeholder.steps:
        case ("event", ("name" | "id" | "at") as name):
            return f" in the data; the event's own {name} is {{{{event_{name}}}}}"
    return ""


def _stand_in(value: Any, path: Path, unknown: dict[Path, bool]) -> Any:
    """Returns the value with stand-ins, and collects their paths: True if the text is certain to be text."""
    if isinstance(value, _Text):
        alone = value.alone
        unknown[path] = is_text = alone is None or alone.steps in _ALWAYS_TEXT
        return "" if is_text else None
    if isinstance(value, dict):
        return {key: _stand_in(item, (*path, key), unknown) for key, item in value.items()}
    if isinstance(value, list):
        return [_stand_in(item, (*path, index), unknown) for index, item in enumerate(value)]
    return value


def _is_certain(error: jsonschema_rs.ValidationError, unknown: Mapping[Path, bool]) -> bool:
    if not unknown:
        return True
    if not _CONDITIONAL.isdisjoint(map(str, error.evaluation_path)):
        return False
    path = tuple(error.instance_path)
    if path in unknown:
        return unknown[path] and error.kind.name == "type"
    below = any(known[: len(path)] == path for known in unknown)
    return not below or error.kind.name in _BY_SHAPE


def _refused(why: str) -> InvalidInput:
    return InvalidInput(
        f"The payload template can't be used: {why}.",
        fix='Nothing was changed. Write it like {"path": "{{event.folder_path}}"}.',
    )
