"""The event tester, which changes nothing, and the list of events."""

import json

import pytest
from playwright.async_api import expect
from tests.console.browser import Visitors
from tests.console.trigger_world import DATA, EVENT, IMPORT, make_trigger
from tests.console.world import ACME, World

from leasehold.model.access import Permission, Role
from leasehold.model.event import NewEvent
from leasehold.model.trigger_document import rule_from_document
from leasehold.store import Filter

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def count(world: World) -> tuple[int, int]:
    jobs = await world.app.store.tenant(ACME).find(Filter(definitions=(IMPORT,)), None, 200)
    return len(jobs.jobs), len(await world.app.store.events(ACME).list(200))


async def test_a_test_changes_nothing_and_an_emit_adds_one(visitors: Visitors, world: World) -> None:
    page = await visitors.open("/t/acme/events/test", Role.OPERATOR)
    before = await count(world)
    await page.get_by_label("Event", exact=True).fill(EVENT)
    await page.get_by_label("Data, as JSON").fill(json.dumps({**DATA, "size": 3}))
    await page.get_by_role("button", name="Test", exact=True).click()
    tests = page.locator(".test")
    await expect(tests).to_have_count(3)
    await expect(tests.filter(has_text="Archive everything")).to_contain_text(
        '{"folder":"/archive","provider_id":"p_92"}'
    )
    await expect(tests.filter(has_text="Import on change")).to_contain_text("No match")
    await expect(tests.filter(has_text="Import on change")).to_contain_text("size")
    await expect(tests.filter(has_text="Import by name")).to_contain_text("event.folder_pth is missing")
    await expect(page.get_by_role("status")).to_contain_text("nothing was enqueued")
    await page.get_by_role("button", name="Emit this event for real").click()
    await expect(page.get_by_role("heading", name="Emit this event for real?")).to_be_visible()
    assert await count(world) == before
    await page.get_by_role("button", name="Emit the event").click()
    await expect(page.get_by_role("status")).to_contain_text("The event is emitted")
    assert await count(world) == (before[0] + 1, before[1] + 1)
    await expect(page.locator("tbody tr").first).to_contain_text("Fired")


async def test_a_test_tells_what_dedupe_and_pauses_would_do(visitors: Visitors, world: World) -> None:
    event, template = "tests.dedupe", {"folder": "/x", "provider_id": "p_1"}
    held = await make_trigger(world, label="Held", cron=None, zone=None, event=event, payload_template=template)
    off = await make_trigger(
        world, label="Off", cron=None, zone=None, event=event, payload_template=template, enabled=False
    )
    page = await visitors.open(f"/t/acme/events/test?name={event}")
    await page.get_by_role("button", name="Test", exact=True).click()
    await expect(page.locator(".test", has_text="Held")).to_contain_text("Fires")
    await page.get_by_role("button", name="Emit this event for real").click()
    await page.get_by_role("button", name="Emit the event").click()
    await page.locator("tbody tr", has_text=event).get_by_role("link", name="Test again").click()
    await expect(page.locator(".test", has_text="Held")).to_contain_text("holds the dedupe key until")
    await expect(page.locator(".test", has_text="Off")).to_contain_text("the trigger is disabled")
    for each in (held, off):
        await world.app.store.triggers(ACME).delete(each)


async def test_data_that_is_not_json_is_explained(visitors: Visitors) -> None:
    visitors.expected = ("400", "422")
    page = await visitors.open(f"/t/acme/events/test?name={EVENT}", java_script_enabled=False)
    await page.get_by_label("Data, as JSON").fill("{oops")
    await page.get_by_role("button", name="Test", exact=True).click()
    await expect(page.get_by_role("alert")).to_contain_text("can't be read as JSON")
    await expect(page.get_by_label("Data, as JSON")).to_have_value("{oops")


async def test_a_form_that_is_sent_twice_emits_once(world: World) -> None:
    before = await count(world)
    async with await world.signed_in(Role.OPERATOR) as http:
        page = (await http.get("/t/acme/events/test")).text
        token = page.partition('name="form_token" value="')[2].partition('"')[0]
        sent = {"form_token": token, "name": "sent.twice", "data": "{}", "do": "emit", "key": "one-key"}
        for _ in range(2):
            answer = await http.post("/t/acme/events/emit", data=sent, headers={"Origin": world.address})
            assert answer.status_code == 303
    assert (await count(world))[1] == before[1] + 1


async def test_payloads_and_data_are_for_their_readers(world: World) -> None:
    async with await world.signed_in(Role.VIEWER) as http:
        listed = (await http.get("/t/acme/events")).text
        trigger = (await http.get(f"/t/acme/triggers/{world.triggers['changed']}")).text
        page = (await http.get("/t/acme/events/test")).text
        token = page.partition('name="form_token" value="')[2].partition('"')[0]
        sent = {"form_token": token, "name": EVENT, "data": json.dumps({"provider": "p_unseen"})}
        tested = (await http.post("/t/acme/events/test", data=sent, headers={"Origin": world.address})).text
    assert "p_92" not in listed
    assert "{{event.path}}" not in trigger
    assert "/archive" not in tested
    assert "Archive everything" in tested


async def test_an_emit_needs_its_permission(world: World) -> None:
    async with await world.signed_in(Role.VIEWER, Permission.JOBS_READ, Permission.EVENTS_READ) as http:
        page = (await http.get(f"/t/acme/events/test?name={EVENT}")).text
        token = page.partition('name="form_token" value="')[2].partition('"')[0]
        sent = {"form_token": token, "name": EVENT, "data": "{}", "do": "emit"}
        answer = await http.post("/t/acme/events/emit", data=sent, headers={"Origin": world.address})
    assert ("Emit this event" in page, answer.status_code) == (False, 403)


async def test_an_event_of_a_deleted_trigger_is_not_said_to_match_none(world: World) -> None:
    document = {"label": "Short-lived", "event": "short.lived", "definition": IMPORT, "payload_template": {}}
    rule = rule_from_document(document)
    store = world.app.store
    trigger = await store.triggers(ACME).add(rule, "ada")
    await store.events(ACME).emit(NewEvent("short.lived", {}))
    assert await store.triggers(ACME).delete(trigger.id)
    async with await world.signed_in(Role.TENANT_ADMIN) as http:
        page = (await http.get("/t/acme/events?name=short.lived")).text
    assert "no trigger matched" not in page
    assert "no trigger that still exists matched" in page
