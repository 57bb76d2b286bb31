"""Definitions in the console: the form that enqueues, and overrides by administrators."""

import json

import pytest
from playwright.async_api import Page, Route, expect
from tests.console.browser import Visitors
from tests.console.test_schema_form import FULL
from tests.console.trigger_world import IMPORT
from tests.console.world import ACME, World

from leasehold.model.access import Role
from leasehold.model.audit import Actor
from leasehold.model.job import JobId
from leasehold.operations import definitions

pytestmark = pytest.mark.asyncio(loop_scope="session")
PATH = f"/t/acme/definitions/{IMPORT}/enqueue"


async def payload_of(world: World, page: Page) -> object:
    """Returns the payload of the job that the page names, and cancels it."""
    job = JobId((await page.locator(".line-of-facts .mono").inner_text()).strip())
    record = await world.app.store.tenant(ACME).get(job)
    await world.app.store.tenant(ACME).cancel([job])
    assert record is not None
    return record.payload


@pytest.mark.parametrize("js", [True, False], ids=["with JavaScript", "without"])
async def test_a_form_makes_a_job_with_its_payload(visitors: Visitors, world: World, js: bool) -> None:
    page = await visitors.open(PATH, Role.OPERATOR, java_script_enabled=js)
    await page.get_by_label("provider_id").fill("p_9")
    await page.get_by_label("folder").fill("/photos")
    await page.get_by_label("mode").select_option(label="all")
    await page.get_by_label("limit").fill("12")
    await page.get_by_label("since").fill("2026-11-18")
    await page.get_by_label("dry_run").select_option(label="yes")
    for number, tag in enumerate(("a", "b")):
        await page.get_by_role("button", name="Add an item to tags").click()
        await page.locator(f"[name='/tags/{number}']").fill(tag)
    await page.get_by_role("button", name="Move item 2 of tags up").click()
    await expect(page.locator("[name='/tags/0']")).to_have_value("b")
    await page.get_by_label("email").fill("ada@example.com")
    await page.get_by_label("note").fill("two\nlines")
    await page.get_by_label("Kind").select_option(label="Number")
    if not js:
        await page.get_by_role("button", name="Take").click()
    await page.locator("[name='/target']").fill("7")
    await page.locator("[name='/options!json']").fill('{"x": "y"}')
    await page.get_by_label("Run at").fill("10m")
    await page.get_by_role("button", name="Enqueue", exact=True).last.click()
    await expect(page.get_by_role("heading", name="Enqueued")).to_be_visible()
    wanted = {key: value for key, value in FULL.items() if key != "quality"}
    assert await payload_of(world, page) == wanted | {"tags": ["b", "a"], "target": 7}


async def test_a_kind_is_taken_although_the_request_failed(visitors: Visitors) -> None:
    visitors.expected = ("ERR_FAILED",)
    page = await visitors.open(PATH, Role.OPERATOR)

    async def fail(route: Route) -> None:
        await (route.abort() if route.request.resource_type == "xhr" else route.continue_())

    await page.route("**/enqueue", fail)
    await page.get_by_label("Kind").select_option(label="Number")
    await expect(page.locator("[name='/target']")).to_be_visible()


async def test_a_form_and_its_json_hold_the_same_value(visitors: Visitors) -> None:
    page = await visitors.open(PATH, Role.OPERATOR)
    await page.get_by_role("button", name="JSON").click()
    await page.locator("#payload").fill(json.dumps(FULL))
    await page.get_by_role("button", name="Form").click()
    await expect(page.get_by_label("limit")).to_have_value("12")
    await expect(page.locator("[name='/tags/1']")).to_have_value("b")
    await expect(page.get_by_label("album")).to_have_value("Summer")
    await page.get_by_role("button", name="JSON").click()
    await expect(page.locator("#payload")).to_be_visible()
    assert json.loads(await page.locator("#payload").input_value()) == FULL


async def test_problems_are_bound_to_their_fields(visitors: Visitors) -> None:
    visitors.expected = ("422",)
    page = await visitors.open(PATH, Role.OPERATOR)
    await page.get_by_label("provider_id").fill("p")
    await page.get_by_label("limit").fill("9999")
    await page.get_by_label("Run at").fill("whenever")
    await page.get_by_role("button", name="Enqueue", exact=True).last.click()
    summary = page.locator("#error-summary")
    await expect(summary).to_be_focused()
    for name in ("provider_id", "folder", "limit", "Run at"):
        await expect(summary.get_by_role("link", name=name, exact=True)).to_be_visible()
    field = page.get_by_label("limit")
    await expect(field).to_have_attribute("aria-invalid", "true")
    described = str(await field.get_attribute("aria-describedby")).split()
    await expect(page.locator(f"[id='{described[0]}']")).to_contain_text("5000")
    await summary.get_by_role("link", name="folder").click()
    await expect(page.get_by_label("folder")).to_be_focused()


