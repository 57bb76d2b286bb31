"""Rights of visitors, asked without a browser: fields of a job that are hidden, and changes that are refused."""

import re
from html import unescape
from typing import Annotated

import httpx
import pytest
from pydantic import Field
from tests.conftest import eventually
from tests.console.world import ACME, World, signed_in

from leasehold import Job, Leasehold, PayloadInvalid
from leasehold.model.access import Permission, Role
from leasehold.model.audit import Actor
from leasehold.model.job import tenant_id
from leasehold.operations import sessions
from leasehold.operations.catalog import Catalog
from leasehold.operations.changed_retry import enqueue_changed

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.parametrize("name", ["june", "x" * 500])
async def test_an_error_quotes_no_value_that_was_redacted(world: World, name: str) -> None:
    newer = Leasehold("postgresql://x/y")

    @newer.job
    async def send_report(job: Job, name: Annotated[str, Field(max_length=9)], api_key: int) -> None: ...

    record = await world.app.store.tenant(ACME).get(world.jobs["succeeded"])
    assert record is not None
    changed = {"name": name, "api_key": "[redacted]"}
    catalog = Catalog(world.app.store, world.app.handlers)
    with pytest.raises(PayloadInvalid) as raised:
        await enqueue_changed(catalog, record, changed, Actor("ada"), newer.definition)
    assert "s3cr3t" not in str(raised.value)
    assert ("api_key" in raised.value.happened) is (name == "june")
    assert raised.value.__cause__ is None


async def test_a_payload_is_changed_only_by_its_readers(world: World) -> None:
    path = f"/t/acme/jobs/{world.jobs['succeeded']}/change"
    async with await world.signed_in(Role.OPERATOR, Permission.JOBS_READ, Permission.JOBS_ENQUEUE) as http:
        form = (await http.get(path)).text.partition('name="form_token" value="')[2].partition('"')[0]
        sent = {"form_token": form, "payload": '{"name": "x"}'}
        answer = await http.post(path, data=sent, headers={"Origin": world.address})
    assert (answer.status_code, "payloads:read is needed" in answer.text) == (403, True)


async def test_a_reader_without_logs_sees_the_code_of_an_error(world: World) -> None:
    async with await world.signed_in(Role.VIEWER) as http:
        page = (await http.get("/t/acme/jobs?q=status:dead-letter")).text
        shown = (await http.get(f"/api/v1/jobs/{world.jobs['dead letter']}")).json()
    assert ("TimeoutError" in page, "timed out after" in page) == (True, False)
    assert (shown["last_error_code"], shown["last_error"]) == ("TimeoutError", None)
    assert "last_error" in shown["hidden"]


async def test_progress_is_shown_to_readers_of_logs_only(world: World) -> None:
    job = await world.enqueue("train_model")
    await world.until(job, "running")
    world.lines.put_nowait("epoch 1")
    path = f"/t/acme/jobs/{job}"
    async with await world.signed_in(Role.OPERATOR) as operator, await world.signed_in(Role.VIEWER) as viewer:

        async def is_seen() -> bool:
            return "1204/3010 files" in (await operator.get(path)).text

        await eventually(is_seen)
        page = (await viewer.get(path)).text
    world.lines.put_nowait(None)
    assert ("<h1>train_model</h1>" in page, "1204/3010 files" in page) == (True, False)


async def test_keys_of_definitions_are_completed_for_their_readers(world: World) -> None:
    async with (
        await world.signed_in(Role.VIEWER, Permission.JOBS_READ) as few,
        await world.signed_in(Role.VIEWER) as more,
    ):
        offered = [
            re.findall('data-complete="([^"]*)"', (await http.get("/t/acme/jobs")).text) for http in (few, more)
        ]
    assert ["render_video" in unescape(text) for (text,) in offered] == [False, True]


async def test_commands_to_paste_are_quoted(world: World) -> None:
    token = await world.token(Role.SUPER_ADMIN)
    async with signed_in(world, await sessions.sign_in(world.app.store, token)) as http:
        page = unescape((await http.get("/t/a$(id)%20b/jobs")).text)
        job = await world.enqueue("render_video", tenant_id("a&b"), payload={"clip": "x"})
        confirm = unescape((await http.get(f"/all/jobs/{job}/cancel?tenant=a%26b")).text)
    await world.app.store.tenant(tenant_id("a&b")).cancel([job])
    assert "--tenant 'a$(id) b' --payload" in page
    assert f"/api/v1/jobs/{job}/cancel?tenant=a%26b' -H" in confirm
    assert f"leasehold cancel {job} --tenant 'a&b'" in confirm


async def test_a_downloaded_log_has_one_line_for_each(world: World) -> None:
    job = await world.enqueue("train_model")
    world.lines.put_nowait("one\ntwo")
    world.lines.put_nowait(None)
    await world.until(job, "succeeded")
    async with await world.signed_in(Role.OPERATOR) as http:
        log = (await http.get(f"/t/acme/jobs/{job}/log.txt")).text
    assert [line.split(" ", 3)[3] for line in log.splitlines() if "one" in line] == ["one␊two"]


async def test_a_refused_request_says_what_was_wrong(world: World) -> None:
    async with httpx.AsyncClient(base_url=world.address) as http:
        wrong = await http.post("/theme", headers={"Origin": world.address})
        other = await http.put("/sign-in")
    assert (wrong.status_code, "form can't be read" in unescape(wrong.text)) == (400, True)
    assert (other.status_code, "kind of request" in other.text) == (405, True)
