"""The triggers and events of a server."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from leasehold.control import records
from leasehold.control.protocol import Document
from leasehold.control.requests import MOST_ON_A_PAGE, Topic, of_tenant
from leasehold.errors import InvalidInput
from leasehold.model.decision import Decision
from leasehold.model.event import Event, event_id
from leasehold.model.event_plan import Emitted
from leasehold.model.job import TenantId
from leasehold.model.preview import Preview
from leasehold.model.schedule import Schedule, schedule_as_json
from leasehold.model.trigger import ALL, NewTrigger, Trigger, TriggerId
from leasehold.model.trigger_document import rule_as_document
from leasehold.operations.triggers import Owner

_NAMES = {
    "kind": "trigger_type",
    "event": "event_name",
    "cron": "cron_expr",
    "zone": "timezone",
    "definition": "definition_key",
    "payload": "payload_template",
    "enabled": "is_enabled",
    "dedupe_window": "dedupe_window_seconds",
}


class ServerTriggers(Topic):
    async def list(self, owner: Owner | None, limit: int) -> Sequence[Trigger]:
        found, _ = await self.requests.pages("/jobs/triggers", "triggers", _params(owner), None, limit)
        return [self._trigger(each) for each in found]

    async def find(self, text: str, owner: Owner | None) -> Trigger:
        return self._trigger(await self.requests.get("/jobs/triggers/find", {"name": text, **_params(owner)}))

    async def save(self, owner: Owner, rule: NewTrigger, created_by: str | None) -> Trigger:
        refuse_author(created_by)
        rule.check_tenant(owner)
        return self._trigger(
            await self.requests.post("/jobs/triggers", _rename(rule_as_document(rule)), _params(owner))
        )

    async def change(self, trigger: Trigger, changes: Mapping[str, Any]) -> Trigger:
        sent = {name: _plain(value) for name, value in changes.items() if name != "schedule"}
        if (schedule := changes.get("schedule")) is not None:
            sent |= schedule_as_json(schedule)
        path, params = _path(trigger), _params(trigger.tenant)
        return self._trigger(await self.requests.post(path, _rename(sent), params, method="PATCH"))

    async def delete(self, trigger: Trigger, *, force: bool) -> None:
        params = {**_params(trigger.tenant), **({"force": "true"} if force else {})}
        await self.requests.post(_path(trigger), None, params, method="DELETE")

    async def restore(self, owner: Owner, trigger: TriggerId) -> Trigger:
        path = f"/jobs/triggers/{trigger}/restore"
        return self._trigger(await self.requests.post(path, None, _params(owner)))

    async def pause(self, trigger: Trigger, why: str, end: timedelta | datetime | None) -> Trigger:
        sent: dict[str, Any] = {"why": why}
        if isinstance(end, timedelta):
            sent["seconds"] = end.total_seconds()
        elif end is not None:
            sent["until"] = end.astimezone(UTC).isoformat()
        path = f"{_path(trigger)}/pause"
        return self._trigger(await self.requests.post(path, sent, _params(trigger.tenant)))

    async def resume(self, trigger: Trigger) -> Trigger:
        path = f"{_path(trigger)}/resume"
        return self._trigger(await self.requests.post(path, None, _params(trigger.tenant)))

    async def preview(self, trigger: Trigger, count: int, viewer_zone: str) -> Preview:
        schedule = trigger.rule.schedule
        params = {"count": str(count), "viewer_timezone": viewer_zone, **_params(trigger.tenant)}
        found = await self.requests.get(f"{_path(trigger)}/preview", params)
        return records.preview(found, "UTC" if schedule is None else schedule.zone, viewer_zone)

    async def preview_schedule(self, schedule: Schedule, count: int, viewer_zone: str) -> Preview:
        sent = {**_rename(schedule_as_json(schedule)), "count": count, "viewer_timezone": viewer_zone}
        return records.preview(await self.requests.post("/jobs/triggers/preview", sent), schedule.zone, viewer_zone)

    async def decisions(self, trigger: Trigger, limit: int) -> Sequence[Decision]:
        params = {"limit": str(min(limit, MOST_ON_A_PAGE)), **_params(trigger.tenant)}
        found = await self.requests.get(f"{_path(trigger)}/decisions", params)
        return [records.decision(each) for each in found["decisions"]]

    def _trigger(self, document: Document) -> Trigger:
        self.requests.note_hidden(document)
        return records.trigger(document)


class ServerEvents(Topic):
    async def emit(self, tenant: TenantId, name: str, data: Mapping[str, Any], options: Mapping[str, Any]) -> Emitted:
        refuse_author(options.get("created_by"))
        sent = {"name": name, "data": data}
        if options.get("correlation_id") is not None:
            sent["correlation_id"] = options["correlation_id"]
        own = options.get("id")
        headers = {} if own is None else {"Idempotency-Key": event_id(own)}
        return records.emitted(await self.requests.post("/events", sent, of_tenant(tenant), headers))

    async def list(self, tenant: TenantId, limit: int, name: str | None) -> Sequence[Event]:
        params = {**of_tenant(tenant), **({} if name is None else {"name": name})}
        found, _ = await self.requests.pages("/events", "events", params, None, limit)
        for each in found:
            self.requests.note_hidden(each)
        return [records.event(each) for each in found]

    async def test(self, tenant: TenantId, name: str, data: Mapping[str, Any]) -> Sequence[Document]:
        found = await self.requests.post("/events/test", {"name": name, "data": data}, of_tenant(tenant))
        return [
            {"definition" if key == "definition_key" else key: each[key] for key in each}
            for each in found["triggers"]
        ]


def refuse_author(created_by: str | None) -> None:
    if created_by is not None:
        raise InvalidInput(
            "over the API the author is the name of the token, and no other. Nothing was changed.",
            fix="Leave --created-by out.",
        )


def _params(owner: Owner | None) -> dict[str, str]:
    return {"all_tenants": "true"} if owner is ALL else of_tenant(owner)


def _path(trigger: Trigger) -> str:
    return f"/jobs/triggers/{trigger.id}"


def _rename(document: Mapping[str, Any]) -> dict[str, Any]:
    return {_NAMES.get(name, name): value for name, value in document.items()}


def _plain(value: Any) -> Any:
    return value.total_seconds() if isinstance(value, timedelta) else value
