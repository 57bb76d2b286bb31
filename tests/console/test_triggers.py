"""Triggers in the console: previews across clock changes, the editor, actions, and what those of the code allow."""

from datetime import UTC, datetime

import pytest
from playwright.async_api import Page, expect
from tests.console.browser import Visitors
from tests.console.trigger_world import IMPORT, OWNER, make_trigger
from tests.console.world import ACME, GLOBEX, World

from leasehold.model.access import Role
from leasehold.model.trigger_document import rule_from_document
from leasehold.store.triggers import DeclaredTrigger

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def fill(page: Page, **texts: str) -> None:
    for name, text in texts.items():
        await page.locator(f"#{name}").fill(text)


def freeze(monkeypatch: pytest.MonkeyPatch, world: World, moment: datetime) -> None:
    """Lets previews begin at a moment. Nothing else of these tests asks for the time of the engine."""

    async def now(*_: object) -> datetime:
        return moment

    monkeypatch.setattr(type(world.app.store), "now", now)


@pytest.mark.parametrize(
    ("moment", "cron", "place", "mark", "text"),
    [
        (datetime(2027, 3, 11, tzinfo=UTC), "30 2 * * *", 3, "gap", "02:30 does not exist that day"),
        (datetime(2027, 11, 5, 12, tzinfo=UTC), "30 1 * * *", 1, "fold", "01:30 occurs twice"),
    ],
)
async def test_a_preview_marks_changes_of_the_clock(
    visitors: Visitors,
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    moment: datetime,
    cron: str,
    place: int,
    mark: str,
    text: str,
) -> None:
    freeze(monkeypatch, world, moment)
    page = await visitors.open("/t/acme/triggers/new", timezone_id="Europe/Berlin")
    await fill(page, cron=cron, zone="America/New_York")
    rows = page.locator("#preview table").first.locator("tbody tr")
    await expect(rows).to_have_count(5)
    await expect(rows.nth(place).locator(f"[data-mark={mark}]")).to_contain_text(text)
    await expect(page.locator("#preview thead").first).to_contain_text("Yours (Berlin)")
    await expect(page.locator("#preview")).to_contain_text("Around the next clock change")
    assert await page.locator("#cron").input_value() == cron


async def test_a_preview_follows_the_typing_and_explains(visitors: Visitors, world: World) -> None:
    page = await visitors.open("/t/acme/triggers/new")
    before = len(await world.app.store.triggers(ACME).list(100))
    await page.locator("#cron").press_sequentially("61 * * * *")
    await expect(page.locator("#preview")).to_contain_text("minute")
    await expect(page.locator("#cron")).to_be_focused()
    await fill(page, cron="0 9 * * 1")
    await expect(page.locator("#preview .words")).to_contain_text("At 09:00 on Monday (UTC)")
    await page.locator("#definition").select_option(IMPORT)
    await expect(page.locator("#preview")).to_contain_text('"folder" is a required property')
    await fill(page, payload='{"folder": "{{schedule.fire_at}}", "provider_id": "p_1"}', label="Mondays")
    await expect(page.locator("#preview")).to_contain_text(f"✓ valid for {IMPORT}")
    await page.locator("#copies summary").click()
    await expect(page.locator("#copies")).to_contain_text("leasehold triggers add import-photos --cron '0 9 * * 1'")
    assert len(await world.app.store.triggers(ACME).list(100)) == before


