"""The events of one tenant in Postgres: an emit by one or two statements, on our connections or on a caller's."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import orjson
from asyncpg import Record
from uuid_utils import uuid7

from leasehold.config import process_redactor
from leasehold.engines.postgres.caller_statement import CallerStatement, Row
from leasehold.engines.postgres.confined import TenantDatabase
from leasehold.engines.postgres.definition_versions import DefinitionVersions
from leasehold.engines.postgres.enqueue import PostgresEnqueue
from leasehold.engines.postgres.enqueue_call import fields_of
from leasehold.engines.postgres.event_triggers import EventTriggers
from leasehold.errors import IdReused, TenantDeleted
from leasehold.faults import reach
from leasehold.model import payload as payloads
from leasehold.model.decision import Decision, decision_from_row
from leasehold.model.event import Event, EventId, NewEvent
from leasehold.model.event_plan import Emitted, EventDecision, emitted, plan_event
from leasehold.model.job import JobId, TenantId
from leasehold.model.trigger import Trigger
from leasehold.store import KeyHolder, MatchingTriggers

if TYPE_CHECKING:
    from leasehold.engines.postgres.database import Connection


@dataclass(frozen=True, slots=True)
class WriteCall(CallerStatement):
    """The statement write.sql: writes the event, or finds triggers."""

    tenant: TenantId
    id: EventId
    event: NewEvent
    triggers: EventTriggers

    @property
    def arguments(self) -> Sequence[str | None]:
        event = self.event
        return self.tenant, self.id, event.name, event.text, event.correlation_id, event.created_by

    def read_answer(self, rows: Sequence[Row]) -> Emitted | MatchingTriggers:
        (row,) = rows
        if row[1] is None:
            created, expanded = _read_answer(row[2], self.id)
            return Emitted(self.id, self.tenant, self.event.name, expanded, created)
        return MatchingTriggers(datetime.fromisoformat(row[0]), self.triggers.read(row[1]))


@dataclass(frozen=True, slots=True)
class PlaceCall(CallerStatement):
    """The statement place.sql: writes the event, its jobs and the decisions."""

    event: Event
    plan: Sequence[EventDecision]
    wakes: bool = True

    @property
    def arguments(self) -> Sequence[str | bool | None]:
        event = self.event
        return (
            event.tenant,
            event.id,
            event.name,
            payloads.encode_plain(event.data),
            event.correlation_id,
            event.created_by,
            event.at.isoformat(),
            written_plan(self.plan),
            self.wakes,
        )

    def read_answer(self, rows: Sequence[Row]) -> Emitted:
        created, expanded = _read_answer(rows[0][1], self.event.id)
        decisions = [_decision(self.event, row) for row in rows[1:]]
        return emitted(self.event, self.plan, decisions, created=created, expanded=expanded)


@dataclass(frozen=True, slots=True)
class PostgresEmission:
    database: TenantDatabase
    first: WriteCall
    wakes: bool

    def knows(self, found: MatchingTriggers) -> bool:
        return not self._unknown(found)

    async def learn(self, found: MatchingTriggers) -> None:
        if unknown := self._unknown(found):
            self._definitions.add(await self.database.fetch("fleet/definition_versions", **unknown))

    async def learn_on(self, connection: "Connection", found: MatchingTriggers) -> None:
        if unknown := self._unknown(found):
            rows = await self.database.fetch_on(connection, "fleet/definition_versions", **unknown)
            self._definitions.add(rows)

    def second(self, found: MatchingTriggers) -> PlaceCall:
        new, tenant = self.first.event, self.first.tenant
        event = Event(
            self.first.id,
            tenant,
            new.name,
            payloads.decode(new.text),
            found.at,
            new.correlation_id,
            new.created_by,
            trace_context=new.trace_context,
        )
        plan = plan_event(event, self.first.triggers.candidates(found.triggers))
        return PlaceCall(self.database.statement("events/place"), self.database.schema, event, plan, self.wakes)

    def _unknown(self, found: MatchingTriggers) -> dict[str, Any]:
        return self._definitions.unknown(each.version for each in found.triggers)

    @property
    def _definitions(self) -> DefinitionVersions:
        return self.first.triggers.definitions


class PostgresEvents:
    def __init__(
        self, database: TenantDatabase, tenant: TenantId, enqueue: PostgresEnqueue, triggers: EventTriggers
    ) -> None:
        self._database = database
        self._tenant = tenant
        self._enqueue = enqueue
        self._triggers = triggers

    async def _fetch(self, name: str, /, **values: Any) -> list[Record]:
        """Sends a statement of the tenant, and adds the tenant to it: every read goes through here."""
        return await self._database.fetch(f"events/{name}", tenant=self._tenant, **values)

    async def emit(self, event: NewEvent, *, wakes: bool = True) -> Emitted:
        emission = await self.prepare(event, wakes=wakes)
        with self._database.translate_errors():
            async with self._database.connection() as connection:
                found = emission.first.read_answer(await self._send(connection, "events/write", emission.first))
                if isinstance(found, Emitted):
                    return found
                await emission.learn_on(connection, found)
                second = emission.second(found)
                reach("before_event_placed")
                placed = await self._send(connection, "events/place", second)
                reach("after_event_placed")
                return second.read_answer(placed)

    async def prepare(self, event: NewEvent, *, wakes: bool = True) -> PostgresEmission:
        await self._enqueue.admit()
        statement, schema = self._database.statement("events/write"), self._database.schema
        write = WriteCall(statement, schema, self._tenant, event.id or EventId(str(uuid7())), event, self._triggers)
        return PostgresEmission(self._database, write, wakes)

    async def _send(self, connection: "Connection", name: str, call: CallerStatement) -> list[Record]:
        return await self._database.fetch_on(connection, name, **call.named)

    async def list(self, limit: int, before: EventId | None = None, name: str | None = None) -> Sequence[Event]:
        return [event_of(row) for row in await self._fetch("list", limit=limit, before=before, name=name)]

    async def decisions(self, events: Sequence[Event], triggers: Sequence[Trigger]) -> Sequence[Decision]:
        if not events or not triggers:
            return []
        names = {"events": [each.id for each in events], "triggers": [each.id for each in triggers]}
        return [decision_from_row(dict(row)) for row in await self._fetch("decisions", **names)]

    async def holders(self, keys: Sequence[str]) -> Mapping[str, KeyHolder]:
        if not keys:
            return {}
        found = await self._fetch("holders", keys=keys)
        return {row["key"]: KeyHolder(JobId(str(row["job_id"])), row["expires_at"]) for row in found}


def event_of(row: Record) -> Event:
    return Event(
        EventId(str(row["id"])),
        TenantId(row["tenant"]),
        row["name"],
        payloads.decode(row["data"]),
        row["at"],
        row["correlation_id"],
        row["created_by"],
        row["expanded_at"],
    )


def written_plan(plan: Sequence[EventDecision]) -> str:
    """Returns the parameter `decisions` of place.sql."""
    return orjson.dumps(
        [
            {
                "trigger": each.decision.trigger,
                "kind": each.decision.kind.value,
                "reason": each.decision.reason and each.decision.reason.value,
                "why": each.decision.recorded_why(process_redactor().text) or None,
                "trailing": each.trailing,
                "job": each.job and dict(fields_of(each.job, payloads.encode(dict(each.job.payload)))),
            }
            for each in plan
        ]
    ).decode()


def _read_answer(answer: str, event: EventId) -> tuple[bool, bool]:
    """Returns whether the event is new, and whether it is expanded. Raises IdReused if another event has its id."""
    if answer == "deleted":
        raise TenantDeleted(
            "the tenant is being deleted. Nothing was emitted.",
            fix="Stop its producers. Once it is deleted, its name can be used again.",
        )
    if answer == "refused":
        raise IdReused(
            f"the id {event} was used before, for another event. Nothing was emitted.",
            fix="Bring a new id for a new event; repeat an old one unchanged.",
        )
    return answer == "created", answer != "waiting"


def _decision(event: Event, row: Row) -> Decision:
    trigger, kind, job, reason, why = (row[place] for place in range(5))
    stored = {"trigger": trigger, "kind": kind, "job": job, "reason": reason, "why": why or "", "count": 1}
    return decision_from_row({**stored, "tenant": event.tenant, "event": event.id, "fire_at": None, "at": event.at})
