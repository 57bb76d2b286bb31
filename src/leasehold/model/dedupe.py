"""Dedupe keys: at most one job per key and tenant, enforced by a unique key in the enqueuing transaction.

Three modes differ in how long a key is held:

    WhileActive()        as long as a job with this key is queued, running or blocked
    Within(window)       for `window`, counted from the enqueue, even if the job ends earlier
    Always(expires)      forever, or for `expires` after the enqueue, even if the job ends earlier

Three ways to answer a second request while the key is held:

    return     the job that holds the key (the default)
    raise      DuplicateJob, which names it
    replace    replaces that job by the new request if it still waits; otherwise raises DuplicateJob
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from hashlib import sha256
from typing import Any

import orjson

from leasehold.errors import InvalidInput
from leasehold.model import payload as payloads
from leasehold.model.bounds import problems_of_duration, storable
from leasehold.model.duration import Duration, as_duration
from leasehold.model.hidden import escape_hidden, problem_of_name

MAX_KEY = 1000
# A key of `canonical_key` contains a payload, whose texts may have any character.
_CANONICAL = re.compile(r"::\{.*\}\Z", re.DOTALL)
# The tenant of jobs that were enqueued without one.
DEFAULT_TENANT = "default"


@dataclass(frozen=True, slots=True)
class WhileActive:
    pass


@dataclass(frozen=True, slots=True)
class Within:
    window: timedelta

    def __init__(self, window: Duration) -> None:
        object.__setattr__(self, "window", as_duration(window))
        if problems := list(problems_of_duration("window", self.window, above=True)):
            raise InvalidInput(
                f"The dedupe window can't be used: {problems[0]}.",
                fix="Nothing was changed. Use Always() to hold a key forever.",
            )


@dataclass(frozen=True, slots=True)
class Always:
    expires: timedelta | None = None

    def __init__(self, expires: Duration | None = None) -> None:
        object.__setattr__(self, "expires", as_duration(expires))
        if expires is not None and (problems := list(problems_of_duration("expires", self.expires, above=True))):
            raise InvalidInput(
                f"The dedupe key can't expire: {problems[0]}.", fix="Nothing was changed. None holds it forever."
            )


Mode = WhileActive | Within | Always


class OnConflict(StrEnum):
    RETURN = "return"
    RAISE = "raise"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True)
class Dedupe:
    """A dedupe key with its mode. Without `key`, the canonical key of definition, tenant and payload is used."""

    key: str | None = None
    mode: Mode = WhileActive()
    on_conflict: OnConflict = OnConflict.RETURN

    def __post_init__(self) -> None:
        if not isinstance(self.mode, WhileActive | Within | Always):
            raise InvalidInput(
                f"{self.mode!r:.80} is not a dedupe mode.",
                fix="Nothing was enqueued. Use WhileActive(), Within(window) or Always().",
            )
        if self.key is not None and not isinstance(self.key, str):
            raise InvalidInput(
                f"The dedupe key {self.key!r:.80} is not text.", fix="Nothing was enqueued. Pass a text."
            )
        if self.on_conflict not in set(OnConflict):
            raise InvalidInput(
                f"on_conflict={self.on_conflict!r:.80} is none of {', '.join(OnConflict)}.",
                fix="Nothing was enqueued. Correct the value.",
            )
        if self.key is not None and not 0 < len(self.key) <= MAX_KEY:
            raise InvalidInput(
                f"A dedupe key of {len(self.key)} characters can't be used; it has 1 to {MAX_KEY}.",
                fix="Nothing was enqueued. Shorten the key, or leave it out to use the canonical one.",
            )
        if self.key is not None and not storable(self.key):
            raise InvalidInput(
                f"The dedupe key {self.key!r:.80} has a NUL character or a lone surrogate, which can't be stored.",
                fix="Nothing was enqueued. Use printable text.",
            )
        if self.key is not None and not _CANONICAL.search(self.key) and (hidden := problem_of_name(self.key)):
            raise InvalidInput(
                f"The dedupe key {escape_hidden(self.key):.80} can't be used: {hidden}.",
                fix="Nothing was enqueued. Leave that character out.",
            )

    @property
    def held_for(self) -> timedelta | None:
        """How long the key is held after the enqueue; None: forever, or with WhileActive until the job ends."""
        match self.mode:
            case Within(window):
                return window
            case Always(expires):
                return expires
            case WhileActive():
                return None


def canonical_key(definition: str, tenant: str | None, payload: Mapping[str, Any]) -> str:
    """Returns `<definition>::<tenant or global>::<payload as JSON with sorted keys>`.

    A job without a tenant belongs to `default`, so both are written as `global`. If the key would be longer than
    MAX_KEY, `sha256:` and a hash replace the JSON. `leasehold.canonical_key` in SQL returns the same characters, so
    that jobs enqueued from Python and from SQL are duplicates of each other.
    """
    payloads.encode(payload)
    text = orjson.dumps(_as_stored(payload), option=orjson.OPT_SORT_KEYS)
    scope = f"{definition}::{'global' if tenant in (None, '', DEFAULT_TENANT) else tenant}::"
    key = scope + text.decode()
    return key if len(key) <= MAX_KEY else f"{scope}sha256:{sha256(text).hexdigest()}"


def _as_stored(value: Any) -> Any:
    """Returns the value as Postgres stores it: numbers by their digits, without an exponent or the sign of zero."""
    if isinstance(value, dict):
        return {name: _as_stored(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_stored(item) for item in value]
    if isinstance(value, float):
        text = orjson.dumps(value).decode()
        if value == 0 or "e" in text:
            return orjson.Fragment(f"{abs(Decimal(text)) if value == 0 else Decimal(text):f}")
    return value
