"""The overview: tiles of now, and charts that lead to the jobs behind them."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from playwright.async_api import Browser, Page, expect
from tests.console.browser import Visitors
from tests.console.test_fleet import HOUR, join, quiet_console, text_of
from tests.console.world import ACME, GLOBEX, World, signed_in
from tests.database_server import DatabaseServer

from leasehold.engines import engine_for
from leasehold.model.access import Role
from leasehold.model.outcome import Raised, Succeeded, decide

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


@asynccontextmanager
async def known_console(database_server: DatabaseServer) -> AsyncIterator[World]:
    """Serves the console of an hour in which four jobs waited for 70 s, and then ran for 70 s.

    Three of them are acme's, of which one failed. Two more of acme and one of globex wait, and a dead one is acme's.
    """
    async with quiet_console(database_server) as (world, app, url):
        clock, while_ = engine_for(url).test_kit().clock(), timedelta(seconds=70)
        for tenant in (ACME, ACME, ACME, GLOBEX):
            await world.enqueue("render_video", tenant, payload={"clip": "a.mp4"}, max_attempts=1)
        await clock.move(while_)
        claims = (await app.store.claim(await join(app.store, HOUR), 4)).claims
        await clock.move(while_)
        fails = next(claim for claim in claims if claim.tenant == ACME)
        failed, succeeded = Raised("TimeoutError", "no answer"), Succeeded(None)
        ends = [(claim, decide(failed if claim is fails else succeeded, claim, jitter=0)) for claim in claims]
        assert not await app.store.finish(ends)
        for tenant in (ACME, ACME, GLOBEX):
            await world.enqueue("render_video", tenant, payload={"clip": "b.mp4"})
        await clock.move(while_)
        while await app.store.roll_up():
            continue
        yield world


async def table_of(page: Page, chart: str) -> dict[str, set[str]]:
    """Opens the table of a chart; returns the figures of each column, without steps that have none."""
    card = page.locator("section", has=page.locator(f"#chart-{chart}"))
    await card.get_by_text("View as table").click()
    await expect(card.locator("table")).to_be_visible()
    heads = await card.locator("thead th").all_text_contents()
    rows = [await row.locator("td").all_text_contents() for row in await card.locator("tbody tr").all()]
    legend = [(each.strip()) for each in await card.locator(".legend li").all_text_contents()]
    assert set(legend) <= set(heads)
    return {head: set(column) - {"0", "–"} for head, *column in zip(heads, *rows, strict=True) if head != "From"}


CHARTS = [
    "Jobs that wait or run",
    "Ends of jobs and tries",
    "Time until a job starts",
    "Time that a try takes",
    "Failures",
]


async def test_each_chart_of_a_tenant_is_a_table_too(browser: Browser, database_server: DatabaseServer) -> None:
    async with known_console(database_server) as world:
        visitors = Visitors(browser, world)
        page = await visitors.open("/t/acme?window=15m")
        titles = await page.locator(".charts h2").evaluate_all(
            "(all) => all.map((each) => each.firstChild.data.trim())"
        )
        assert titles == [*CHARTS, "Errors"]
        assert await table_of(page, "depth") == {"running": set(), "ready": {"2"}, "retrying": set()}
        ends = {"succeeded": {"2"}, "failed tries": {"1"}, "canceled": set(), "gave up": {"1"}}
        assert await table_of(page, "ends") == ends
        wait, run = await table_of(page, "wait"), await table_of(page, "run")
        assert wait == {"half wait less than": {"1m 38s"}, "95 % wait less than": {"2m 8s"}}
        assert run == {"half run less than": {"1m 38s"}, "95 % run less than": {"2m 8s"}}
        assert await table_of(page, "failures") == {"failed tries": {"33.3%"}}
        await visitors.close()


async def test_the_charts_of_all_tenants_have_their_shares(browser: Browser, database_server: DatabaseServer) -> None:
    async with known_console(database_server) as world:
        visitors = Visitors(browser, world)
        page = await visitors.open("/all?window=15m", Role.SUPER_ADMIN)
        titles = await page.locator(".charts h2").evaluate_all(
            "(all) => all.map((each) => each.firstChild.data.trim())"
        )
        assert titles == [*CHARTS, "Tenants at work", "Errors"]
        assert (await table_of(page, "depth"))["ready"] == {"3"}
        assert (await table_of(page, "ends"))["succeeded"] == {"3"}
        assert await table_of(page, "failures") == {"failed tries": {"25.0%"}}
        assert await table_of(page, "tenants") == {"acme": {"75%"}, "globex": {"25%"}}
        await visitors.close()


async def test_tiles_and_tabs_count_the_jobs_of_all_tenants(database_server: DatabaseServer) -> None:
    async with (
        known_console(database_server) as world,
        signed_in(world, await world.session(Role.SUPER_ADMIN)) as http,
    ):
        await world.app.store.claim(await join(world.app.store, HOUR), 1)
        tiles, tabs = text_of(await http.get("/all")), text_of(await http.get("/all/jobs"))
        of_one = text_of(await http.get("/all/jobs?q=tenant:globex"))
    assert re.search(r"Waiting 2 Running 1 Dead letter 1 Longest wait 1m 1\ds Counted ", tiles)
    assert "All Waiting 2 Running 1 Succeeded Canceled Failed Dead letter 1 Filter jobs" in tabs
    assert "Succeeded 1 Canceled 0 Failed 0 Dead letter 0 Filter jobs" in of_one


async def test_every_window_of_the_overview_has_an_address(visitors: Visitors) -> None:
    page = await visitors.open("/t/acme", java_script_enabled=False)
    for window in ("15m", "1h", "6h", "24h", "7d", "30d"):
        await page.get_by_role("link", name=window, exact=True).click()
        assert page.url.endswith(f"?window={window}")
        await expect(page.locator("[aria-current]", has_text=window)).to_be_visible()
