"""Triggers and events over HTTP."""

from typing import Any

import pytest
from tests.api.conftest import ACME, Client

from leasehold.model.access import Permission, Role
from leasehold.operations import tokens

SCHEDULE: dict[str, Any] = {
    "label": "Nightly",
    "trigger_type": "schedule",
    "cron_expr": "0 2 * * *",
    "timezone": "America/New_York",
    "definition_key": "report",
    "payload_template": {"name": "june"},
}
EVENT: dict[str, Any] = {
    "label": "Resync on folder change",
    "trigger_type": "event",
    "event_name": "provider.folder.updated",
    "definition_key": "report",
    "payload_template": {"name": "{{event.folder_path}}"},
    "dedupe_window_seconds": 120,
}


async def save(client: Client, document: dict[str, Any]) -> str:
    answer = await client.send("POST", "/jobs/triggers", document)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


async def test_triggers_are_saved_with_the_payloads_of_the_contract(client: Client) -> None:
    ids = [await save(client, each) for each in (SCHEDULE, EVENT)]
    listed = (await client.send("GET", "/jobs/triggers")).json()["triggers"]
    assert [each["id"] for each in listed] == ids
    for sent, found in zip((SCHEDULE, EVENT), listed, strict=True):
        assert {name: found[name] for name in sent} == sent
    assert listed[0]["created_by"] == "tenant_admin of acme"


async def test_a_change_keeps_the_other_fields(client: Client) -> None:
    trigger = await save(client, SCHEDULE)
    answer = await client.send("PATCH", f"/jobs/triggers/{trigger}", {"is_enabled": False, "cron_expr": "0 3 * * *"})
    changed = answer.json()
    assert (changed["is_enabled"], changed["cron_expr"], changed["timezone"]) == (
        False,
        "0 3 * * *",
        "America/New_York",
    )


async def test_an_interval_takes_the_place_of_a_cron(client: Client) -> None:
    trigger = await save(client, SCHEDULE)
    changed = (await client.send("PATCH", f"/jobs/triggers/{trigger}", {"every": 600})).json()
    assert (changed["every"], changed["cron_expr"]) == (600, None)


@pytest.mark.both_engines
async def test_the_second_of_two_admins_is_told(client: Client) -> None:
    trigger = await save(client, SCHEDULE)
    seen = {"If-Match": (await client.send("GET", f"/jobs/triggers/{trigger}")).headers["etag"]}
    first = await client.send("PATCH", f"/jobs/triggers/{trigger}", {"label": "First"}, headers=seen)
    second = await client.send("PATCH", f"/jobs/triggers/{trigger}", {"label": "Second"}, headers=seen)
    assert (first.status_code, second.status_code, second.json()["code"]) == (200, 412, "LH-1050")
    assert (await client.send("DELETE", f"/jobs/triggers/{trigger}", headers=seen)).status_code == 412
    now = {"If-Match": first.headers["etag"]}
    assert (await client.send("DELETE", f"/jobs/triggers/{trigger}", headers=now)).status_code == 204
    assert (await client.send("GET", f"/jobs/triggers/{trigger}")).json()["code"] == "LH-1030"
    assert (await client.send("GET", "/jobs/triggers")).json()["triggers"] == []


@pytest.mark.both_engines
async def test_a_trigger_is_paused_and_resumed(client: Client) -> None:
    trigger = await save(client, SCHEDULE)
    paused = await client.send("POST", f"/jobs/triggers/{trigger}/pause", {"why": "holidays", "seconds": 60})
    assert paused.json()["paused"]["why"] == "holidays"
    assert (await client.send("POST", f"/jobs/triggers/{trigger}/resume")).json()["paused"] is None


@pytest.mark.both_engines
async def test_a_deleted_trigger_is_restored_once(client: Client) -> None:
    trigger = await save(client, SCHEDULE)
    path = f"/jobs/triggers/{trigger}"
    assert (await client.send("POST", f"{path}/restore")).json()["code"] == "LH-1030"
    await client.send("POST", f"{path}/pause", {"why": "holidays"})
    await client.send("DELETE", path)
    assert (await client.send("POST", f"{path}/restore", role=Role.OPERATOR)).status_code == 403
    back = (await client.send("POST", f"{path}/restore")).json()
    assert {name: back[name] for name in SCHEDULE} == SCHEDULE
    assert back["paused"]["why"] == "holidays"
    assert (await client.send("GET", path)).json() == back
    assert (await client.send("POST", f"{path}/restore")).json()["code"] == "LH-1030"
    entries = (await client.send("GET", "/audit?action=trigger.restore")).json()["entries"]
    assert [each["subject"] for each in entries] == [f"trigger {trigger}"]


@pytest.mark.both_engines
async def test_runs_are_previewed_before_and_after_saving(client: Client) -> None:
    sent = {"cron_expr": "0 2 * * *", "timezone": "America/New_York", "count": 3}
    before = (await client.send("POST", "/jobs/triggers/preview", sent)).json()
    trigger = await save(client, SCHEDULE)
    after = (await client.send("GET", f"/jobs/triggers/{trigger}/preview?count=3")).json()
    assert before["runs"] == after["runs"]
    assert len(after["runs"]) == 3


