"""The list of jobs: tabs, filters, pages, held jobs, and rows that come while it is read."""

import re

import pytest
from playwright.async_api import expect
from tests.console.browser import Visitors
from tests.console.world import ACME, CANARY, World

from leasehold.console import job_rows
from leasehold.engines.postgres import looks
from leasehold.model.access import Role
from leasehold.model.job import tenant_id

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_every_view_of_the_list_has_an_address(visitors: Visitors, world: World) -> None:
    page = await visitors.open("/t/acme/jobs")
    await page.locator("#tabs").get_by_role("link", name="Dead letter").click()
    failed = page.locator("tbody tr").filter(has_text="TimeoutError: GET https://api.provider.test")
    await expect(failed.first).to_be_visible()
    await expect(page.locator("tbody tr").filter(has_not_text="Dead letter")).to_have_count(0)
    await page.get_by_label("Filter jobs").fill("definition:send_report status:scheduled")
    await page.keyboard.press("Enter")
    await expect(page.locator("tbody tr")).to_have_count(50)
    oldest = page.locator("tbody tr").filter(has_text=re.compile(r"\bjune-0\b"))
    await expect(oldest).to_have_count(0)
    await page.get_by_role("link", name="Older").click()
    await expect(oldest).to_have_count(1)
    await page.reload()
    await expect(oldest).to_have_count(1)
    await page.get_by_role("link", name="Remove status:scheduled").click()
    await expect(page.get_by_label("Filter jobs")).to_have_value("definition:send_report")
    await page.goto("/t/acme/jobs?q=status:scheduled&limit=25&column=correlation")
    await expect(page.locator("tbody tr")).to_have_count(25)
    assert await page.locator("thead th").all_text_contents() == ["", "State", "Job", "Correlation"]


async def test_more_columns_than_fit_are_scrolled_to(visitors: Visitors) -> None:
    page = await visitors.open("/t/acme/jobs?" + "&".join(f"column={name}" for name in job_rows.COLUMNS))
    last = page.locator("thead th").last
    await last.scroll_into_view_if_needed()
    await expect(last).to_be_in_viewport(ratio=0.9)
    assert await page.evaluate("document.documentElement.scrollWidth") <= 1280


async def test_an_unknown_filter_is_explained(visitors: Visitors) -> None:
    visitors.expected = ("422",)
    page = await visitors.open("/t/acme/jobs?q=statsu:failed")
    await expect(page.get_by_role("alert")).to_contain_text("did you mean status:?")
    await expect(page.locator("tbody tr")).to_have_count(0)


async def test_the_end_of_an_id_leads_to_its_job(visitors: Visitors, world: World) -> None:
    page = await visitors.open(f"/t/acme/jobs?q={world.jobs['succeeded'][-8:]}")
    await expect(page.get_by_role("heading", name="send_report")).to_be_visible()
    assert world.jobs["succeeded"] in page.url


async def test_filters_are_completed_by_keyboard(visitors: Visitors) -> None:
    page = await visitors.open("/t/acme/jobs")
    box = page.get_by_label("Filter jobs")
    await box.press_sequentially("st")
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("Enter")
    await box.press_sequentially("dead")
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("Tab")
    await expect(box).to_have_value("status:dead-letter ")


async def test_fields_of_payloads_are_completed_but_secrets(visitors: Visitors, world: World) -> None:
    job = await world.enqueue("sync_folder", payload={"provider_id": "p_completed"}, delay="2d")
    page = await visitors.open("/t/acme/jobs")
    box = page.get_by_label("Filter jobs")
    known = str(await box.get_attribute("data-complete"))
    assert "payload.provider_id" in known
    assert "api_key" not in known
    await box.press_sequentially("payload.prov")
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("Enter")
    await box.press_sequentially("p_completed")
    await page.keyboard.press("Enter")
    await expect(page.locator("tbody tr")).to_have_count(1)
    await expect(page.locator(f"tr[data-key='acme/{job}']")).to_be_visible()
    viewer = await visitors.open("/t/acme/jobs", Role.VIEWER)
    assert "payload." not in str(await viewer.get_by_label("Filter jobs").get_attribute("data-complete"))


