"""Expands events that plain SQL has emitted: lets triggers decide about them, each event by one statement.

The statement locks the event, makes its jobs and marks it as expanded. So a worker that dies leaves an event that is
expanded as a whole, or not at all, and of two workers one passes over the event that the other has locked.
"""

import logging
from collections.abc import Mapping, Sequence

from asyncpg import Record

from leasehold.engines.postgres.database import Link
from leasehold.engines.postgres.event_triggers import EventTriggers, FoundTrigger
from leasehold.engines.postgres.events import event_of, written_plan
from leasehold.errors import LeaseholdError, TransactionConflict, Unreachable
from leasehold.faults import reach
from leasehold.model.decision import DecisionKind
from leasehold.model.event import Event
from leasehold.model.event_plan import EventDecision, plan_event, plan_of_refused
from leasehold.model.job import JobId
from leasehold.model.trigger import TriggerId
from leasehold.store import Decided

log = logging.getLogger("leasehold.scheduler")

EVENTS_AT_ONCE = 50


class Expansion:
    def __init__(self, link: Link, triggers: EventTriggers) -> None:
        self._link = link
        self._triggers = triggers

    async def expand(self) -> tuple[int, Sequence[Decided]]:
        """Expands some of the events that wait. Returns how many, and what triggers decided about them."""
        waiting = await self._link.fetch("scheduler/unexpanded", limit=EVENTS_AT_ONCE)
        found = [self._triggers.read(row["triggers"]) for row in waiting]
        versions = self._triggers.definitions
        if unknown := versions.unknown(each.version for triggers in found for each in triggers):
            versions.add(await self._link.fetch("fleet/definition_versions", **unknown))
        expanded, decided = 0, list[Decided]()
        for row, triggers in zip(waiting, found, strict=True):
            event = event_of(row)
            if placed := await self._expand(event, triggers):
                expanded += 1
                definitions = {each.id: each.version[0] for each in triggers}
                decided += [_decided(event, each, definitions) for each in placed[1:]]
        return expanded, decided

    async def _expand(self, event: Event, found: Sequence[FoundTrigger]) -> list[Record]:
        """Expands one event. One that the database refuses is recorded as an error of its triggers, and ends."""
        candidates = self._triggers.candidates(found)
        reach("before_event_expanded")
        try:
            placed = await self._place(event, plan_event(event, candidates))
            reach("after_event_expanded")
            return placed
        except (Unreachable, TransactionConflict):
            raise
        except Exception as error:
            why = error.happened if isinstance(error, LeaseholdError) else f"{type(error).__name__}: {error}"
            log.error("event %s of tenant %s can't be expanded: %s", event.id, event.tenant, why)
            return await self._place(event, plan_of_refused(event, candidates, why))

    async def _place(self, event: Event, plan: Sequence[EventDecision]) -> list[Record]:
        """Returns no row if another worker has the event."""
        return await self._link.fetch(
            "events/place",
            tenant=event.tenant,
            id=event.id,
            name=None,
            data=None,
            correlation_id=None,
            created_by=None,
            emitted_at=None,
            decisions=written_plan(plan),
            wakes=True,
        )


def _decided(event: Event, row: Record, definitions: Mapping[TriggerId, str]) -> Decided:
    trigger, kind, job = TriggerId(row["trigger"]), DecisionKind(row["kind"]), row["job"]
    definition = definitions[trigger] if kind is DecisionKind.FIRED else None
    return Decided(trigger, event.tenant, kind, job and JobId(job), definition=definition)
