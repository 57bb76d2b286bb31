"""Workers, tenants, health and the audit log: what each role sees, and what super admins change."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html import unescape

import httpx
import pytest
from playwright.async_api import Browser, expect
from tests.conftest import eventually
from tests.console.browser import Visitors
from tests.console.world import ACME, INITECH, World, make_app, signed_in
from tests.database_server import DatabaseServer

from leasehold import Leasehold
from leasehold.cli.api_server import address_of, bind, serving
from leasehold.engines import engine_for
from leasehold.errors import Unreachable
from leasehold.model.access import Permission, Role
from leasehold.model.audit import Actor
from leasehold.model.job import WorkerId, tenant_id
from leasehold.model.limits import Scope, ScopeKind
from leasehold.operations import admin, audit, health, jobs
from leasehold.operations.health import WorkerState, state_of
from leasehold.store import Registration, Store, Subscription, WorkerFacts, WorkerRecord
from leasehold.store.reclaim import reclaim_orphans

pytestmark = pytest.mark.asyncio(loop_scope="session")

HOUR = timedelta(hours=1)
WIDE = ("/all/workers", "/all/tenants", "/all/health", "/all/audit")


async def join(store: Store, lease: timedelta, host: str = "lab-7", version: str = "") -> Registration:
    return await store.join(Subscription(("render_video",)), WorkerFacts(host, 4711, version, slots=4), lease)


# Workers


@asynccontextmanager
async def quiet_console(database_server: DatabaseServer) -> AsyncIterator[tuple[World, Leasehold, str]]:
    """Serves a console without a worker, on a database of its own, whose clock can be moved."""
    async with database_server.fresh() as url:
        app, bound = make_app(url, asyncio.Queue()), bind("127.0.0.1", 0)
        async with app.open(), serving(app.console(), bound):
            await app.store.sync_definitions(app.handlers.definitions)
            yield World(app, address_of(bound), url), app, url


async def test_a_silent_worker_is_late_then_stale_then_gone() -> None:
    began = datetime(2030, 1, 1, tzinfo=UTC)
    facts, serves = WorkerFacts("lab", 1), Subscription(())
    worker = WorkerRecord(WorkerId("w"), facts, serves, 0, began, began, began + timedelta(seconds=60))
    states = {second: state_of(worker, began + timedelta(seconds=second)) for second in (0, 30, 31, 41, 59, 60)}
    live, draining, late, stale, gone = WorkerState
    assert states == {0: live, 30: live, 31: late, 41: stale, 59: stale, 60: gone}
    drains = replace(worker, drains_since=began)
    states = {second: state_of(drains, began + timedelta(seconds=second)) for second in (0, 31, 41, 60)}
    assert states == {0: draining, 31: draining, 41: stale, 60: gone}


async def test_a_worker_that_drains_is_shown_and_serves_no_more(database_server: DatabaseServer) -> None:
    async with quiet_console(database_server) as (world, app, _):
        registration = await join(app.store, HOUR)
        await world.enqueue("render_video", payload={"clip": "a.mp4"})
        await world.enqueue("render_video", payload={"clip": "b.mp4"})
        await app.store.claim(registration, 1)
        await app.store.note_drain(registration)
        async with signed_in(world, await world.session(Role.SUPER_ADMIN)) as http:
            page = text_of(await http.get("/all/workers"))
            (listed,) = (await http.get("/api/v1/admin/workers")).json()["workers"]
            held = await http.get(f"/all/jobs?q=worker:{registration.worker}")
            strip = text_of(await http.get("/all/jobs"))
        assert re.search(r"Draining since just now lab-7 ?:4711|Draining since \ds ago lab-7 ?:4711", page)
        assert listed["drains_since"] is not None
        assert held.text.count("<tr data-key=") == 1
        assert "No worker is live, and jobs wait." in strip


async def test_the_page_of_workers_tells_which_leases_end_when(database_server: DatabaseServer) -> None:
    async with quiet_console(database_server) as (world, app, url):
        job = await world.enqueue("render_video", payload={"clip": "a.mp4"})
        silent = await join(app.store, HOUR, version="2.0")
        (claim,) = (await app.store.claim(silent, 1)).claims
        assert claim.job == job
        await engine_for(url).test_kit().clock().move(timedelta(minutes=45))
        await join(app.store, 2 * HOUR, host="lab-8")
        await join(app.store, 2 * HOUR, host="lab-9")
        async with signed_in(world, await world.session(Role.SUPER_ADMIN)) as http:
            page = text_of(await http.get("/all/workers"))
            listed = (await http.get("/api/v1/admin/workers")).json()["workers"]
            strip = text_of(await http.get("/all/jobs"))
        assert re.search(
            r"lab-7:4711 is silent for 45m.* Its lease ends in 1\dm ?; then 1 job that it holds is", page
        )
        assert re.search(r"Stale lab-7 ?:4711 .*2.0 differs 1 ?/4 45m.*45m ago", page)
        assert re.findall(r"(?:Stale|Live) lab-\d", page) == ["Stale lab-7", "Live lab-8", "Live lab-9"]
        assert listed[0]["oldest_started_at"] is not None
        assert listed[0]["listens"] is False
        assert re.search(r"Worker lab-7:4711 is silent for 45m( \d+s)?, with 1 job\. Its lease ends in 1\dm", strip)


async def test_an_attempt_whose_lease_was_lost_is_marked(database_server: DatabaseServer) -> None:
    async with quiet_console(database_server) as (world, app, url):
        job = await world.enqueue("render_video", payload={"clip": "a.mp4"})
        await app.store.claim(await join(app.store, HOUR), 1)
        await engine_for(url).test_kit().clock().move(2 * HOUR)
        await reclaim_orphans(app.store)
        async with signed_in(world, await world.session(Role.SUPER_ADMIN)) as http:
            answer = await http.get(f"/t/acme/jobs/{job}")
        assert re.search(r"Crashed try 1 .*lease", text_of(answer))
        assert re.search(r'aria-label="[^"]*try 1 crashed', answer.text)


async def test_a_strip_says_that_no_worker_lives_while_jobs_wait(database_server: DatabaseServer) -> None:
    async with quiet_console(database_server) as (world, app, _):
        async with signed_in(world, await world.session(Role.SUPER_ADMIN)) as admin_http:
            assert "No worker is live" not in (await admin_http.get("/all")).text
            await world.enqueue("render_video", payload={"clip": "a.mp4"})

            async def is_told() -> bool:
                return "No worker is live, and jobs wait." in (await admin_http.get("/all/jobs")).text

            await eventually(is_told)
        async with signed_in(world, await world.session(Role.VIEWER)) as http:
            page = text_of(await http.get("/t/acme/health"))
            assert "No live worker runs its jobs, and some wait." in page
            assert "no live worker can run jobs, and some wait" in page
            await join(app.store, HOUR)

            async def is_well() -> bool:
                return "1 worker can run jobs" in text_of(await http.get("/t/acme/health"))

            await eventually(is_well)


async def test_a_page_does_not_fail_for_its_strip(
    database_server: DatabaseServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> bool:
        raise Unreachable("the database does not answer", fix="Try again.")

    monkeypatch.setattr(health, "has_ready_jobs", fail)
    async with (
        quiet_console(database_server) as (world, _, _),
        signed_in(world, await world.session(Role.VIEWER)) as http,
    ):
        assert (await http.get("/t/acme/jobs")).status_code == 200


async def test_a_strip_that_comes_later_moves_nothing(browser: Browser, database_server: DatabaseServer) -> None:
    async with quiet_console(database_server) as (world, app, _):
        worker, visitors = await join(app.store, HOUR), Visitors(browser, world)
        page = await visitors.open("/t/acme/jobs?q=definition:send_report")
        before = await page.locator("h1").bounding_box()
        await app.store.leave(worker)
        await world.enqueue("send_report", payload={"name": "waits"})
        await expect(page.locator("#strip")).to_contain_text("No live worker runs its jobs")
        assert await page.locator("h1").bounding_box() == before
        await visitors.close()


def text_of(answer: httpx.Response) -> str:
    """Returns the words of a page."""
    assert answer.status_code == 200, answer.text
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", answer.text)).split()).replace(" :", ":")


# Roles


async def test_people_of_a_tenant_see_no_workers_and_no_tenants(world: World) -> None:
    for role in (Role.VIEWER, Role.OPERATOR, Role.TENANT_ADMIN):
        async with signed_in(world, await world.session(role)) as http:
            page = await http.get("/t/acme/health")
            sections = re.findall(r'data-section="(\w+)"', page.text)
            assert ("audit" in sections) is (role is Role.TENANT_ADMIN)
            assert not {"workers", "tenants"} & set(sections)
            refused = [(await http.get(path)).status_code for path in (*WIDE, "/t/acme/workers", "/t/acme/tenants")]
            assert set(refused) <= {403, 404}
            assert (await http.get("/t/acme/audit")).status_code == (200 if role is Role.TENANT_ADMIN else 403)
            for path in ("/api/v1/admin/health", "/api/v1/admin/workers", "/api/v1/admin/tenants"):
                assert (await http.get(path)).status_code == 403
            for verb in ("pause", "resume", "limit"):
                assert (await http.get(f"/all/tenants/acme/{verb}")).status_code in (403, 404)
            hosts = {each.facts.host for each in await world.app.store.workers()}
            assert not [host for host in hosts if re.search(rf"\b{re.escape(host)}\b", text_of(page))]


async def test_a_super_admin_reads_the_findings_of_doctor(world: World) -> None:
    async with signed_in(world, await world.session(Role.SUPER_ADMIN)) as http:
        page = text_of(await http.get("/all/health"))
        found = (await http.get("/api/v1/admin/health")).json()["findings"]
        of_tenant = (await http.get("/t/acme/health")).text
    checks = ["database", "durability", "schema", "listener", "clock", "workers", "schedules", "scheduler", "leases"]
    checks += ["bloat", "snapshots", "connections", "notifications", "figures"]
    assert [each["check"] for each in found] == checks
    assert all(check in page for check in checks)
    assert 'href="/all/health"' in of_tenant


# Tenants


async def test_a_tenant_is_paused_limited_and_resumed(visitors: Visitors, world: World) -> None:
    await world.enqueue("send_report", INITECH, payload={"name": "x"}, delay="1d")
    scope = Scope(ScopeKind.TENANT, INITECH)
    page = await visitors.open("/all/tenants", Role.SUPER_ADMIN)
    row = page.locator("tr[data-key=initech]")
    await row.get_by_role("link", name="Pause").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Reason").fill("their provider is down")
    await dialog.get_by_label("For how long").fill("2h")
    await dialog.get_by_role("button", name="Pause").click()
    await expect(page.get_by_role("status").first).to_contain_text("The tenant is paused")
    await expect(row).to_contain_text("their provider is down, until")
    assert (await world.app.store.scope(scope)).paused_by == "super_admin-None"
    await row.get_by_role("link", name="Limit").click()
    await dialog.get_by_label("Jobs at once").fill("3")
    await dialog.get_by_role("button", name="Set the limit").click()
    await expect(row).to_contain_text("/3")
    await row.get_by_role("link", name="Resume").click()
    await dialog.get_by_role("button", name="Resume").click()
    await expect(page.get_by_role("status").first).to_contain_text("The tenant is resumed")
    await expect(row).not_to_contain_text("paused")
    await admin.limit(world.app.store, scope, None, Actor("test"))


async def test_tenants_are_changed_without_javascript(visitors: Visitors, world: World) -> None:
    visitors.expected = ("422",)
    await world.app.store.add_tenant(tenant_id("a/b"))
    page = await visitors.open("/all/tenants?cursor=a", Role.SUPER_ADMIN, java_script_enabled=False)
    await page.locator("tr[data-key='a/b']").get_by_role("link", name="Limit").click()
    await page.get_by_label("Jobs at once").fill("many")
    await page.get_by_role("button", name="Set the limit").click()
    await expect(page.get_by_role("alert")).to_contain_text("'many' is not a number of jobs")
    await page.get_by_label("Jobs at once").fill("2")
    await page.get_by_role("button", name="Set the limit").click()
    await expect(page.locator("tr[data-key='a/b']")).to_contain_text("/2")


# Audit


async def test_the_audit_page_is_filtered_and_paged(world: World) -> None:
    job = await world.enqueue("send_report", payload={"name": "x"}, delay="1d")
    for number in range(55):
        await admin.limit(world.app.store, Scope(ScopeKind.TENANT, ACME), number + 100, Actor("ada"))
    await jobs.cancel(world.app.store, ACME, job, Actor("ada"))
    async with signed_in(world, await world.session(Role.TENANT_ADMIN)) as http:
        first = await http.get("/t/acme/audit?action=tenant.limit")
        assert first.text.count("<b>tenant.limit</b>") == 50
        assert "max_running 153 → 154" in text_of(first)
        (older,) = re.findall(r'href="([^"]*cursor=[^"]*)"', first.text)
        assert "max_running 103 → 104" in text_of(await http.get(unescape(older)))
        canceled = await http.get("/t/acme/audit?action=job.cancel")
        assert f'href="/t/acme/jobs/{job}"' in canceled.text
        assert (await http.get("/t/acme/audit?after=soon")).status_code == 422
        assert "No entry matches" in (await http.get("/t/acme/audit?before=2020-01-01T00:00")).text
        foreign = await http.get("/t/acme/audit?tenant=initech")
        assert "tenant initech" not in foreign.text
    await admin.limit(world.app.store, Scope(ScopeKind.TENANT, ACME), None, Actor("ada"))


async def test_the_audit_page_hides_templates_from_other_roles(world: World) -> None:
    saved = {"label": "Audited", "payload": {"name": "{{event.audited_path}}"}, "filter": []}
    await audit.record(world.app.store, Actor("ada"), "trigger.create", "trigger Audited", after=saved, tenant=ACME)
    few = (Permission.JOBS_READ, Permission.AUDIT_READ)
    async with await world.signed_in(Role.TENANT_ADMIN, *few) as http:
        hidden = await http.get("/t/acme/audit?action=trigger.create")
    async with await world.signed_in(Role.TENANT_ADMIN) as http:
        shown = await http.get("/t/acme/audit?action=trigger.create")
    assert "Audited" in hidden.text
    assert "audited_path" not in hidden.text
    assert "payload, filter: not for your role" in text_of(hidden)
    assert "audited_path" in shown.text
