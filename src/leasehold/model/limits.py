"""Limits and pauses of tenants and definitions, as values."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from leasehold.errors import InvalidInput
from leasehold.model.bounds import (
    MAX_TEXT,
    problems_of_duration,
    problems_of_integer,
    problems_of_moment,
    problems_of_text,
)
from leasehold.model.duration import Duration, as_duration


class ScopeKind(StrEnum):
    """The kinds of scopes that have limits and pauses."""

    TENANT = "tenant"
    DEFINITION = "definition"


@dataclass(frozen=True, slots=True)
class Scope:
    kind: ScopeKind
    key: str

    def __post_init__(self) -> None:
        if problems := [*problems_of_text("key", self.key, most=100, least=1)]:
            raise InvalidInput(
                f"The scope can't be used: {'; '.join(problems)}.",
                fix="Nothing was changed. Pass a tenant's id or a definition's key.",
            )

    @staticmethod
    def of_row(kind: ScopeKind, key: str) -> "Scope":
        """Makes the scope of a stored row, unchecked: a table may contain a key that no new scope can have."""
        scope = object.__new__(Scope)
        object.__setattr__(scope, "kind", kind)
        object.__setattr__(scope, "key", key)
        return scope


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `count` starts in any `period`."""

    count: int
    period: timedelta

    def __init__(self, count: int, period: Duration) -> None:
        object.__setattr__(self, "count", count)
        object.__setattr__(self, "period", as_duration(period))
        _require_usable(
            "rate",
            *problems_of_integer("count", self.count, least=1),
            *problems_of_duration("period", self.period, above=True),
        )


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one scope; None means unlimited. A rate is refused because engines don't enforce it yet."""

    max_running: int | None = None
    rate: Rate | None = None

    def __post_init__(self) -> None:
        _require_usable(
            "limit",
            *(problems_of_integer("max_running", self.max_running, least=1) if self.max_running is not None else ()),
            *((f"rate={self.rate!r:.80} is not enforced yet",) if self.rate is not None else ()),
        )


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause: no job of the scope is claimed before `until`, or before it is resumed. Running jobs continue.

    `by` names who paused it, for people.
    """

    why: str
    until: datetime | None = None
    by: str | None = None

    def __post_init__(self) -> None:
        if problems := [
            *problems_of_text("why", self.why, MAX_TEXT),
            *(problems_of_moment("until", self.until) if self.until is not None else ()),
            *(problems_of_text("by", self.by, MAX_TEXT) if self.by is not None else ()),
        ]:
            raise InvalidInput(
                f"The pause can't be used: {'; '.join(problems)}.",
                fix="Nothing was changed. Correct the values; a pause without `until` lasts until it is resumed.",
            )


def _require_usable(what: str, *problems: str) -> None:
    if problems:
        raise InvalidInput(
            f"The {what} can't be used, or lets nothing run: {'; '.join(problems)}.",
            fix="Nothing was changed. Correct the values; to stop a scope, pause it.",
        )
