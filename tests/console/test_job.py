"""The page of a job: its story, its log, and what can be done with it."""

import re
from datetime import UTC, datetime

import pytest
from playwright.async_api import expect
from tests.conftest import eventually
from tests.console.browser import Visitors
from tests.console.trigger_world import HOSTILE
from tests.console.world import ACME, World

from leasehold.console.timeline import THINNEST, timeline_of
from leasehold.model.access import Role
from leasehold.model.job import JobId
from leasehold.operations import reading
from leasehold.store import AuditFilter

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_the_page_tells_how_a_job_failed(visitors: Visitors, world: World) -> None:
    page = await visitors.open(f"/t/acme/jobs/{world.jobs['dead letter']}")
    attempts = page.locator("details.attempt")
    await expect(attempts).to_have_count(2)
    await expect(attempts.first.locator("> summary")).to_contain_text("try 2")
    await expect(attempts.first.locator(".error-text")).to_contain_text("timed out after 30 s")
    own, whole = attempts.first.locator("details.trace").all_inner_texts, page.get_by_text("Full trace").first
    assert "in fetch" in (await own())[0]
    assert "tasks.py" not in (await own())[0]
    await whole.click()
    assert "tasks.py" in (await own())[1]
    await expect(page.locator(".timeline rect")).to_have_count(2)
    await expect(page.locator("#log")).to_contain_text("retrying 429 from provider")
    await expect(page.locator("#log .yellow").first).to_be_visible()


async def test_of_many_attempts_the_newest_are_shown(world: World) -> None:
    job = await world.enqueue("knock")
    await world.until(job, "dead letter")
    async with await world.signed_in(Role.OPERATOR) as http:
        page = (await http.get(f"/t/acme/jobs/{job}")).text
    assert re.findall(r'class="attempt" id="attempt-(\d+)"', page) == [str(number) for number in range(22, 2, -1)]
    assert "2 earlier attempts not shown" in page
    record = await world.app.store.tenant(ACME).get(job)
    assert record is not None
    attempts = await reading.attempts_of(world.app.store, record)
    timeline = timeline_of(record, [*attempts] * 10, datetime.now(UTC))
    assert timeline is not None
    assert (timeline.is_cut, sum(bar.state != "wait" for bar in timeline.bars)) == (True, 100)


async def test_secrets_of_a_payload_are_redacted(visitors: Visitors, world: World) -> None:
    page = await visitors.open(f"/t/acme/jobs/{world.jobs['succeeded']}")
    await expect(page.locator("pre[aria-label=Payload]")).to_contain_text('"api_key": "[redacted]"')
    await expect(page.locator("pre[aria-label=Result]")).to_contain_text("july.pdf")
    assert "s3cr3t-value-of-acme" not in await page.content()


async def test_a_log_grows_and_waits_for_its_reader(visitors: Visitors, world: World) -> None:
    job = await world.enqueue("train_model")
    await world.until(job, "running")
    page = await visitors.open(f"/t/acme/jobs/{job}")
    log = page.locator("#log")
    for number in range(40):
        world.lines.put_nowait(f"epoch {number}")
    world.lines.put_nowait(f"\x1b[2J\x1b[31m{HOSTILE}\x1b[0m")
    await expect(log).to_contain_text(HOSTILE)
    assert await log.locator("script, img").count() == 0
    await expect(page.locator("progress")).to_have_attribute("value", "0.4")
    await log.evaluate("(log) => { log.scrollTop = 0 }")
    await expect(page.get_by_label("Follow")).not_to_be_checked()
    await log.evaluate(
        """(log) => {
          for (let n = 0; n < 2000; n++) log.prepend(log.querySelector(".line").cloneNode(true));
          log.scrollTop = 0;
        }"""
    )
    world.lines.put_nowait("the last line")
    await expect(page.get_by_role("button", name="new line")).to_be_visible()
    assert await log.evaluate("(log) => log.scrollTop") == 0
    await page.get_by_role("button", name="new line").click()
    await expect(page.get_by_label("Follow")).to_be_checked()
    await expect(log.locator(".line")).to_have_count(2000)
    world.lines.put_nowait(None)
    await expect(page.locator("#head")).to_contain_text("Succeeded")


async def test_a_job_is_canceled_and_retried(visitors: Visitors, world: World) -> None:
    job = await world.enqueue("render_video", payload={"clip": "outro.mp4"})
    page = await visitors.open(f"/t/acme/jobs/{job}")
    await page.get_by_role("link", name="Cancel").click()
    await expect(page.get_by_role("dialog")).to_contain_text(f"leasehold cancel {job}")
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("link", name="Cancel")).to_be_focused()
    await page.get_by_role("link", name="Cancel").click()
    await page.get_by_role("button", name="Cancel the job").click()
    await expect(page.get_by_role("status")).to_contain_text("The job is canceled")
    await page.get_by_role("link", name="Retry", exact=True).click()
    await page.get_by_role("button", name="Retry").click()
    await expect(page.locator("#head")).to_contain_text("Ready")
    entries = (await world.app.store.audit.page(AuditFilter(tenant=ACME), None, 2)).entries
    assert [each.entry.action for each in entries] == ["job.retry", "job.cancel"]
    await world.app.store.tenant(ACME).cancel([job])


