"""Pages that stay up to date: by the stream, by polling without it, and without disturbing their reader."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from playwright.async_api import Page, Request, expect
from tests.conftest import PATIENCE, eventually
from tests.console.browser import Visitors
from tests.console.trigger_world import EVENT
from tests.console.world import ACME, INITECH, World, make_app, signed_in

from leasehold.api import live, streams
from leasehold.cli.api_server import address_of, bind, serving
from leasehold.engines.postgres.database import Database
from leasehold.engines.postgres.watching import PostgresWatcher
from leasehold.model.access import Role
from leasehold.operations.tokens import FRESH
from leasehold.store import Changed, Watched

pytestmark = pytest.mark.asyncio(loop_scope="session")

PLACES = """() => [...document.querySelectorAll('main *')].map((each) => {
  const box = each.getBoundingClientRect();
  return [each.tagName, each.id, box.x, box.y, box.width, box.height];
})"""
AGE = """() => {
  for (const each of document.querySelectorAll('main time')) each.textContent = '29d ago';
}"""
HIDE = """(hidden) => {
  Object.defineProperty(document, 'hidden', { configurable: true, get: () => hidden });
  document.dispatchEvent(new Event('visibilitychange'));
}"""


async def open_without_timers(visitors: Visitors, path: str, **options: Any) -> Page:
    """Opens a page whose clock stands still: no timer fires, so it can't poll, and only the stream makes it look."""
    page = await visitors.open(**options)
    began = datetime.now(UTC)
    await page.clock.install(time=began)
    await page.clock.pause_at(began + timedelta(seconds=1))
    async with page.expect_request_finished(lambda request: is_look(page, request, path)):
        await page.goto(path)
    return page


def is_look(page: Page, request: Request, path: str) -> bool:
    return request.resource_type == "xhr" and request.url.endswith(path)


async def test_the_stream_brings_rows_and_nothing_moves(visitors: Visitors, world: World) -> None:
    job = await world.enqueue("send_report", payload={"name": "x"}, delay="2d", correlation_id="live-rows")
    page = await open_without_timers(visitors, "/t/acme/jobs?q=correlation:live-rows")
    row = page.locator(f"tr[data-key='acme/{job}']")
    await expect(row).to_contain_text("Scheduled")
    before = await page.evaluate(PLACES)
    made = await world.enqueue("send_report", payload={"name": "y"}, delay="2d", correlation_id="live-rows")
    pill = page.get_by_role("link", name="1 new")
    await expect(pill).to_be_visible()
    after = await page.evaluate(PLACES)
    assert [each for each in before if each not in after and each[5]] == []
    await world.app.store.tenant(ACME).cancel([job, made])
    await expect(row).to_contain_text("Canceled")
    assert [each[3:] for each in await page.evaluate(PLACES) if each[0] == "TR"] == [
        each[3:] for each in before if each[0] == "TR"
    ]
    await pill.click()
    await expect(page.locator("#rows tbody tr")).to_have_count(2)


async def test_ages_change_and_nothing_moves(visitors: Visitors, world: World) -> None:
    job = await world.enqueue("send_report", payload={"name": "x"}, delay="2d", correlation_id="live-ages")
    page = await open_without_timers(visitors, "/t/acme/jobs?q=correlation:live-ages")
    age = page.locator(f"tr[data-key='acme/{job}'] time").first
    before, text = await page.evaluate(PLACES), await age.inner_text()
    await page.evaluate(AGE)
    assert await age.inner_text() != text
    assert await page.evaluate(PLACES) == before


async def test_what_is_read_or_open_stays_as_it_is(visitors: Visitors, world: World) -> None:
    job = await world.enqueue("send_report", payload={"name": "z"}, delay="2d", correlation_id="live-selected")
    other = await world.enqueue("send_report", payload={"name": "z"}, delay="2d", correlation_id="live-selected")
    page = await visitors.open("/t/acme/jobs?q=correlation:live-selected")
    row, beside = (page.locator(f"tr[data-key='acme/{each}']") for each in (job, other))
    await row.evaluate("(row) => getSelection().selectAllChildren(row.querySelector('th'))")
    await world.app.store.tenant(ACME).cancel([job, other])
    await expect(beside).to_contain_text("Canceled")
    await expect(row).to_contain_text("Scheduled")
    assert await page.evaluate("getSelection().toString()") != ""
    await page.evaluate("getSelection().empty()")
    await expect(row).to_contain_text("Canceled")


async def test_pages_of_triggers_follow_the_stream(visitors: Visitors, world: World) -> None:
    """A fire makes a job, of which the stream tells; the list of events has a button for the new one."""
    trigger = world.triggers["changed"]
    pages = [
        await open_without_timers(visitors, path)
        for path in ("/t/acme/triggers", f"/t/acme/triggers/{trigger}", "/t/acme/events")
    ]
    decisions = pages[1].locator("#trigger-decisions tbody tr")
    before = await decisions.count()
    data = {"provider": f"p_{time.monotonic_ns()}", "path": "/live", "size": 500}
    await world.app.tenant(ACME).aemit(EVENT, data)
    await expect(decisions).to_have_count(before + 1)
    await expect(pages[0].locator(f"tr[data-key='{trigger}'] td[data-label='Last decision']")).to_contain_text(
        "Fired"
    )
    await expect(pages[2].get_by_role("link", name="1 new")).to_be_visible()