async def test_a_list_by_traits_says_that_it_is_a_part(
    visitors: Visitors, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looks, "LOOKED_AT", 3)
    tenant = tenant_id("looked-at")
    for number in range(3):
        await world.enqueue("send_report", tenant, payload={"name": f"earlier-{number}"}, delay="2d")
    wanted = await world.enqueue("send_report", tenant, payload={"name": "urgent"}, priority=-77, delay="2d")
    for number in range(4):
        await world.enqueue("send_report", tenant, payload={"name": f"later-{number}"}, delay="2d")
    page = await visitors.open("/t/looked-at/jobs?q=priority:<-70", tenant=tenant)
    await expect(page.get_by_role("heading", name="No job matches so far")).to_be_visible()
    await page.get_by_role("link", name="Look at older ones").click()
    await expect(page.locator(f"tr[data-key='looked-at/{wanted}']")).to_be_visible()
    await expect(page.get_by_role("navigation", name="Pages")).to_contain_text(
        "Only a part of the jobs was looked at"
    )


async def test_the_worker_of_a_job_leads_to_its_other_jobs(visitors: Visitors, world: World) -> None:
    page = await visitors.open("/t/acme/jobs?q=status:succeeded")
    await page.locator("td[data-label=Worker] a").first.click()
    await expect(page.get_by_label("Filter jobs")).to_have_value(re.compile(r"^worker:[0-9a-f-]{36}$"))
    await expect(page.locator("tbody tr").first).to_be_visible()


@pytest.mark.parametrize("scripts", [True, False])
async def test_a_view_is_saved_shared_and_deleted(visitors: Visitors, world: World, scripts: bool) -> None:
    name = f"urgent {'with' if scripts else 'without'} scripts"
    page = await visitors.open("/t/acme/jobs?q=priority:<50&column=priority", java_script_enabled=scripts)
    await page.locator(".views summary").click()
    await page.get_by_label("Save this one as").fill(name)
    await page.get_by_label("for all people").check()
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("status").first).to_contain_text("The view is saved")
    viewer = await visitors.open("/t/acme/jobs", Role.VIEWER, java_script_enabled=scripts)
    await viewer.locator(".views summary").click()
    await viewer.get_by_role("link", name=name).click()
    await expect(viewer.get_by_label("Filter jobs")).to_have_value("priority:<50")
    assert "column=priority" in viewer.url
    await viewer.locator(".views summary").click()
    await expect(viewer.get_by_role("button", name=f"Delete the view {name}")).to_have_count(0)
    await expect(viewer.get_by_label("for all people")).to_have_count(0)
    await page.locator(".views summary").click()
    await page.get_by_role("button", name=f"Delete the view {name}").click()
    await expect(page.get_by_role("status").first).to_contain_text("The view is deleted")
    await expect(page.get_by_role("link", name=name)).to_have_count(0)


async def test_a_shared_view_is_shown_to_others_at_once(world: World) -> None:
    async with await world.signed_in(Role.VIEWER) as viewer, await world.signed_in(Role.TENANT_ADMIN) as admin:
        page = (await admin.get("/t/acme/jobs?q=priority:7")).text
        token = page.partition('name="form_token" value="')[2].partition('"')[0]
        sent = {"form_token": token, "name": "seen at once", "query": "q=priority:7", "shared": "yes"}
        seen = []
        for path in ("/t/acme/views", "/t/acme/views/delete"):
            seen.append("seen at once" in (await viewer.get("/t/acme/jobs")).text)
            answer = await admin.post(path, data=sent, headers={"Origin": world.address})
            assert answer.status_code == 303, answer.text
        seen.append("seen at once" in (await viewer.get("/t/acme/jobs")).text)
    assert seen == [False, True, False]


