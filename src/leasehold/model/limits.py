"""What may hold a tenant or a definition back: limits and a pause, as values."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from leasehold.errors import InvalidInput
from leasehold.model.payload import storable


class ScopeKind(StrEnum):
    TENANT = "tenant"
    DEFINITION = "definition"


@dataclass(frozen=True, slots=True)
class Scope:
    kind: ScopeKind
    key: str


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `count` starts in any `period`."""

    count: int
    period: timedelta

    def __post_init__(self) -> None:
        if self.count < 1 or self.period <= timedelta():
            raise InvalidInput(
                f"A rate of {self.count} per {self.period} lets nothing run.",
                fix="Nothing was changed. To stop a scope, pause it.",
            )


@dataclass(frozen=True, slots=True)
class Limits:
    """None means unlimited."""

    max_running: int | None = None
    rate: Rate | None = None

    def __post_init__(self) -> None:
        if self.max_running is not None and self.max_running < 1:
            raise InvalidInput(
                f"max_running={self.max_running} lets nothing run.",
                fix="Nothing was changed. To stop a scope, pause it.",
            )


@dataclass(frozen=True, slots=True)
class Pause:
    """Nothing of the scope is claimed until `until`, or until someone resumes it; what runs goes on."""

    why: str
    until: datetime | None = None

    def __post_init__(self) -> None:
        if not storable(self.why):
            raise InvalidInput(
                "The reason of a pause has a NUL character or a lone surrogate, which can't be stored.",
                fix="Nothing was changed. Say it in plain text.",
            )
        if self.until is not None and self.until.tzinfo is None:
            raise InvalidInput(
                f"until={self.until.isoformat()} has no timezone, so it names no moment.",
                fix="Nothing was changed. Pass an aware datetime, e.g. datetime.now(UTC).",
            )
