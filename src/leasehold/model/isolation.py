"""Handlers in a process of their own: their options."""

import re
from dataclasses import dataclass
from typing import Any

from leasehold.errors import InvalidInput

LEAST_MEMORY = 2**20
_UNITS = {"kb": 2**10, "mb": 2**20, "gb": 2**30}
_SIZE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)\s*([kmg]b)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Isolation:
    """How a handler is kept apart from its worker. It belongs to the worker's code, and is not stored.

    `memory` is how many bytes a handler may allocate beyond those of its process when it has imported the app.
    """

    memory: int | None = None


def read_isolation(isolation: Any, memory: Any) -> Isolation | None:
    """Reads `isolation="process", memory="512MB"`. Raises InvalidInput."""
    if isolation is None and memory is None:
        return None
    if isolation is None:
        raise InvalidInput(
            f"memory={memory!r:.60} can't limit a handler that shares the process of its worker. "
            "Nothing was registered.",
            fix='Write isolation="process" with it.',
        )
    if isolation != "process":
        raise InvalidInput(
            f"isolation={isolation!r:.60} is unknown. Nothing was registered.",
            fix='Write isolation="process", or leave it out.',
        )
    return Isolation(None if memory is None else read_size(memory))


def read_size(value: Any) -> int:
    """Returns the bytes of "512MB", or of a number of bytes; a MB has 2**20 of them. Raises InvalidInput."""
    size: int | None = None
    if isinstance(value, str) and (match := _SIZE.fullmatch(value.strip())):
        size = int(float(match[1]) * _UNITS[match[2].lower()])
    elif isinstance(value, int) and not isinstance(value, bool):
        size = value
    if size is None or size < LEAST_MEMORY:
        raise InvalidInput(
            f"{value!r:.60} is not a size of at least 1 MB. Nothing was registered.",
            fix='Write "512MB" or "2GB", or pass a number of bytes.',
        )
    return size