async def test_a_trigger_is_made_and_changed_without_javascript(visitors: Visitors, world: World) -> None:
    visitors.expected = ("422",)
    page = await visitors.open("/t/acme/triggers/new", java_script_enabled=False)
    await fill(page, label="By hand", cron="never", payload="[]")
    await page.get_by_role("button", name="Save").click()
    summary = page.get_by_role("alert")
    for title in ("Cron", "Definition", "Payload"):
        await expect(summary.get_by_role("link", name=title, exact=True)).to_be_visible()
    await expect(page.locator("#cron")).to_have_attribute("aria-invalid", "true")
    await expect(page.locator("#cron-problem")).to_contain_text("never")
    await fill(page, cron="15 3 * * *", zone="Europe/Berlin", payload='{"folder": "/", "provider_id": "p_1"}')
    await page.locator("#definition").select_option(IMPORT)
    await page.get_by_role("button", name="Preview").click()
    await expect(page.locator("#preview .words")).to_contain_text("At 03:15 every day (Europe/Berlin)")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("status")).to_contain_text("The trigger is saved")
    await page.get_by_role("link", name="Edit").click()
    await fill(page, label="By hand, later", cron="15 4 * * *")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("heading", name="By hand, later")).to_be_visible()
    (made,) = await world.app.store.triggers(ACME).search("By hand, later", None, 5)
    assert (made.rule.schedule is not None, made.version, made.created_by) == (True, 2, "tenant_admin-acme")
    await world.app.store.triggers(ACME).delete(made.id)


async def test_problems_of_a_form_are_focused(visitors: Visitors) -> None:
    visitors.expected = ("422",)
    page = await visitors.open("/t/acme/triggers/new?kind=event")
    await page.get_by_role("button", name="Save").click()
    await expect(page.locator("#error-summary")).to_be_focused()
    await page.locator("#error-summary").get_by_role("link", name="Event").click()
    await expect(page.locator("#event")).to_be_focused()


async def test_an_editor_does_not_undo_a_change_of_others(visitors: Visitors, world: World) -> None:
    visitors.expected = ("412",)
    made = await make_trigger(world, label="Shared")
    first = await visitors.open(f"/t/acme/triggers/{made}/edit")
    second = await visitors.open(f"/t/acme/triggers/{made}/edit")
    await fill(first, label="First")
    await first.get_by_role("button", name="Save").click()
    await expect(first.get_by_role("status")).to_be_visible()
    await fill(second, label="Second")
    await second.get_by_role("button", name="Save").click()
    await expect(second.get_by_role("alert")).to_contain_text("is in version 2, and not in 1")
    found = await world.app.store.triggers(OWNER).get(made)
    assert found is not None
    assert found.rule.label == "First"
    await world.app.store.triggers(ACME).delete(made)


async def test_a_trigger_is_paused_disabled_and_deleted(visitors: Visitors, world: World) -> None:
    made = await make_trigger(world, label="To be stopped")
    page = await visitors.open(f"/t/acme/triggers/{made}")
    await page.get_by_role("link", name="Pause").click()
    await page.get_by_role("dialog").get_by_label("Why").fill("the provider is down")
    await page.get_by_role("dialog").get_by_label("For how long").fill("2h")
    await page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    await expect(page.locator(".notice.amber")).to_contain_text("the provider is down")
    for verb, state in (("Resume", "On"), ("Disable", "Disabled"), ("Enable", "On")):
        await page.get_by_role("link", name=verb, exact=True).click()
        await page.get_by_role("dialog").get_by_role("button", name=verb).click()
        await expect(page.locator(".head .state")).to_have_text(state)
    await page.get_by_role("link", name="Delete").click()
    await expect(page.get_by_role("dialog")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("link", name="Delete")).to_be_focused()
    await page.get_by_role("link", name="Delete").click()
    await page.get_by_role("dialog").get_by_role("button", name="Delete the trigger").click()
    await expect(page.get_by_role("status")).to_contain_text("deleted")
    assert await world.app.store.triggers(ACME).get(made) is None


@pytest.mark.parametrize("scope", ["/t/acme", "/all"])
async def test_a_deletion_is_undone_without_javascript(visitors: Visitors, world: World, scope: str) -> None:
    made = await make_trigger(world, label="Deleted too early")
    page = await visitors.open(f"{scope}/triggers/{made}", Role.SUPER_ADMIN, java_script_enabled=False)
    await page.get_by_role("link", name="Delete").click()
    await page.get_by_role("button", name="Delete the trigger").click()
    assert await world.app.store.triggers(ACME).get(made) is None
    await page.get_by_role("status").get_by_role("button", name="Undo").click()
    await expect(page.get_by_role("status")).to_contain_text("The trigger is back as it was")
    await expect(page.get_by_role("heading", level=1)).to_contain_text("Deleted too early")
    await world.app.store.triggers(ACME).delete(made)