async def test_a_waiting_job_is_run_now(visitors: Visitors, world: World) -> None:
    job = await world.enqueue("send_report", payload={"name": "may"}, delay="1d")
    page = await visitors.open(f"/t/acme/jobs/{job}")
    await expect(page.locator("#why")).to_contain_text("It is due in")
    await page.get_by_role("link", name="Run now").click()
    await page.get_by_role("button", name="Run now").click()
    await expect(page.locator("#head")).to_contain_text("Succeeded")


async def test_a_changed_copy_is_linked_both_ways(visitors: Visitors, world: World) -> None:
    visitors.expected = ("422",)
    first = world.jobs["succeeded"]
    page = await visitors.open(f"/t/acme/jobs/{first}")
    await page.get_by_role("link", name="Retry with changes").click()
    await page.get_by_label("Payload, as JSON").fill('{"nam": "x"}')
    await page.get_by_role("button", name="Enqueue").click()
    await expect(page.get_by_role("alert")).to_contain_text("name")
    await page.get_by_label("Payload, as JSON").fill('{"name": "september", "api_key": "[redacted]"}')
    await page.get_by_role("button", name="Enqueue").click()
    await expect(page.get_by_role("status")).to_contain_text("enqueued with your changes")
    made = page.url.partition("/jobs/")[2][:36]
    await expect(page.locator(".related a")).to_have_attribute("href", f"/t/acme/jobs/{first}")
    await page.locator(".related a").click()
    await expect(page.locator(".related a")).to_have_attribute("href", f"/t/acme/jobs/{made}")

    async def has_kept_its_secret() -> bool:
        record = await world.app.store.tenant(ACME).get(JobId(made))
        return record is not None and record.payload["api_key"] == "s3cr3t-value-of-acme"

    await eventually(has_kept_its_secret)


async def test_each_role_sees_and_does_what_it_may(visitors: Visitors, world: World) -> None:
    visitors.expected = ("403",)
    job = world.jobs["ready"]
    for role, acts, reads in ((Role.VIEWER, 0, False), (Role.OPERATOR, 1, True), (Role.SUPER_ADMIN, 1, True)):
        page = await visitors.open(f"/t/acme/jobs/{job}", role)
        assert await page.get_by_role("link", name="Cancel").count() == acts
        assert ("intro.mp4" in await page.content()) is reads
        answer = await page.goto(f"/t/acme/jobs/{job}/cancel")
        assert answer is not None
        assert answer.status == (200 if acts else 403)
        log = await page.request.get(f"{world.address}/t/acme/jobs/{job}/log.txt")
        assert log.status == (200 if reads else 403)


async def test_the_bars_of_a_timeline_stand_where_their_times_are(visitors: Visitors, world: World) -> None:
    job = world.jobs["dead letter"]
    page = await visitors.open(f"/t/acme/jobs/{job}")
    record = await world.app.store.tenant(ACME).get(job)
    attempts = await world.app.store.tenant(ACME).attempts(job)
    assert record is not None
    assert record.finished_at is not None
    whole = (record.finished_at - record.queued_at).total_seconds()
    area = await page.locator("svg.timeline").bounding_box()
    bars = [await bar.bounding_box() for bar in await page.locator("svg.timeline rect").all()]
    assert area is not None
    assert len(bars) == len(attempts)
    for bar, attempt in zip(bars, attempts, strict=True):
        assert bar is not None
        assert attempt.finished_at is not None
        begin = (attempt.started_at - record.queued_at).total_seconds() / whole * area["width"]
        width = (attempt.finished_at - attempt.started_at).total_seconds() / whole * area["width"]
        thinnest = THINNEST / 100 * area["width"]
        assert bar["width"] == pytest.approx(max(width, thinnest), abs=2)
        assert bar["x"] - area["x"] == pytest.approx(min(begin, area["width"] - bar["width"]), abs=2)
    label = await page.locator("svg.timeline").get_attribute("aria-label")
    assert label is not None
    assert "try 2 failed" in label


async def test_a_long_log_says_where_its_beginning_is(visitors: Visitors, world: World) -> None:
    job = await world.enqueue("train_model")
    await world.until(job, "running")
    for number in range(260):
        world.lines.put_nowait(f"epoch {number}")
    world.lines.put_nowait(None)
    await world.until(job, "succeeded")
    page = await visitors.open(f"/t/acme/jobs/{job}")
    log = page.locator("#log")
    await expect(log).to_contain_text("epoch 259")
    await expect(log).to_contain_text("earlier lines are in the download")
    assert await log.locator(".line").count() <= 200
    async with await world.signed_in(Role.TENANT_ADMIN) as http:
        whole = (await http.get(f"/t/acme/jobs/{job}/log.txt")).text
    assert "epoch 0\n" in whole


async def test_the_source_of_a_job_leads_to_its_trigger(visitors: Visitors, world: World) -> None:
    trigger = world.triggers["changed"]
    made = next(each.job for each in await world.app.store.triggers(ACME).decisions(trigger, 50) if each.job)
    page = await visitors.open(f"/t/acme/jobs/{made}", Role.SUPER_ADMIN)
    await page.get_by_role("link", name=f"trigger {trigger[:8]}").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Import on change")
    own = await visitors.open(f"/t/acme/jobs/{made}", Role.VIEWER)
    await expect(own.locator("main")).to_contain_text(f"by trigger {trigger[:8]}")
    await expect(own.locator("a[href*='/all/']")).to_have_count(0)