async def test_a_shared_view_needs_the_right_to_change_jobs(world: World) -> None:
    async with await world.signed_in(Role.VIEWER) as http:
        page = (await http.get("/t/acme/jobs?q=priority:5")).text
        token = page.partition('name="form_token" value="')[2].partition('"')[0]
        sent = {"form_token": token, "name": "x", "query": "q=priority:5&evil=1", "shared": "yes"}
        answer = await http.post("/t/acme/views", data=sent, headers={"Origin": world.address})
        own = await http.post("/t/acme/views", data=sent | {"shared": ""}, headers={"Origin": world.address})
    assert answer.status_code == 403
    assert own.headers["location"] == "/t/acme/jobs?q=priority%3A5&done=view-saved"


async def test_a_ready_job_that_can_not_start_is_marked_held(visitors: Visitors, world: World) -> None:
    page = await visitors.open("/t/acme/jobs?q=status:ready")
    await expect(page.locator("tbody tr", has_text="render_video")).to_contain_text("no live worker serves it")
    await page.get_by_role("link", name="held").first.click()
    await expect(page.locator("#why")).to_contain_text("Why it does not run")
    await expect(page.locator("#why")).to_contain_text("No live worker serves it")
    await expect(page.locator("#why")).to_contain_text("leasehold worker")


async def test_new_rows_wait_until_the_reader_asks(visitors: Visitors, world: World) -> None:
    visitors.expected = ("401",)  # the stream of the page whose session has ended
    page = await visitors.open("/t/acme/jobs")
    empty = await visitors.open("/t/acme/jobs?q=correlation:first-of-its-kind")
    ended = await visitors.open("/t/acme/jobs")
    await ended.context.clear_cookies()
    places = "() => [...document.querySelectorAll('tbody tr')].map((row) => [row.dataset.key, row.offsetTop])"
    before = await page.evaluate(places)
    made = await world.enqueue("send_report", payload={"name": "new"}, delay="2d", correlation_id="first-of-its-kind")
    pill = page.get_by_role("link", name="1 new")
    await expect(pill).to_be_visible()
    assert await page.evaluate(places) == before
    await pill.click()
    await expect(page.locator(f"tr[data-key='acme/{made}']")).to_be_visible()
    await expect(empty.get_by_role("link", name="1 new")).to_be_visible()
    await expect(ended.locator("[data-live-chip]")).to_have_text("Signed out")
    await world.app.store.tenant(ACME).cancel([made])


async def test_a_super_admin_sees_all_tenants_and_one(visitors: Visitors) -> None:
    page = await visitors.open("/", Role.SUPER_ADMIN)
    assert page.url.endswith("/all/jobs")
    await page.goto("/all/jobs?q=status:succeeded+tenant:globex")
    await expect(page.locator("tbody")).to_contain_text(CANARY)
    await page.locator(".scope summary").click()
    await page.locator(".scope").get_by_role("link", name="globex").click()
    await expect(page.locator("tbody tr")).to_have_count(1)
    assert page.url.endswith("/t/globex/jobs")
    await page.goto("/all/jobs?q=tenant:acme+status:dead-letter")
    await page.get_by_role("link", name="sync_folder").first.click()
    await expect(page.get_by_role("heading", name="sync_folder")).to_be_visible()


async def test_a_tenant_sees_nothing_of_another(visitors: Visitors, world: World) -> None:
    visitors.expected = ("404",)
    page = await visitors.open("/t/acme/jobs")
    assert CANARY not in await page.content()
    answers = []
    for path in (f"/t/acme/jobs/{world.jobs['globex']}", "/t/globex/jobs", "/t/nobody/jobs", "/all/jobs"):
        answer = await page.goto(path)
        assert answer is not None
        answers.append(answer.status)
        assert CANARY not in await page.content()
    assert answers == [404] * 4
