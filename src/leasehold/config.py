"""Settings: one frozen object, from the environment unless said otherwise."""

import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

from leasehold.errors import InvalidInput

VERSION = version("leasehold")


@dataclass(frozen=True, slots=True)
class Settings:
    """Each can be set by an environment variable of its name: LEASEHOLD_URL, LEASEHOLD_SCHEMA and so on.

    url       the database; without one the embedded Postgres is used
    schema    the schema in it
    home      where the embedded Postgres keeps its data
    notify    whether workers listen for wakes; off, they poll
    fallback  how often a worker looks without being woken, as in 30s or 2m; default 60s with wakes, 2s without
    """

    url: str | None = None
    schema: str = "leasehold"
    home: Path = Path(".leasehold")
    notify: bool = True
    fallback: timedelta | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Settings":
        given = {field.name: environment.get(f"LEASEHOLD_{field.name.upper()}") for field in fields(cls)}
        return cls(**{name: _read(name, text) for name, text in given.items() if text})


def _read(name: str, text: str) -> Any:
    try:
        return _READERS[name](text)
    except InvalidInput as error:
        raise InvalidInput(
            f"LEASEHOLD_{name.upper()}: {error.happened} Nothing was opened.", fix="Correct it, or unset it."
        ) from error


def read_duration(text: str) -> timedelta:
    """`30s`, `5m`, `2h`, `1d`, or a bare number of seconds."""
    match = _DURATION.fullmatch(text.strip())
    with suppress(OverflowError):
        if match:
            return timedelta(seconds=float(match[1]) * _SECONDS[match[2]])
    raise InvalidInput(
        f"{text[:60]!r} is not a duration.", fix="Write a number with s, m, h or d, as in 30s. Nothing was changed."
    )


def read_switch(text: str) -> bool:
    if text.strip().lower() not in _SWITCH:
        raise InvalidInput(f"{text!r} is neither on nor off.", fix="Write on or off. Nothing was changed.")
    return _SWITCH[text.strip().lower()]


_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|)")
_SECONDS = {"ms": 0.001, "": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_SWITCH = {"on": True, "true": True, "1": True, "yes": True, "off": False, "false": False, "0": False, "no": False}
_READERS: Mapping[str, Callable[[str], Any]] = {
    "url": str,
    "schema": str,
    "home": Path,
    "notify": read_switch,
    "fallback": read_duration,
}