async def test_a_trigger_deleted_earlier_is_restored(visitors: Visitors, world: World) -> None:
    visitors.expected = ("404",)
    made = await make_trigger(world, label="Deleted last week")
    page = await visitors.open(f"/t/acme/triggers/{made}/delete")
    await page.get_by_role("button", name="Delete the trigger").click()
    await page.goto("/t/acme/audit?action=trigger.delete")
    await page.get_by_role("link", name=str(made)).first.click()
    await expect(page.locator("#confirm")).to_contain_text(f"leasehold triggers restore {made}")
    await page.get_by_role("button", name="Restore").click()
    await expect(page.get_by_role("status")).to_contain_text("The trigger is back as it was")
    assert await world.app.store.triggers(ACME).get(made) is not None
    await world.app.store.triggers(ACME).delete(made)


async def test_a_trigger_of_the_code_is_only_paused(visitors: Visitors, world: World) -> None:
    visitors.expected = ("409",)
    document = {"label": "Of the code", "cron": "0 1 * * *", "zone": "UTC", "definition": "render_video"}
    rule = rule_from_document(document | {"payload_template": {"clip": "x"}})
    declared = DeclaredTrigger(ACME, rule)
    await world.app.store.all_triggers.sync([declared], ["render_video"])
    page = await visitors.open(f"/t/acme/triggers/{declared.id}")
    actions = await page.locator(".actions a").all_text_contents()
    assert actions == ["Pause"]
    for verb in ("edit", "delete", "disable"):
        await page.goto(f"/t/acme/triggers/{declared.id}/{verb}")
        if verb != "edit":
            await page.locator("form .btn.primary, form .btn.danger").click()
        await expect(page.locator("body")).to_contain_text("is declared in code")
    await world.app.store.all_triggers.sync([], ["render_video"])


async def test_the_history_of_decisions_links_to_jobs(visitors: Visitors, world: World) -> None:
    page = await visitors.open("/t/acme/triggers")
    await expect(page.locator("tbody tr", has_text="Import by name")).to_contain_text("Error")
    await page.get_by_role("link", name="Import on change").click()
    decisions = page.locator("section", has_text="Decisions").locator("tbody tr")
    await expect(decisions.last).to_contain_text("Fired")
    job = await decisions.last.get_by_role("link").get_attribute("title")
    await decisions.filter(has_text="Deduped").last.get_by_role("link").click()
    await expect(page.get_by_role("heading", name=IMPORT)).to_be_visible()
    assert str(job) in page.url


async def test_a_super_admin_sees_triggers_of_all_owners(visitors: Visitors, world: World) -> None:
    page = await visitors.open("/all/triggers", Role.SUPER_ADMIN)
    await expect(page.locator("tbody tr", has_text="Daily clean-up")).to_contain_text("all tenants")
    await page.get_by_role("link", name="Nightly import").click()
    await expect(page.locator(".facts")).to_contain_text("acme")
    await page.goto(f"/all/triggers/{world.triggers['everyone']}/pause")
    await expect(page.locator("#copies")).to_contain_text("--all-tenants")


async def test_a_trigger_of_another_tenant_is_not_found(visitors: Visitors, world: World) -> None:
    visitors.expected = ("404",)
    page = await visitors.open("/t/globex/triggers", tenant=GLOBEX)
    for verb in ("", "/edit", "/pause"):
        answer = await page.goto(f"/t/globex/triggers/{world.triggers['nightly']}{verb}")
        assert answer is not None
        assert answer.status == 404
