"""Dead letters: error groups, and changes of many jobs with plan, pace, canary, progress and abort."""

from collections.abc import Sequence

import pytest
from playwright.async_api import Page, expect
from tests.console.browser import Visitors
from tests.console.world import World

from leasehold.model.access import Role
from leasehold.model.job import JobId, TenantId, tenant_id
from leasehold.operations import bulk
from leasehold.store import Operation

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def dead_jobs(world: World, tenant: TenantId, number: int) -> list[JobId]:
    """Makes jobs that die of one error, each test for a tenant of its own."""
    jobs = [
        await world.enqueue("sync_folder", tenant, payload={"provider_id": "p_9", "path": f"/{each}"})
        for each in range(number)
    ]
    for job in jobs:
        await world.until(job, "dead letter", tenant=tenant)
    return jobs


async def attempts(world: World, tenant: TenantId, jobs: Sequence[JobId]) -> list[int]:
    """Returns the attempts of jobs when all of them have ended again: two for each that was not retried."""
    for job in jobs:
        await world.until(job, "dead letter", tenant=tenant)
    found = {job.id: job.attempt for job in await world.app.store.tenant(tenant).get_many(jobs)}
    return [found[job] for job in jobs]


async def operations(world: World, tenant: TenantId) -> Sequence[Operation]:
    return (await world.app.store.operations.list(tenant, None, 10)).operations


async def open_group(visitors: Visitors, tenant: TenantId, **options: object) -> Page:
    page = await visitors.open(f"/t/{tenant}/dead", Role.OPERATOR, tenant, **options)
    await page.get_by_role("link", name="TimeoutError", exact=True).click()
    await expect(page.get_by_role("heading", name="TimeoutError")).to_be_visible()
    return page


async def test_dead_jobs_are_grouped_by_their_error(visitors: Visitors, world: World) -> None:
    tenant = tenant_id("grouped")
    await dead_jobs(world, tenant, 3)
    page = await visitors.open(f"/t/{tenant}/dead", Role.OPERATOR, tenant)
    row = page.locator("tbody tr")
    await expect(row).to_have_count(1)
    await expect(row).to_contain_text("GET https://api.provider.test/v2/p_9 timed out after 30 s")
    await expect(row.locator("td[data-label=Jobs]")).to_have_text("3")
    await row.get_by_role("link", name="TimeoutError", exact=True).click()
    shares = page.locator(".shares")
    await expect(shares).to_contain_text('100%"p_9"')
    await expect(shares).to_contain_text("3 values, all different")
    await page.get_by_role("link", name="List the jobs").click()
    await expect(page.locator("tbody tr")).to_have_count(3)
    await page.locator("tbody .name").first.click()
    await page.get_by_role("link", name="same reason").click()
    await expect(page.get_by_role("heading", name="TimeoutError")).to_be_visible()


async def test_a_retry_keeps_its_pace_and_is_aborted(visitors: Visitors, world: World) -> None:
    tenant = tenant_id("paced")
    jobs = await dead_jobs(world, tenant, 3)
    page = await open_group(visitors, tenant)
    await page.get_by_role("link", name="Retry all").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_role("heading")).to_have_text("Retry 3 jobs?")
    await dialog.get_by_label("Jobs a minute").fill("1/h")
    await dialog.get_by_label("Reason").fill("provider is back")
    await dialog.get_by_role("button", name="Retry 3 jobs").click()
    await expect(page.locator("#progress")).to_contain_text("1 of 3 queued again")
    await expect(page.locator("#facts")).to_contain_text("provider is back")
    await page.get_by_role("link", name="Abort").click()
    await page.get_by_role("button", name="Abort it").click()
    await expect(page.locator("#head")).to_contain_text("Aborted")
    (operation,) = await operations(world, tenant)
    assert (operation.done, operation.reason) == (1, "provider is back")
    assert sorted(await attempts(world, tenant, jobs)) == [2, 2, 4]


async def test_jobs_that_die_after_the_dialog_are_left(visitors: Visitors, world: World) -> None:
    tenant = tenant_id("frozen")
    before = await dead_jobs(world, tenant, 2)
    page = await open_group(visitors, tenant)
    await page.get_by_role("link", name="Retry all").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("later jobs are not included")
    after = await dead_jobs(world, tenant, 1)
    await dialog.get_by_label("At once").check()
    await dialog.get_by_role("button", name="Retry 2 jobs").click()
    await expect(page.locator("#head")).to_contain_text("Done")
    await expect(page.locator("#progress")).to_contain_text("2 of 2 queued again")
    await expect(page.locator("#progress")).to_contain_text("1 ended after they were chosen")
    assert await attempts(world, tenant, [*before, *after]) == [4, 4, 2]


async def test_a_canary_that_fails_keeps_the_others(visitors: Visitors, world: World) -> None:
    tenant = tenant_id("canary")
    jobs = await dead_jobs(world, tenant, 3)
    page = await open_group(visitors, tenant)
    await page.get_by_role("link", name="Retry all").click()
    await page.get_by_label("One job first").check()
    await page.get_by_role("button", name="Retry 3 jobs").click()
    await expect(page.locator("#head")).to_contain_text("Failed")
    await expect(page.locator("#progress")).to_contain_text("No other job was retried")
    assert sorted(await attempts(world, tenant, jobs)) == [2, 2, 4]