@pytest.mark.both_engines
async def test_an_event_makes_the_job_of_its_trigger_once(client: Client) -> None:
    trigger = await save(client, EVENT)
    sent = {"name": "provider.folder.updated", "data": {"folder_path": "/a"}}
    tried = (await client.send("POST", "/events/test", sent)).json()["triggers"]
    assert [(each["trigger"], each["result"], each["payload"]) for each in tried] == [
        (trigger, "fires", {"name": "/a"})
    ]
    first = await client.send("POST", "/events", sent, headers={"Idempotency-Key": "e-1"})
    again = await client.send("POST", "/events", sent, headers={"Idempotency-Key": "e-1"})
    assert (first.status_code, again.status_code) == (201, 200)
    (job,) = first.json()["jobs"]
    assert (await client.send("GET", f"/jobs/{job}")).json()["source"] == "event"
    other = await client.send("POST", "/events", {**sent, "data": {}}, headers={"Idempotency-Key": "e-1"})
    assert other.json()["code"] == "LH-1013"
    (listed,) = (await client.send("GET", "/events?name=provider.folder.updated")).json()["events"]
    assert (listed["id"], listed["created_by"]) == (first.json()["id"], "tenant_admin of acme")
    (decision,) = (await client.send("GET", f"/jobs/triggers/{trigger}/decisions")).json()["decisions"]
    assert decision["kind"] == "fired"


async def test_a_viewer_reads_no_payloads_and_no_logs(client: Client) -> None:
    job, trigger = await client.enqueue(), await save(client, EVENT)
    shown = (await client.send("GET", f"/jobs/{job}", role=Role.VIEWER)).json()
    assert (shown["payload"], shown["hidden"]) == (None, ["payload", "result", "last_error"])
    assert (await client.send("GET", f"/jobs/triggers/{trigger}", role=Role.VIEWER)).json()[
        "payload_template"
    ] is None
    logs = await client.send("GET", f"/jobs/{job}/logs", role=Role.VIEWER)
    assert (logs.status_code, logs.json()["code"]) == (403, "LH-6002")


async def test_triggers_for_all_tenants_are_for_tokens_of_all_tenants(client: Client) -> None:
    path = "/jobs/triggers?all_tenants=true"
    saved = await client.send("POST", path, {**SCHEDULE, "spread": 60}, role=Role.SUPER_ADMIN)
    assert saved.status_code == 201, saved.text
    assert (saved.json()["tenant_id"], saved.json()["all_tenants"]) == (None, True)
    one = f"/jobs/triggers/{saved.json()['id']}?all_tenants=true"
    assert (await client.send("PATCH", one, {"label": "Weekly"}, role=Role.SUPER_ADMIN)).json()["label"] == "Weekly"
    for method, asked, body in (
        ("GET", path, None),
        ("POST", path, SCHEDULE),
        ("GET", one, None),
        ("DELETE", one, None),
    ):
        assert (await client.send(method, asked, body)).status_code == 403
    assert (await client.send("GET", one + "&tenant=acme", role=Role.SUPER_ADMIN)).status_code == 422
    assert (await client.send("DELETE", one, role=Role.SUPER_ADMIN)).status_code == 204


async def test_the_audit_log_shows_templates_to_readers_of_payloads_only(client: Client) -> None:
    await save(client, EVENT)
    few = frozenset({Permission.JOBS_READ, Permission.AUDIT_READ})
    _, text = await tokens.create(client.app.store, "few", Role.TENANT_ADMIN, tenant=ACME, permissions=few)
    headers = {"Authorization": f"Bearer {text}"}
    hidden = await client.http.get("/api/v1/audit?action=trigger.create", headers=headers)
    assert "folder_path" not in hidden.text
    (entry,) = hidden.json()["entries"]
    assert (entry["hidden"], entry["after"]["label"]) == (["payload", "filter"], EVENT["label"])
    shown = await client.send("GET", "/audit?action=trigger.create")
    assert shown.json()["entries"][0]["after"]["payload"] == EVENT["payload_template"]


async def test_events_are_listed_with_what_was_decided(client: Client) -> None:
    trigger = await save(client, EVENT)
    sent = {"name": "provider.folder.updated", "data": {"folder_path": "/a"}}
    job = (await client.send("POST", "/events", sent)).json()["jobs"][0]
    await client.send("POST", "/events", {"name": "unheard.of", "data": {}})
    unheard, heard = (await client.send("GET", "/events?decisions=true")).json()["events"]
    assert unheard["decisions"] == []
    (decision,) = heard["decisions"]
    assert (decision["trigger"], decision["kind"], decision["job"]) == (trigger, "fired", job)
    assert "decisions" not in (await client.send("GET", "/events")).json()["events"][0]
