"""The triggers of one tenant, or of all tenants, in Postgres. One method adds the tenant to every statement."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from asyncpg import Record
from uuid_utils import uuid7

from leasehold.engines.postgres import trigger_rows
from leasehold.engines.postgres.confined import TenantDatabase
from leasehold.errors import UnknownTenant
from leasehold.model.cron import Cron
from leasehold.model.decision import Decision, decision_from_row
from leasehold.model.fire_plan import look_at
from leasehold.model.job import TenantId
from leasehold.model.limits import Pause
from leasehold.model.schedule import Cursor, cursor_at
from leasehold.model.trigger import AllTenants, NewTrigger, Origin, Trigger, TriggerId
from leasehold.model.zone import tzdata_version


class PostgresTriggers:
    def __init__(self, database: TenantDatabase, tenant: TenantId | AllTenants) -> None:
        self._database = database
        self._tenant = trigger_rows.stored_tenant(tenant)

    async def _fetch(self, name: str, /, **values: Any) -> list[Record]:
        """Sends a statement of the tenant, and adds the tenant to it: every read and change goes through here."""
        return await self._database.fetch(f"triggers/{name}", tenant=self._tenant, **values)

    async def add(self, rule: NewTrigger, created_by: str | None = None) -> Trigger:
        found = await self._add(TriggerId(str(uuid7())), rule, Origin.DATA, created_by)
        if not found:
            raise UnknownTenant(
                f"tenant {self._tenant!r} was never registered, and strict tenants are on. Nothing was saved.",
                fix=f"Correct its name, or run: leasehold tenants --add {self._tenant}",
            )
        return trigger_rows.shown(found[0])

    async def declare(self, trigger: TriggerId, rule: NewTrigger) -> bool:
        """Adds a trigger of the code. Returns whether it is new: another process may just have added it."""
        return bool(await self._add(trigger, rule, Origin.CODE, None))

    async def _add(
        self, trigger: TriggerId, rule: NewTrigger, origin: Origin, created_by: str | None
    ) -> list[Record]:
        cursor = await self._begin(rule)
        return await self._fetch(
            "add",
            trigger=trigger,
            origin=origin.value,
            created_by=created_by,
            **trigger_rows.columns(rule),
            **_place(rule, cursor),
        )

    async def get(self, trigger: TriggerId, *, deleted: bool = False) -> Trigger | None:
        found = await self._fetch("get", trigger=trigger, deleted=deleted)
        return trigger_rows.shown(found[0]) if found else None

    async def list(self, limit: int, after: TriggerId | None = None) -> Sequence[Trigger]:
        return [trigger_rows.shown(row) for row in await self._fetch("list", after=after, limit=limit)]

    async def search(self, label: str, end: str | None, limit: int) -> Sequence[Trigger]:
        return [trigger_rows.shown(row) for row in await self._fetch("search", label=label, end=end, limit=limit)]

    async def change(self, seen: Trigger, rule: NewTrigger, *, restore: bool = False) -> Trigger | None:
        begins = rule.schedule != seen.rule.schedule or (rule.enabled and not seen.rule.enabled) or restore
        cursor = await self._begin(rule) if begins else None
        found = await self._fetch(
            "change",
            trigger=seen.id,
            seen=seen.version,
            restore=restore,
            reset=begins,
            **trigger_rows.columns(rule),
            **_place(rule, cursor),
        )
        return trigger_rows.shown(found[0]) if found else None

    async def pause(self, trigger: TriggerId, pause: Pause | None) -> Trigger | None:
        while (known := await self.get(trigger)) is not None:
            stored = await self._ended(known) if pause is None else pause
            found = await self._fetch(
                "pause",
                trigger=trigger,
                seen=known.version,
                reason=stored and stored.why,
                until=stored and stored.until,
                next_fire_at=await self._look_at(known, stored),
                tzdata=tzdata_version(),
            )
            if found:
                return trigger_rows.shown(found[0])
        return None

    async def _ended(self, known: Trigger) -> Pause | None:
        """Returns the pause of a trigger as one that ends now, if it has missed fires: a scheduler tells why."""
        if known.pause is None or known.cursor is None or not known.rule.enabled or known.unreadable:
            return None
        now, look = await self._now(), await self._look_at(known, None)
        if look is None or look > now:
            return None
        until = known.pause.until
        return Pause(known.pause.why, now if until is None else min(now, until))

    async def delete(self, trigger: TriggerId) -> bool:
        return bool(await self._fetch("delete", trigger=trigger))

    async def decisions(self, trigger: TriggerId, limit: int) -> Sequence[Decision]:
        return [decision_from_row(dict(row)) for row in await self._fetch("decisions", trigger=trigger, limit=limit)]

    async def latest_decisions(self, triggers: Sequence[TriggerId]) -> Sequence[Decision]:
        return [decision_from_row(dict(row)) for row in await self._fetch("latest_decisions", triggers=triggers)]

    async def _look_at(self, known: Trigger, pause: Pause | None) -> datetime | None:
        """Returns when schedulers look at the trigger. One whose schedule can't be read here is left to them."""
        if known.cursor is None:
            return None
        if "schedule" not in known.unreadable:
            return look_at(known.rule, known.cursor, pause)
        return await self._now() if pause is None else pause.until

    async def _begin(self, rule: NewTrigger) -> Cursor | None:
        """Returns the cursor of a schedule that begins now, by the database's clock."""
        if rule.schedule is None:
            return None
        return cursor_at(rule.schedule, await self._now())

    async def _now(self) -> datetime:
        ((now,),) = await self._database.fetch("doctor/clock")
        assert isinstance(now, datetime)
        return now


def _place(rule: NewTrigger, cursor: Cursor | None) -> dict[str, Any]:
    """Returns the parameters that say where a schedule begins, if it is not paused."""
    return {
        "cursor_at": cursor and cursor.at,
        "cursor_local": cursor and cursor.local,
        "next_fire_at": cursor and look_at(rule, cursor, None),
        "tzdata": tzdata_version() if isinstance(rule.schedule, Cron) else None,
    }