async def test_escape_closes_and_two_clicks_begin_once(visitors: Visitors, world: World) -> None:
    tenant = tenant_id("clicks")
    await dead_jobs(world, tenant, 1)
    page = await open_group(visitors, tenant)
    opener = page.get_by_role("link", name="Retry it")
    await opener.click()
    await expect(page.get_by_role("dialog")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await expect(opener).to_be_focused()
    assert await operations(world, tenant) == []
    await opener.click()
    await page.get_by_role("button", name="Retry 1 job").dblclick()
    await expect(page.locator("#head")).to_contain_text("Done")
    assert len(await operations(world, tenant)) == 1


async def test_dead_letters_are_retried_without_javascript(visitors: Visitors, world: World) -> None:
    tenant = tenant_id("plain")
    jobs = await dead_jobs(world, tenant, 2)
    page = await open_group(visitors, tenant, java_script_enabled=False)
    await page.get_by_role("link", name="Retry all").click()
    await page.get_by_label("At once").check()
    await page.get_by_role("button", name="Retry 2 jobs").click()
    await expect(page.get_by_role("heading", name="Retry of jobs")).to_be_visible()
    assert await attempts_changed(world, tenant, jobs) == [4, 4]
    await page.goto(f"/t/{tenant}/jobs?q=status:dead-letter")
    await page.locator(".pick input").first.check()
    await page.get_by_role("button", name="Retry…").click()
    await expect(page.get_by_role("heading", name="Retry 1 job?")).to_be_visible()


async def attempts_changed(world: World, tenant: TenantId, jobs: Sequence[JobId]) -> list[int]:
    """Returns the attempts after the operation of the tenant has ended."""
    (operation,) = await operations(world, tenant)
    async for _ in bulk.run(world.app.store, operation):
        pass
    return await attempts(world, tenant, jobs)


async def test_chosen_rows_are_changed_and_others_not(visitors: Visitors, world: World) -> None:
    tenant = tenant_id("chosen")
    jobs = await dead_jobs(world, tenant, 3)
    page = await visitors.open(f"/t/{tenant}/jobs?q=status:dead-letter", Role.OPERATOR, tenant)
    retry = page.get_by_role("button", name="Retry…")
    await expect(retry).to_be_disabled()
    await page.keyboard.press("j")
    await page.keyboard.press("x")
    await page.keyboard.press("j")
    await page.keyboard.press("x")
    await expect(page.locator("[data-chosen]")).to_have_text("2 chosen")
    await retry.click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("2 chosen jobs")
    await page.keyboard.press("Escape")
    await expect(retry).to_be_focused()
    await retry.click()
    await dialog.get_by_role("button", name="Retry 2 jobs").click()
    await expect(page.locator("#head")).to_contain_text("Done")
    assert await attempts(world, tenant, jobs) == [2, 4, 4]


async def test_a_chosen_row_that_changes_stays_chosen(visitors: Visitors, world: World) -> None:
    tenant = tenant_id("patched")
    job = await world.enqueue("render_video", tenant, payload={"clip": "a"})
    page = await visitors.open(f"/t/{tenant}/jobs", Role.OPERATOR, tenant)
    await page.locator(".pick input[name]").check()
    await page.locator("main").focus()
    await world.app.store.tenant(tenant).cancel([job])
    await expect(page.locator("tbody tr")).to_contain_text("Canceled")
    await expect(page.locator(".pick input[name]")).to_be_checked()
    await page.get_by_role("button", name="Cancel…").click()
    await expect(page.get_by_role("dialog")).to_contain_text("1 canceled")
    await expect(page.get_by_role("button", name="Cancel 0 jobs")).to_be_disabled()


async def test_all_that_match_are_canceled_at_once(visitors: Visitors, world: World) -> None:
    tenant = tenant_id("matching")
    jobs = [await world.enqueue("render_video", tenant, payload={"clip": each}) for each in "abc"]
    kept = await world.enqueue("send_report", tenant, payload={"name": "later"}, delay="1d")
    page = await visitors.open(f"/t/{tenant}/jobs?q=status:queued+definition:render_video", Role.OPERATOR, tenant)
    await page.get_by_role("link", name="Cancel all that match").click()
    await page.get_by_label("At once").check()
    await page.get_by_role("button", name="Cancel 3 jobs").click()
    await expect(page.locator("#head")).to_contain_text("Done")
    for job in jobs:
        await world.until(job, "canceled", tenant=tenant)
    await world.until(kept, "scheduled", tenant=tenant)


async def test_errors_of_several_tenants_are_one_row(visitors: Visitors, world: World) -> None:
    one, two = tenant_id("first"), tenant_id("second")
    await dead_jobs(world, one, 1)
    await dead_jobs(world, two, 2)
    page = await visitors.open("/all/dead", Role.SUPER_ADMIN)
    row = page.locator("tbody tr", has=page.get_by_role("link", name="TimeoutError", exact=True))
    await expect(row).to_have_count(1)
    await row.get_by_role("link", name="TimeoutError", exact=True).click()
    await expect(page.locator("tbody tr", has_text="second").locator("td[data-label=Jobs]")).to_have_text("2")
    await page.get_by_role("link", name="first", exact=True).click()
    assert f"/t/{one}/dead/" in page.url