async def test_a_page_polls_without_its_stream(visitors: Visitors, world: World) -> None:
    visitors.expected = ("net::ERR_FAILED",)
    page = await visitors.open()
    await page.route("**/api/v1/stream*", lambda route: route.abort())
    await page.goto("/t/acme/jobs?q=correlation:live-polled")
    await expect(page.locator("[data-live-chip]")).to_have_text("Polling")
    job = await world.enqueue("send_report", payload={"name": "p"}, delay="2d", correlation_id="live-polled")
    await expect(page.get_by_role("link", name="1 new")).to_be_visible()
    await world.app.store.tenant(ACME).cancel([job])


async def test_a_hidden_page_closes_its_stream(visitors: Visitors) -> None:
    page = await visitors.open()
    is_stream = lambda request: "/api/v1/stream" in request.url  # noqa: E731
    async with page.expect_request(is_stream):
        await page.goto("/t/acme/jobs")
    await expect(page.locator("[data-live-chip]")).to_have_text("Live")
    async with page.expect_event("requestfailed", is_stream):
        await page.evaluate(HIDE, True)
    async with page.expect_request(is_stream):
        await page.evaluate(HIDE, False)


async def test_a_job_page_follows_its_job_by_the_stream(visitors: Visitors, world: World) -> None:
    job = await world.enqueue("send_report", payload={"name": "q"}, delay="2d")
    page = await open_without_timers(visitors, f"/t/acme/jobs/{job}")
    await world.app.store.tenant(ACME).cancel([job])
    await expect(page.locator("#head")).to_contain_text("Canceled")
    await expect(page.locator("[data-live-chip]")).to_have_count(0)


# The stream of a session


@asynccontextmanager
async def reading(http: httpx.AsyncClient, path: str = "/api/v1/stream") -> AsyncIterator[list[str]]:
    """Reads a stream in the background; yields the lines that have come."""
    lines: list[str] = []
    async with http.stream("GET", path, timeout=httpx.Timeout(60, read=None)) as answer:
        assert answer.status_code == 200

        async def read() -> None:
            async for line in answer.aiter_lines():
                lines.append(line)  # noqa: PERF401 - its reader looks at it meanwhile

        task = asyncio.create_task(read())
        try:
            yield lines
        finally:
            task.cancel()
            await asyncio.wait([task])


async def until(lines: list[str], part: str) -> None:
    async def has_come() -> bool:
        return any(part in line for line in lines)

    await eventually(has_come, what=f"{part!r} in the stream")


async def test_the_stream_of_a_session_has_its_tenant_only(world: World) -> None:
    async with signed_in(world, await world.session(Role.VIEWER)) as http:
        assert (await http.get("/api/v1/stream?tenant=initech")).status_code == 403
        async with reading(http) as lines:
            await until(lines, "reload")
            theirs = await world.enqueue("send_report", INITECH, payload={"name": "theirs"})
            await world.until(theirs, "succeeded", tenant=INITECH)
            ours = await world.enqueue("send_report", payload={"name": "ours"})
            await until(lines, ours)
            assert not [line for line in lines if theirs in line or INITECH in line]


async def test_a_change_is_told_by_the_next_look(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look begins half a second after the one before, and its news are sent at once: no change waits for 1 s."""
    looks: list[Changed | None] = []
    plain = PostgresWatcher.look

    async def noted(self: PostgresWatcher, watched: Watched) -> Changed:
        number = len(looks)
        looks.append(None)
        looks[number] = found = await plain(self, watched)
        return found

    monkeypatch.setattr(PostgresWatcher, "look", noted)
    async with signed_in(world, await world.session(Role.VIEWER)) as http, reading(http) as lines:
        await until(lines, "reload")
        job = await world.enqueue("send_report", payload={"name": "told"}, delay="2d")
        begun = len(looks)
        await until(lines, job)
    done = [each for each in looks if each is not None]
    told = next(number for number, each in enumerate(done) if job in each.jobs.get(ACME, ()))
    assert told <= begun
    assert {each.pause for each in done} == {0.5}
    assert live.SHORTEST_PAUSE <= 0.5
    await world.app.store.tenant(ACME).cancel([job])


async def test_fifty_open_consoles_cost_a_bounded_number_of_statements(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    plain = Database.fetch

    async def counted(self: Database, name: str, /, **values: Any) -> Any:
        if self in counting:
            sent.append(name)
        return await plain(self, name, **values)

    monkeypatch.setattr(Database, "fetch", counted)
    counting: list[Database] = []
    sessions = [await world.session(Role.VIEWER, tenant) for tenant in (ACME, INITECH) for _ in range(25)]
    app, bound = make_app(world.url, asyncio.Queue()), bind("127.0.0.1", 0)
    console = app.console()
    async with serving(console, bound), AsyncExitStack() as stack:
        other = World(app, address_of(bound), world.url)
        opened = [
            await stack.enter_async_context(reading(await stack.enter_async_context(signed_in(other, secret))))
            for secret in sessions
        ]
        for lines in opened:
            await until(lines, "reload")

        async def find(catalog: Any) -> Database:
            found: Database = catalog.store._database
            return found

        counting.append(await console.api.state.guard.backend.call(find))
        began = time.monotonic()
        for tenant in (ACME, INITECH):
            job = await world.enqueue("send_report", tenant, payload={"name": "told"})
            for lines in opened[:25] if tenant == ACME else opened[25:]:
                await until(lines, job)

        async def are_checked() -> bool:
            return sent.count("tokens/session") >= 50

        await eventually(are_checked)
        seconds = time.monotonic() - began
    looks = [name for name in sent if "changes" in name]
    assert 2 <= len(looks) <= seconds / live.SHORTEST_PAUSE + 1
    rest = [name for name in sent if "changes" not in name]
    assert len(rest) <= 2 * 50 * (seconds / FRESH + 1), rest
    assert seconds < PATIENCE.total_seconds() * 3
    assert streams.BETWEEN_CHECKS < FRESH
