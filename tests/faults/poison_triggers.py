"""The entries of the poison run for triggers and events: rules, names, data, and rows changed by hand."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from tests.conftest import Raw
from tests.faults import poison_app
from tests.faults.poison_app import NUMBERS, OBJECTS, TEXTS
from tests.faults.poison_run import VILLAIN, Call, Run
from tests.faults.poison_values import COUNTS, MOMENTS, PAYLOADS, SPANS, WORDS

from leasehold import every
from leasehold.app.tenant import Tenant
from leasehold.errors import InvalidInput

# Stored by hand, past all checks of Python: columns of a trigger, as SQL.
ROWS = (
    "cron = 'not a cron'",
    "cron = '61 25 * * *'",
    "zone = 'Nowhere/Never'",
    'payload_template = \'{"deep": "{{event.a.b}}", "other": "{{"}\'',
    'payload_template = \'{"for": "{{schedule.never}}"}\'',
    "cursor_local = 'yesterday'",
    "cursor_at = '9999-12-31'",
    "next_fire_at = '0001-01-01'",
    "next_fire_at = '9999-12-31'",
    "tzdata = '\u202e'",
    "definition = 'strange'",
)
EVENT_ROWS = (
    "event_filter = '[]'",
    'event_filter = \'{"a": {"unheard of": 1}}\'',
    'payload_template = \'{"x": "{{event."}\'',
    "dedupe_window = '3650 days'",
)


@dataclass
class TriggerEntries:
    run: Run
    url: str
    connection: Raw

    async def triggers(self) -> None:
        """Saves triggers with hostile fields. Those that are taken fire within a second, or on an event."""
        async with self._opened() as handle:

            def saved(**fields: Any) -> Any:
                return handle.triggers.acreate("taken", **{"schedule": every("1s"), **fields})

            def named(name: str, **fields: Any) -> Call:
                return lambda value: saved(**{"label": "poison", name: value, **fields})

            verbs: list[tuple[Sequence[Any], Sequence[Call]]] = [
                (WORDS, [*(named(name) for name in ("label", "schedule", "zone", "created_by", "catch_up"))]),
                (WORDS, [lambda word: handle.triggers.acreate(word, schedule=every("1s"))]),
                (WORDS, [named("event", schedule=None), lambda word: saved(schedule=None, event="a.b", filter=word)]),
                (SPANS, [lambda span: saved(schedule=every(span)), named("spread")]),
                (SPANS, [named("dedupe_window", schedule=None, event="a.b")]),
                ([*COUNTS, *NUMBERS], [named("catch_up_cap", catch_up="all")]),
                (MOMENTS, [lambda moment: saved(schedule=every("1s", anchor=moment))]),
                (PAYLOADS, [named("payload"), named("payload", schedule=None, event="a.b")]),
                (PAYLOADS, [named("filter", schedule=None, event="a.b")]),
                (WORDS, [handle.triggers.aget, handle.triggers.adelete, handle.triggers.adecisions]),
                (COUNTS, [handle.triggers.alist]),
            ]
            await self.run.put_all("triggers", verbs)
            await self._remove_all(handle)

    async def events(self) -> None:
        """Emits hostile names and data, by Python and by SQL, for triggers that render them."""
        async with self._opened() as handle:
            await handle.triggers.acreate("taken", event="poison.*", payload={"index": "{{event.value}}"})
            await handle.triggers.acreate("taken", event="poison.*", payload={"text": "<{{event.value}}>"})

            async def emit(name: Any, data: Any) -> None:
                emitted = await handle.aemit(name, data)
                for job in emitted.jobs:
                    await self.run.accepted(VILLAIN, job)

            async def by_sql(name: Any, data: Any) -> None:
                if not (isinstance(name, str) and isinstance(data, str)):
                    raise InvalidInput("this driver takes text alone.", fix="Nothing was emitted.")
                await self.connection.fetchrow("select leasehold.emit($1, $2, $3::jsonb)", VILLAIN, name, data)

            verbs: list[tuple[Sequence[Any], Sequence[Call]]] = [
                (WORDS, [lambda word: emit(word, {}), lambda word: by_sql(word, "{}")]),
                (PAYLOADS, [lambda data: emit("poison.data", data)]),
                ([*OBJECTS, *TEXTS, *NUMBERS], [lambda value: emit("poison.value", {"value": value})]),
                ([*WORDS, "{", "[]", "7", "null", '{"value": {}}'], [lambda text: by_sql("poison.sql", text)]),
                (WORDS, [lambda word: handle.options(id=word).aemit("poison.id")]),
                (WORDS, [lambda word: handle.options(correlation_id=word).aemit("poison.id")]),
            ]
            for values, calls in verbs:
                for value, call in product(values, calls):
                    await self.run.put("events", call, value)
            await self._remove_all(handle)

    async def trigger_rows(self) -> None:
        """Changes stored triggers by hand: listings show them, and schedulers and emits go on."""
        async with self._opened() as handle:

            async def change(columns: str, **fields: Any) -> None:
                trigger = await handle.triggers.acreate("taken", **fields)
                await self.connection.execute(
                    f"update leasehold.triggers set {columns} where id = $1::uuid",  # noqa: S608
                    trigger.id,
                )
                await handle.triggers.alist()
                await handle.triggers.aget(trigger.id)
                await handle.aemit("row.changed", {"a": 1})

            for row in ROWS:
                await self.run.put("trigger rows", lambda row: change(row, schedule="* * * * *"), row)
            for row in EVENT_ROWS:
                await self.run.put("trigger rows", lambda row: change(row, event="row.*"), row)
            await self._remove_all(handle)

    async def _remove_all(self, handle: Tenant) -> None:
        for trigger in await handle.triggers.alist():
            await handle.triggers.adelete(trigger.id)

    def _opened(self) -> "_Opened":
        return _Opened(self.url)


class _Opened:
    """The poison app, open on this database: its handle of the villain."""

    def __init__(self, url: str) -> None:
        poison_app.app.configure(url=url)
        self._opening = poison_app.app.open()

    async def __aenter__(self) -> Tenant:
        return (await self._opening.__aenter__()).tenant(VILLAIN)

    async def __aexit__(self, *error: Any) -> None:
        await self._opening.__aexit__(*error)
