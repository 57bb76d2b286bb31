"""Environment variables of a command that a payload fills: `API_KEY = "{api_key}"`.

A slot is the whole value of a variable. Other values are written as they are, braces included; `{{x}}` is the text
`{x}`. A variable whose field is missing or null is left out.
"""

import re
from collections.abc import Mapping
from typing import Any

from leasehold.errors import PayloadInvalid
from leasehold.model.bounds import storable
from leasehold.model.scalar_text import text_of

MAX_VARIABLE = 128 * 1024 - 1
"""Bytes of one variable with its name: Linux takes 32 pages of 4 KB, with the NUL at its end."""

_SLOT = re.compile(r"\{([A-Za-z_]\w*)\}")
_LITERAL = re.compile(r"\{(\{[A-Za-z_]\w*\})\}")


def env_slots(env: Mapping[str, str]) -> dict[str, str]:
    """Returns the field of each variable that a payload fills."""
    found = {name: _SLOT.fullmatch(value) for name, value in env.items() if isinstance(value, str)}
    return {name: slot[1] for name, slot in found.items() if slot}


def slots_within(value: str) -> list[str]:
    """Returns the names in braces of a value that is not a slot."""
    return [] if _SLOT.fullmatch(value) else _SLOT.findall(_LITERAL.sub("", value))


def render_env(key: str, env: Mapping[str, str], payload: Mapping[str, Any]) -> dict[str, str]:
    """Returns the variables with the values of a payload. Raises PayloadInvalid, which does not show a value."""
    slots = env_slots(env)
    filled = {name: _literal(value) for name, value in env.items() if name not in slots}
    for name, slot in slots.items():
        if (value := payload.get(slot)) is None:
            continue
        text = text_of(value)
        if text is None or not storable(text) or len(name) + 1 + len(text.encode()) > MAX_VARIABLE:
            raise PayloadInvalid(
                f"{key}: {slot} can't be the environment variable {name}: that is a single value without NUL "
                f"characters, of at most {MAX_VARIABLE:,} bytes.",
                fix="Nothing was run. Change the payload.",
            )
        filled[name] = text
    return filled


def _literal(value: str) -> str:
    braced = _LITERAL.fullmatch(value)
    return braced[1] if braced else value
