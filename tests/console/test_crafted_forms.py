"""Forms as no browser sends them, and forms of visitors with few permissions, asked without a browser."""

import json
from functools import partial
from html import unescape
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from tests.console.trigger_world import IMPORT, make_trigger
from tests.console.world import ACME, World

from leasehold import PayloadInvalid
from leasehold.model.access import Permission, Principal, Role
from leasehold.model.audit import Actor
from leasehold.operations import definitions
from leasehold.operations.catalog import Catalog
from leasehold.operations.changed_retry import enqueue_changed, require_restored

pytestmark = pytest.mark.asyncio(loop_scope="session")
ENQUEUE = f"/t/acme/definitions/{IMPORT}/enqueue"
FILLED = {"/folder": "/photos", "/provider_id": "p_9"}


async def send(world: World, http: httpx.AsyncClient, path: str, fields: dict[str, str]) -> httpx.Response:
    token = (await http.get(path)).text.partition('name="form_token" value="')[2].partition('"')[0]
    return await http.post(path, data={"form_token": token, **fields}, headers={"Origin": world.address})


def named(visitor: Principal, _: Request) -> Principal:
    return visitor


@pytest.mark.parametrize(
    ("fields", "status", "said"),
    [
        ({"/options!json": f'{{"x": {2**70}}}', "do": "look"}, 200, "can't be copied"),
        ({"/options!json": f'{{"x": {2**70}}}', "do": "json"}, 200, str(2**70)),
        ({"/quality": "1e999", "do": "enqueue"}, 422, "1e999"),
        ({"/quality": "NaN", "do": "enqueue"}, 422, "is not of type"),
        ({"/limit": "[" * 10_000, "do": "enqueue"}, 422, "1 field can't be used"),
        ({"/mode": "0000009", "do": "look"}, 200, "app.tenant('acme')"),
        ({"priority": "9" * 5000, "do": "look"}, 200, "app.tenant('acme')"),
        ({"do": "add:/tags/²"}, 200, "app.tenant('acme')"),
    ],
)
async def test_a_crafted_field_is_answered(world: World, fields: dict[str, str], status: int, said: str) -> None:
    async with await world.signed_in(Role.OPERATOR) as http:
        answer = await send(world, http, ENQUEUE, FILLED | fields)
    assert (answer.status_code, said in unescape(answer.text)) == (status, True)


async def test_an_integer_beyond_64_bits_is_refused_clearly(world: World) -> None:
    schema = {"type": "object", "properties": {"number": {"type": "integer"}}}
    await definitions.create(world.app.store, "count-far", {"schema": schema}, Actor("ada"))
    async with await world.signed_in(Role.OPERATOR) as http:
        path, fields = "/t/acme/definitions/count-far/enqueue", {"/number": str(2**70), "do": "enqueue"}
        answer = await send(world, http, path, fields)
    assert (answer.status_code, "an integer beyond 64 bits" in answer.text) == (422, True)


async def test_an_enqueuer_sees_only_the_id_of_a_job(world: World) -> None:
    job = world.jobs["succeeded"]
    few = frozenset({Permission.JOBS_ENQUEUE, Permission.PAYLOADS_READ})
    pages = []
    for visitor in (Principal("ada", Role.OPERATOR, ACME, each) for each in (few, few | {Permission.JOBS_READ})):
        console = world.app.console(partial(named, visitor))
        async with (
            console.pages.router.lifespan_context(console.pages),
            httpx.AsyncClient(transport=httpx.ASGITransport(console), base_url=world.address) as http,
        ):
            pages.append((await http.get(f"{ENQUEUE}?job={job}&new=no")).text)
    for words in (job, "Nothing was enqueued"):
        assert [words in page for page in pages] == [True, True]
    for words in ("Open the job", "july", "data-s="):
        assert [words in page for page in pages] == [False, True]


@pytest.mark.parametrize(
    ("stored", "sent", "place"),
    [
        ({"api_key": "s3cr3t"}, {"api_token": "[redacted]"}, "payload.api_token "),
        ({"all": ["s3cr3t"]}, {"all": ["[redacted]", "new"]}, "payload.all[0] "),
        ({"url": "https://u:p@h/"}, {"url": "https://u:[redacted]@other/"}, "payload.url "),
        ({"for s3cr3t": 1}, {"for [redacted]": 1}, "payload.for [redacted] "),
    ],
)
async def test_a_redacted_value_at_another_place_is_refused(stored: Any, sent: Any, place: str) -> None:
    with pytest.raises(PayloadInvalid, match=r"Nothing was saved\.") as raised:
        require_restored(sent, stored)
    assert raised.value.happened.startswith(place)
    assert "s3cr3t" not in str(raised.value)


async def test_a_stored_text_that_says_redacted_stays() -> None:
    stored = {"note": "it is [redacted]", "all": ["[redacted]"], "[redacted]": 1}
    require_restored(stored | {"more": 1}, stored)


async def test_a_changed_copy_with_a_renamed_secret_is_refused(world: World) -> None:
    record = await world.app.store.tenant(ACME).get(world.jobs["succeeded"])
    assert record is not None
    catalog, changed = Catalog(world.app.store, world.app.handlers), {"name": "june", "token": "[redacted]"}
    with pytest.raises(PayloadInvalid, match=r"payload.token has .*Nothing was saved"):
        await enqueue_changed(catalog, record, changed, Actor("ada"), world.app.definition)


async def test_a_trigger_keeps_the_secret_of_a_renamed_field(world: World) -> None:
    template = {"folder": "/photos", "provider_id": "p_1", "options": {"api_key": "s3cr3t"}}
    trigger = await make_trigger(world, payload_template=template)
    path = f"/t/acme/triggers/{trigger}/edit"
    renamed = template | {"options": {"token": "[redacted]"}}
    fields = {
        "label": "Mine",
        "definition": IMPORT,
        "cron": "0 5 * * *",
        "payload": json.dumps(renamed),
        "do": "save",
    }
    async with await world.signed_in(Role.TENANT_ADMIN) as http:
        refused = await send(world, http, path, fields)
        kept = fields | {"payload": json.dumps(template | {"options": {"api_key": "[redacted]"}}), "label": "Ours"}
        saved = await send(world, http, path, kept)
    assert (refused.status_code, "Nothing was saved" in refused.text, saved.status_code) == (422, True, 303)
    found = await world.app.store.triggers(ACME).get(trigger)
    assert found is not None
    assert (found.rule.label, found.rule.payload) == ("Ours", template)
