"""The list of jobs: tabs, filters, pages, held jobs, and rows that come while it is read."""

import pytest
from playwright.async_api import expect
from tests.console.browser import Visitors
from tests.console.world import ACME, CANARY, MANY, World

from leasehold.model.access import Role

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
    await page.get_by_role("link", name="Older").click()
    await expect(page.locator("tbody tr")).to_have_count(MANY + 1 - 50)
    await page.reload()
    await expect(page.locator("tbody tr")).to_have_count(MANY + 1 - 50)
    await page.get_by_role("link", name="Remove status:scheduled").click()
    await expect(page.get_by_label("Filter jobs")).to_have_value("definition:send_report")
    await page.goto("/t/acme/jobs?q=status:scheduled&limit=25&column=correlation")
    await expect(page.locator("tbody tr")).to_have_count(25)
    assert await page.locator("thead th").all_text_contents() == ["", "State", "Job", "Correlation"]


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
