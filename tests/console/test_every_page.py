"""Rules for every page: without JavaScript, on a narrow screen, in both themes, for all readers."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect
from tests.console.browser import Visitors, axe_source
from tests.console.test_fleet import quiet_console
from tests.console.world import World
from tests.database_server import DatabaseServer

from leasehold.model.access import Role

TWO_FRAMES = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"

pytestmark = pytest.mark.asyncio(loop_scope="session")


WHOLE: dict[str, Any] = {"resultTypes": ["violations"]}
COLOURS: dict[str, Any] = {"runOnly": {"type": "rule", "values": ["color-contrast"]}}


def kinds(world: World) -> Iterator[str]:
    """Yields one page of each kind."""
    yield "/t/acme?window=15m"
    yield "/t/acme/jobs?q=status:succeeded,ready,dead-letter"
    yield "/t/acme/jobs?q=definition:nothing"
    yield f"/t/acme/jobs/{world.jobs['dead letter']}"
    yield f"/t/acme/jobs/{world.jobs['ready']}"
    yield f"/t/acme/jobs/{world.jobs['hostile']}/change"
    yield "/t/acme/jobs?q=statsu:failed"
    yield from ("/t/acme/dead", f"/t/acme/dead/{world.group}", f"/t/acme/bulk/retry?group={world.group}")
    yield from ("/t/acme/operations", f"/t/acme/operations/{world.operation}")
    yield from trigger_pages(world)


def trigger_pages(world: World) -> Iterator[str]:
    """Yields one page of each kind of triggers, events and definitions."""
    triggers, definition = f"/t/acme/triggers/{world.triggers['nightly']}", "/t/acme/definitions/import-photos"
    yield from ("/t/acme/triggers", triggers, f"{triggers}/edit", f"{triggers}/pause", "/t/nobody/triggers")
    yield f"/t/acme/triggers/{world.triggers['changed']}"
    yield "/t/acme/triggers/new?kind=event&event=a.b"
    yield "/t/acme/events"
    yield "/t/acme/events/test?name=provider.folder.updated"
    yield from ("/t/acme/definitions", definition, f"{definition}/override", f"{definition}/enqueue")
    yield from ("/all/workers", "/all/tenants", "/all/tenants/acme/pause", "/all/health", "/all/audit")
    yield "/t/acme/audit?action=nothing"
    yield from ("/t/acme/usage?since=30d", "/all/usage")


def pages(world: World) -> Iterator[str]:
    """Yields these and others: of all tenants, with hostile texts, empty and refused."""
    yield from kinds(world)
    yield from ("/all", "/all/jobs?q=status:succeeded", "/t/nobody/jobs", "/t/acme/nothing")
    yield from ("/all/dead", f"/all/dead/{world.group}", "/t/globex/dead", f"/t/globex/dead/{'0' * 16}")
    yield from ("/all/operations", "/t/acme/bulk/cancel?q=status:queued", "/t/acme/bulk/retry?chosen=yes")
    yield from ("/t/nobody/usage", "/t/acme/usage?by=week", "/all/usage?by=day&since=7d")
    yield from ("/t/acme/health", "/t/acme/audit", "/t/acme/audit?after=soon", "/all/tenants/acme/limit")
    yield from (f"/t/acme/jobs/{world.jobs['hostile']}", f"/t/acme/jobs/{world.jobs['ready']}/cancel")
    yield from ("/all/triggers", f"/all/triggers/{world.triggers['everyone']}", "/all/events", "/t/nobody/events")
    yield from ("/all/definitions", "/all/definitions/send_report/enqueue")


async def test_no_page_runs_or_breaks_anything(visitors: Visitors, world: World) -> None:
    visitors.expected = ("422", "404")
    page = await visitors.open(role=Role.SUPER_ADMIN)
    for path in pages(world):
        answer = await page.goto(path)
        assert answer is not None
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert await page.locator("main script, main img, [style], [onerror]").count() == 0


async def test_no_page_scrolls_sideways_at_320_pixels(visitors: Visitors, world: World) -> None:
    visitors.expected = ("422", "404")
    page = await visitors.open(role=Role.SUPER_ADMIN, viewport={"width": 320, "height": 640})
    for path in pages(world):
        await page.goto(path)
        assert await page.evaluate("document.documentElement.scrollWidth") <= 320, path


async def test_a_narrow_screen_folds_the_sections(visitors: Visitors) -> None:
    page = await visitors.open("/t/acme/jobs", viewport={"width": 390, "height": 800}, bypass_csp=True)
    triggers = page.get_by_role("navigation", name="Sections").get_by_role("link", name="Triggers")
    await expect(triggers).to_be_hidden()
    await expect(page.locator("[data-live-chip]")).to_be_visible()
    dot = await page.locator("[data-live-chip]").evaluate("(chip) => getComputedStyle(chip, '::before').width")
    assert dot == "7px"
    await page.get_by_role("button", name="Sections").click()
    await page.add_script_tag(content=axe_source())
    assert not await violations(page, WHOLE)
    await page.keyboard.press("Escape")
    await expect(triggers).to_be_hidden()
    await page.get_by_role("button", name="Sections").press("Enter")
    await triggers.click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Triggers")


async def test_a_narrow_screen_leaves_no_value_out(visitors: Visitors, world: World) -> None:
    page = await visitors.open(f"/t/acme/dead/{world.group}", viewport={"width": 390, "height": 800})
    await expect(page.locator("td[data-label=Tries]").first).to_have_text("2/2")
    await expect(page.locator("td[data-label=Tries]").first).to_be_visible()
    await page.goto("/t/acme/definitions/send_report")
    await expect(page.locator("td[data-label=Value]").filter(has_text="lower runs first")).to_be_visible()
    await page.goto("/t/acme/jobs?q=status:scheduled")
    await expect(page.locator("td[data-label=Started]").first).to_be_hidden()


async def test_every_page_is_accessible_in_both_themes(visitors: Visitors, world: World) -> None:
    visitors.expected = ("422", "404")
    source = axe_source()
    page = await visitors.open(role=Role.SUPER_ADMIN, color_scheme="light", bypass_csp=True)
    out = await visitors.open("/sign-in", role=None, color_scheme="light", bypass_csp=True)
    await page.add_init_script(source)
    for path in kinds(world):
        await page.goto(path)
        assert not await violations(page, WHOLE), path
        await page.emulate_media(color_scheme="dark")
        assert not await violations(page, COLOURS), f"{path} in the dark"
        await page.emulate_media(color_scheme="light")
    await out.evaluate(source)
    assert not await violations(out, WHOLE)


async def violations(page: Page, options: dict[str, Any]) -> list[str]:
    found = await page.evaluate("(options) => axe.run(document, options)", options)
    return [f"{each['id']}: {node['html'][:200]}" for each in found["violations"] for node in each["nodes"]]


async def test_a_triage_needs_no_javascript(visitors: Visitors, world: World) -> None:
    job = await world.enqueue("sync_folder", payload={"provider_id": "p_3"}, correlation_id="without-js")
    await world.until(job, "dead letter")
    page = await visitors.open("/t/acme/jobs", java_script_enabled=False)
    await page.get_by_label("Filter jobs").fill("status:dead-letter correlation:without-js")
    await page.get_by_role("button", name="Search").click()
    await page.get_by_role("link", name="sync_folder").click()
    await expect(page.locator("#log")).to_contain_text("retrying 429")
    await page.get_by_role("link", name="Retry", exact=True).click()
    await page.get_by_role("button", name="Retry").click()
    await expect(page.get_by_role("status")).to_contain_text("The job is queued again")
    await world.until(job, "dead letter")


async def test_a_theme_is_chosen_and_kept(visitors: Visitors) -> None:
    page = await visitors.open("/t/acme/jobs?q=status:running", color_scheme="light")
    for theme, colour in (("light", "rgb(246, 247, 249)"), ("dark", "rgb(14, 17, 22)")):
        await page.get_by_role("button", name="Theme").click()
        await expect(page.locator("html")).to_have_attribute("data-theme", theme)
        assert await page.evaluate("getComputedStyle(document.body).backgroundColor") == colour
    assert page.url.endswith("/t/acme/jobs?q=status:running")


async def test_a_triage_needs_no_mouse(visitors: Visitors, world: World) -> None:
    job = await world.enqueue("sync_folder", payload={"provider_id": "p_4"}, correlation_id="by-keys")
    await world.until(job, "dead letter")
    page = await visitors.open("/t/acme/jobs")
    await page.keyboard.press("/")
    await page.keyboard.type("correlation:by-keys")
    await page.keyboard.press("Enter")
    await expect(page.locator("tbody tr")).to_have_count(1)
    for key in ("j", "Enter"):
        await page.keyboard.press(key)
    await expect(page.locator("#log")).to_be_visible()
    await page.keyboard.press("r")
    await expect(page.get_by_role("dialog")).to_be_visible()
    await expect(page.get_by_role("button", name="Retry")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("status")).to_contain_text("The job is queued again")
    await world.until(job, "dead letter")


async def test_keys_that_are_switched_off_ask_for_nothing(visitors: Visitors, world: World) -> None:
    page, asked = await visitors.open(f"/t/acme/jobs/{world.jobs['dead letter']}"), list[str]()
    page.on("request", lambda request: asked.append(request.url))
    is_retry = re.compile(r"/retry$")
    await expect(page.get_by_role("link", name="Retry", exact=True)).to_be_visible()
    await switch_keys(page)
    await page.keyboard.press("r")
    await page.evaluate(TWO_FRAMES)  # a key that asks for a page has asked by then
    assert not [each for each in asked if is_retry.search(each)]
    await switch_keys(page)
    async with page.expect_request(is_retry):
        await page.keyboard.press("r")


async def switch_keys(page: Page) -> None:
    keys = page.get_by_role("dialog", name="Keys")
    await page.keyboard.press("?")
    await expect(keys).to_be_visible()
    await page.keyboard.press("Space")
    await page.keyboard.press("Escape")
    # A browser closes a dialog a moment after the key, and tells the page of it later still.
    await expect(page.locator("dialog")).to_have_count(0)
    await page.evaluate(TWO_FRAMES)


async def test_a_list_has_few_elements(browser: Browser, database_server: DatabaseServer) -> None:
    async with quiet_console(database_server) as (own, app, _):
        visitors, report = Visitors(browser, own), app.definition("send_report")
        assert report is not None
        tenant = app.tenant("acme").options(delay="30d")
        await tenant.aenqueue_many([report.bind(f"page-{n}") for n in range(200)])
        page = await visitors.open()
        for rows, most in ((50, 5000), (200, 8000)):
            await page.goto(f"/t/acme/jobs?limit={rows}")
            await expect(page.locator("tbody tr")).to_have_count(rows)
            assert await page.evaluate("document.querySelectorAll('*').length") < most
        await visitors.close()


async def test_states_are_told_apart_in_forced_colours(visitors: Visitors) -> None:
    page = await visitors.open("/t/acme/jobs", forced_colors="active")
    icons = await page.locator("tbody .state").evaluate_all(
        "(badges) => badges.map((badge) => [badge.textContent.trim(), badge.querySelector('svg').innerHTML])"
    )
    shapes = dict(icons)
    assert len(shapes) > 3
    assert len(set(shapes.values())) == len(shapes)
    border = await page.locator("tbody .state").first.evaluate("(badge) => getComputedStyle(badge).borderTopWidth")
    assert border != "0px"
