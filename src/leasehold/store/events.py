"""One tenant's events: emit, list, and look up the jobs that hold dedupe keys."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from leasehold.model.decision import Decision
from leasehold.model.event import Event, EventId, NewEvent
from leasehold.model.event_plan import Emitted
from leasehold.model.job import JobId
from leasehold.model.trigger import Trigger
from leasehold.store.transactions import Prepared


@dataclass(frozen=True, slots=True)
class MatchingTriggers:
    """The answer to the first statement of an emit if triggers match. Nothing is written yet."""

    at: datetime
    triggers: Sequence[Any]


@dataclass(frozen=True, slots=True)
class KeyHolder:
    """A job that holds a dedupe key, and until when."""

    job: JobId
    until: datetime


class Emission(Protocol):
    """An emit within a caller's transaction: two statements, of which the second is needed if triggers match.

    A caller in autocommit sends them one by one: the first writes nothing if triggers match, and the second writes
    everything.
    """

    @property
    def first(self) -> Prepared[Emitted | MatchingTriggers]: ...

    def knows(self, found: MatchingTriggers) -> bool:
        """Returns whether the definitions of these triggers are known; otherwise call `learn` before `second`."""

    async def learn(self, found: MatchingTriggers) -> None:
        """Reads definitions by a connection of our own."""

    def second(self, found: MatchingTriggers) -> Prepared[Emitted]:
        """Renders the templates. The statement writes the event, its jobs and the decisions."""


class TenantEvents(Protocol):
    """The events of one tenant. No verb takes a tenant id, and none can reach another tenant."""

    async def emit(self, event: NewEvent, *, wakes: bool = True) -> Emitted:
        """Writes an event, the jobs of matching triggers and their decisions: all or nothing.

        Costs one statement if no trigger matches; else two, whatever their number, and a third when definitions are
        used for the first time. A trigger that can't make its job records an error, and concerns no other one.
        """

    async def prepare(self, event: NewEvent, *, wakes: bool = True) -> Emission:
        """Does all work that needs no `Caller`, so that its transaction holds no lock meanwhile."""

    async def list(self, limit: int, before: EventId | None = None, name: str | None = None) -> Sequence[Event]:
        """Returns events before that one, the newest first; only those of this name, if one is given."""

    async def decisions(self, events: Sequence[Event], triggers: Sequence[Trigger]) -> Sequence[Decision]:
        """Returns what these triggers decided about these events, in the order of the events."""

    async def holders(self, keys: Sequence[str]) -> Mapping[str, KeyHolder]:
        """Returns the jobs that hold these dedupe keys for a window. A free key is not in the answer."""
