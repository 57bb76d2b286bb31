"""Everything that can be done with events: emit, list, and look what triggers would do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from leasehold.config import process_redactor
from leasehold.errors import UnknownDefinition
from leasehold.model.decision import Decision, Evaluation, Match, evaluate
from leasehold.model.definition import Registered
from leasehold.model.event import Event, EventId, NewEvent
from leasehold.model.event_plan import Emitted
from leasehold.model.job import TenantId
from leasehold.model.payload import decode
from leasehold.model.trigger import ALL, Trigger, TriggerKind
from leasehold.operations.catalog import Catalog
from leasehold.operations.triggers import AT_MOST
from leasehold.store import Emission, KeyHolder, Triggers, TriggerStore


@dataclass(frozen=True, slots=True)
class TriggerTest:
    """Describes what a trigger would do with an event.

    `result` is a Match with the payload, or says why there would be no job. `holder` is the job that holds the dedupe
    key: then the event would be dropped, or run after the window with `trailing`.
    """

    trigger: Trigger
    result: Evaluation
    holder: KeyHolder | None = None

    @property
    def fires(self) -> bool:
        """Whether a job would be made at once."""
        return isinstance(self.result, Match) and self.holder is None


async def emit(tenant: TenantId, event: NewEvent, catalog: Catalog) -> Emitted:
    """Writes an event, the jobs of matching triggers and their decisions: all or nothing."""
    return await catalog.store.events(tenant).emit(event)


async def prepare(tenant: TenantId, event: NewEvent, wakes: bool, catalog: Catalog) -> Emission:
    """Prepares an emit within a caller's transaction."""
    return await catalog.store.events(tenant).prepare(event, wakes=wakes)


async def list_latest(store: TriggerStore, tenant: TenantId, limit: int, name: str | None = None) -> Sequence[Event]:
    """Returns the latest events of a tenant, the newest first."""
    return await store.events(tenant).list(limit, name=name)


async def list_with_decisions(
    store: TriggerStore, tenant: TenantId, limit: int, before: EventId | None = None, name: str | None = None
) -> tuple[Sequence[Event], Sequence[Trigger], Sequence[Decision]]:
    """Returns the latest events, the newest first, the event triggers that exist, and what these decided."""
    found = await store.events(tenant).list(limit, before, name)
    triggers = [*await _event_triggers(store.triggers(tenant)), *await _event_triggers(store.triggers(ALL))]
    return found, triggers, await store.events(tenant).decisions(found, triggers)


async def try_out(tenant: TenantId, event: NewEvent, catalog: Catalog) -> Sequence[TriggerTest]:
    """Returns what each event trigger of the tenant, and of all tenants, would do. Writes nothing."""
    store = catalog.store
    tried = Event(EventId(str(uuid4())), tenant, event.name, decode(event.text), await store.now())
    triggers = [*await _event_triggers(store.triggers(tenant)), *await _event_triggers(store.triggers(ALL))]
    definitions = {each.rule.definition: await _definition(each.rule.definition, catalog) for each in triggers}
    results = [evaluate(each, tried, definitions[each.rule.definition]) for each in triggers]
    keys = [each.dedupe.key for each in results if isinstance(each, Match) and each.dedupe and each.dedupe.key]
    holders = await store.events(tenant).holders(keys)
    return [
        TriggerTest(trigger, result, _holder(result, holders))
        for trigger, result in zip(triggers, results, strict=True)
    ]


async def _event_triggers(triggers: Triggers) -> Sequence[Trigger]:
    """Returns all event triggers, read in pages."""
    found: list[Trigger] = []
    page = await triggers.list(AT_MOST)
    while page:
        found += [each for each in page if each.rule.kind is TriggerKind.EVENT]
        page = await triggers.list(AT_MOST, page[-1].id) if len(page) == AT_MOST else ()
    return found


def _holder(result: Evaluation, holders: Mapping[str, KeyHolder]) -> KeyHolder | None:
    if not isinstance(result, Match) or result.dedupe is None or result.dedupe.key is None:
        return None
    return holders.get(result.dedupe.key)


async def _definition(key: str, catalog: Catalog) -> Registered | None:
    try:
        return await catalog.read_registered(key)
    except UnknownDefinition:
        return None


def as_document(tests: Sequence[TriggerTest]) -> list[dict[str, Any]]:
    """Returns the tests as JSON documents, without secrets."""
    return [_document(each) for each in tests]


def _document(test: TriggerTest) -> dict[str, Any]:
    result, holder, redactor = test.result, test.holder, process_redactor()
    told: dict[str, Any] = {"payload": None, "reason": None, "why": ""}
    if isinstance(result, Match):
        told["payload"] = redactor.document(result.payload)
    else:
        payload = redactor.document(getattr(result, "payload", None))
        told |= {"reason": result.reason.value, "why": redactor.text(result.why), "payload": payload}
    return {
        "trigger": test.trigger.id,
        "label": test.trigger.rule.label,
        "all_tenants": test.trigger.tenant is ALL,
        "definition": test.trigger.rule.definition,
        "result": outcome(test),
        **told,
        "held_by": None if holder is None else {"job": holder.job, "until": holder.until},
    }


def outcome(test: TriggerTest) -> str:
    """Returns one word for people: fires, deduped, trailing, no match, skipped or error."""
    if isinstance(test.result, Match):
        if test.holder is None:
            return "fires"
        return "trailing" if test.trigger.rule.trailing else "deduped"
    return {"NoMatch": "no match", "Skip": "skipped", "Problem": "error"}[type(test.result).__name__]