async def test_text_that_is_not_json_stays_and_is_explained(visitors: Visitors) -> None:
    visitors.expected = ("422",)
    page = await visitors.open(PATH, Role.OPERATOR, java_script_enabled=False)
    await page.get_by_role("button", name="JSON").click()
    await page.locator("#payload").fill("{oops")
    await page.get_by_role("button", name="Enqueue", exact=True).last.click()
    await expect(page.get_by_role("alert")).to_contain_text("not JSON")
    await expect(page.locator("#payload")).to_have_value("{oops")


async def test_an_enqueue_is_copied_as_python_cli_and_curl(visitors: Visitors) -> None:
    page = await visitors.open(PATH, Role.OPERATOR)
    await page.get_by_label("folder").fill("/it's")
    await page.get_by_label("Priority").fill("7")
    await page.get_by_label("Run at").fill("2h")
    await page.locator("#copies summary").click()
    copies = page.locator("#copies")
    await expect(copies).to_contain_text("app.tenant('acme').options(priority=7, delay='2h').enqueue_key")
    await expect(copies).to_contain_text("leasehold enqueue import-photos --payload")
    await expect(copies).to_contain_text("--priority 7 --in 2h --tenant acme")
    await expect(copies).to_contain_text('"delay_seconds":7200.0')


async def test_the_same_form_sent_twice_makes_one_job(world: World) -> None:
    async with await world.signed_in(Role.OPERATOR) as http:
        page = (await http.get(PATH)).text
        token = page.partition('name="form_token" value="')[2].partition('"')[0]
        sent = {"form_token": token, "key": "k-1", "/folder": "/twice", "/provider_id": "p_9", "do": "enqueue"}
        answers = [await http.post(PATH, data=sent, headers={"Origin": world.address}) for _ in range(2)]
    assert [each.status_code for each in answers] == [303, 303]
    places = [each.headers["location"] for each in answers]
    assert [place.rpartition("new=")[2] for place in places] == ["yes", "no"]
    assert places[0].partition("&")[0] == places[1].partition("&")[0]
    await world.app.store.tenant(ACME).cancel([JobId(places[0].partition("job=")[2].partition("&")[0])])


async def test_overrides_are_set_and_reset_with_their_origin(visitors: Visitors, world: World) -> None:
    visitors.expected = ("412", "422")
    path = "/all/definitions/train_model"
    page = await visitors.open(f"{path}/override", Role.SUPER_ADMIN)
    await page.get_by_label("Timeout").fill("soon")
    await page.get_by_role("button", name="Save").last.click()
    await expect(page.locator("#error-summary")).to_be_focused()
    await page.get_by_label("Timeout").fill("10m")
    await page.get_by_role("button", name="Save").last.click()
    row = page.locator("tr", has_text="Timeout")
    await expect(row).to_contain_text("10m")
    await expect(row).to_contain_text("super_admin-None")
    await expect(row).to_contain_text("code: 1h")
    stale = await visitors.open(f"{path}/override", Role.SUPER_ADMIN)
    await definitions.override(world.app.store, "train_model", {"max_attempts": 9}, Actor("eve"))
    await stale.get_by_label("Tries").fill("3")
    await stale.get_by_role("button", name="Save").last.click()
    await expect(stale.get_by_role("alert")).to_be_visible()
    await page.goto(f"{path}/override")
    for name in ("Timeout", "Tries"):
        await page.get_by_role("button", name=f"Reset {name}").click()
        await expect(page.get_by_role("status")).to_be_visible()
        await page.goto(f"{path}/override")
    known = await definitions.details(world.app.store, "train_model")
    assert {each.origin for each in known.origins if each.field in ("timeout", "max_attempts")} == {"code"}


async def test_a_definition_shows_who_serves_it(visitors: Visitors) -> None:
    page = await visitors.open("/t/acme/definitions")
    await expect(page.locator("tbody tr", has_text="render_video")).to_contain_text("no worker")
    await expect(page.locator("tbody tr", has_text="send_report")).to_contain_text("1 live")
    await page.get_by_role("link", name="send_report", exact=True).click()
    await expect(page.get_by_label("Schema", exact=True)).to_contain_text('"api_key"')


async def test_tenants_do_not_see_names_of_administrators(world: World) -> None:
    pages = []
    for role in (Role.TENANT_ADMIN, Role.SUPER_ADMIN):
        async with await world.signed_in(role) as http:
            pages.append((await http.get(f"/t/acme/definitions/{IMPORT}")).text)
    assert [">ada<" in page for page in pages] == [False, True]
    assert ["versions-title" in page for page in pages] == [False, True]
