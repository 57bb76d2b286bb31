"""Describes why a payload does not fit its schema: by field, with the value and the nearest known name."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

import jsonschema_rs
import orjson

SHOWN_PROBLEM = 300


def describe_problem(problem: jsonschema_rs.ValidationError, schema: Mapping[str, Any]) -> Iterator[str]:
    """Yields the field and what is wrong with it; one line for each unknown field."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in problem.instance_path)
    path = "".join(["payload", *steps])
    known = list(schema.get("properties", {}))
    unexpected = getattr(problem.kind, "unexpected", None) if len(problem.instance_path) == 0 else None
    if unexpected:
        yield from (f"{path}.{name}: unknown field{_did_you_mean(name, known)}" for name in unexpected)
    else:
        yield f"{path}: {message_of(problem)}"


def message_of(problem: jsonschema_rs.ValidationError) -> str:
    """Returns the message, which quotes the value; the size of a value that is too long to be quoted whole.

    A value is never cut: a part of a secret can't be redacted later.
    """
    if len(problem.message) <= SHOWN_PROBLEM:
        return problem.message
    try:
        quoted = orjson.dumps(problem.instance, option=orjson.OPT_SORT_KEYS).decode()
    except TypeError:  # an integer of more than 64 bits
        quoted = ""
    if not quoted or quoted not in problem.message:
        return "a value that is too long to be shown does not fit"
    return problem.message.replace(quoted, f"a value of {len(quoted):,} characters")


def shorten(text: str) -> str:
    """Shortens a message, which may list many names."""
    return text if len(text) <= SHOWN_PROBLEM else text[: SHOWN_PROBLEM - 1] + "…"


def _did_you_mean(name: str, known: list[str]) -> str:
    near = get_close_matches(name, known, n=1)
    return f' (did you mean "{near[0]}"?)' if near else ""
