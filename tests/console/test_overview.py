"""The overview: tiles of now, and charts that lead to the jobs behind them."""

import pytest
from playwright.async_api import expect
from tests.console.browser import Visitors
from tests.console.world import World

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_tile_leads_to_the_jobs_that_it_counts(visitors: Visitors) -> None:
    page = await visitors.open("/t/acme")
    await page.locator("#tiles").get_by_role("link", name="Dead letter").click()
    await expect(page.get_by_label("Filter jobs")).to_have_value("status:dead-letter")
    await expect(page.locator("tbody tr").first).to_contain_text("Dead letter")


async def test_a_shape_of_a_chart_leads_where_its_legend_leads(visitors: Visitors, world: World) -> None:
    while await world.app.store.roll_up():
        continue
    page = await visitors.open("/t/acme?window=24h")
    chart = page.locator("section", has=page.get_by_role("heading", name="Ends of jobs and tries"))
    shape = chart.locator("path[data-s=succeeded]")
    target = await chart.get_by_role("link", name="succeeded").get_attribute("href")
    assert await shape.get_attribute("data-href") == target
    await shape.dispatch_event("click")
    await expect(page.get_by_label("Filter jobs")).to_have_value("status:succeeded created:<24h")


async def test_each_chart_is_a_table_too(visitors: Visitors) -> None:
    page = await visitors.open("/t/acme?window=1h")
    for chart in await page.locator(".charts section:has(svg[role=img])").all():
        await chart.get_by_text("View as table").click()
        heads = await chart.locator("thead th").all_text_contents()
        assert heads[0] == "From"
        legend = await chart.locator(".legend li").all_text_contents()
        assert {each.strip() for each in legend} <= set(heads)


async def test_every_window_of_the_overview_has_an_address(visitors: Visitors) -> None:
    page = await visitors.open("/t/acme", java_script_enabled=False)
    for window in ("15m", "1h", "6h", "24h", "7d", "30d"):
        await page.get_by_role("link", name=window, exact=True).click()
        assert page.url.endswith(f"?window={window}")
        await expect(page.locator("[aria-current]", has_text=window)).to_be_visible()
