"""Paths into JSON data, for templates and filters: `folder.path`, `items[0].id`, `tags["odd key"]`.

A step is a key of an object or an index of a list, counted from 0. Paths are looked up, never evaluated: an attribute
of a Python object can't be reached.
"""

import re
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from typing import Any

import orjson

MAX_STEPS = 32
MAX_PATH = 500
_SEARCHED_KEYS = 200
_STEP = re.compile(r"""(?P<key>[^\s.\[\]{}"']+)|\[(?P<index>[0-9]{1,6})\]|\[(?P<quoted>"(?:[^"\\]|\\.)*")\]""")

Step = str | int


@dataclass(frozen=True, slots=True)
class Missing:
    """Why a path leads nowhere in some data."""

    why: str


def parse_path(text: str) -> tuple[Step, ...]:
    """Returns the steps of a path; raises ValueError with the reason for a text that is not a path."""
    if not 0 < len(text) <= MAX_PATH:
        raise ValueError(f"a path has 1 to {MAX_PATH} characters, not {len(text)}")
    steps: list[Step] = []
    position = 0
    while position < len(text):
        dotted = text[position] == "."
        found = _STEP.match(text, position + dotted)
        # A key follows a dot, except the first; an index or a quoted key follows none.
        if found is None or (found["key"] is not None) != (dotted or position == 0) or (dotted and position == 0):
            raise ValueError(f"{text!r:.80} can't be read as a path at character {position + 1}")
        steps.append(_step(found, text))
        position = found.end()
    if len(steps) > MAX_STEPS:
        raise ValueError(f"{text!r:.80} has {len(steps)} steps, at most {MAX_STEPS} are followed")
    return tuple(steps)


def look_up(data: Any, steps: tuple[Step, ...], root: str = "") -> Any:
    """Returns the value at the path, or Missing with the first step that leads nowhere."""
    path = root
    for step in steps:
        if isinstance(step, int):
            if not isinstance(data, list):
                return Missing(f"{path or 'the data'} is {kind_of(data)}, not a list")
            if step >= len(data):
                return Missing(f"{path or 'the data'} has {len(data)} items, none at [{step}]")
            data, path = data[step], f"{path}[{step}]"
            continue
        if not isinstance(data, dict):
            return Missing(f"{path or 'the data'} is {kind_of(data)}, not an object")
        if step not in data:
            return Missing(f"{_joined(path, step)} is missing{_hint(step, data)}")
        data, path = data[step], _joined(path, step)
    return data


def kind_of(value: Any) -> str:
    """Names the JSON type of a value."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list() | tuple():
            return "a list"
        case _:
            return "an object"


def _step(found: re.Match[str], text: str) -> Step:
    if found["index"] is not None:
        return int(found["index"])
    if found["key"] is not None:
        return found["key"]
    try:
        return str(orjson.loads(found["quoted"]))
    except ValueError as error:
        raise ValueError(f"{text!r:.80} has a key that is not JSON text: {found['quoted']:.80}") from error


def _joined(path: str, key: str) -> str:
    shown = key if _STEP.fullmatch(key) and "[" not in key else f"[{orjson.dumps(key).decode()}]"
    return f"{path}{'' if not path or shown.startswith('[') else '.'}{shown}"[:MAX_PATH]


def _hint(key: str, data: dict[str, Any]) -> str:
    near = get_close_matches(key[:100], list(islice(data, _SEARCHED_KEYS)), n=1, cutoff=0.75)
    return f'; did you mean "{near[0]:.100}"?' if near else ""
