"""Signing in to the console, and what ends a session."""

from urllib.parse import urlsplit

import httpx
import pytest
from playwright.async_api import expect
from tests.console.browser import Visitors
from tests.console.world import ACME, World, signed_in

from leasehold.model.access import Role
from leasehold.operations import sessions, tokens

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_token_signs_in_and_signing_out_ends_it(visitors: Visitors, world: World) -> None:
    visitors.expected = ("401",)
    page = await visitors.open("/t/acme/jobs?q=status:running", role=None)
    await page.get_by_label("Token").fill("lh_" + "a" * 71)
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("alert")).to_contain_text("The token is not valid")
    await page.goto("/t/acme/jobs?q=status:running")
    await page.get_by_label("Token").fill(await world.token(Role.OPERATOR))
    await page.get_by_role("button", name="Sign in").click()
    await expect(page).to_have_url(f"{world.address}/t/acme/jobs?q=status:running")
    (cookie,) = [each for each in await page.context.cookies() if "session" in each["name"]]
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Lax")
    await page.locator(".who summary").click()
    await page.get_by_role("button", name="Sign out").click()
    await expect(page).to_have_url(f"{world.address}/sign-in")
    async with httpx.AsyncClient(base_url=world.address, cookies={cookie["name"]: cookie["value"]}) as http:
        assert (await http.get("/t/acme/jobs")).status_code == 303


async def test_a_link_signs_in_once(visitors: Visitors, world: World) -> None:
    record, _ = await tokens.create(world.app.store, "dev", Role.SUPER_ADMIN)
    link = await sessions.make_link(world.app.store, record.id)
    async with httpx.AsyncClient(base_url=world.address) as http:
        assert "Open the console" in (await http.get("/sign-in", params={"link": link})).text
    page = await visitors.open(f"/sign-in?link={link}", role=None)
    await expect(page.get_by_role("heading", name="Jobs")).to_be_visible()
    assert urlsplit(page.url).path == "/all/jobs"
    visitors.expected = ("401",)
    other = await visitors.open(f"/sign-in?link={link}", role=None)
    await expect(other.get_by_role("alert")).to_contain_text("This link can't be used")


async def test_a_link_waits_for_a_click_if_others_opened_it(world: World) -> None:
    async with httpx.AsyncClient(base_url=world.address) as http:
        shown = [
            (await http.get("/sign-in?link=x", headers={"Sec-Fetch-Site": site})).text
            for site in ("none", "cross-site", "same-origin")
        ]
    async with signed_in(world, "y") as http:
        known = await http.get("/sign-in?link=x", headers={"Sec-Fetch-Site": "none"})
    assert ["data-once" in text for text in (*shown, known.text)] == [True, False, False, False]
    assert ["replaces your present session" in text for text in (*shown, known.text)] == [False, False, False, True]
    assert known.headers["referrer-policy"] == "strict-origin"


async def test_a_cookie_is_secure_behind_a_proxy_with_tls(world: World) -> None:
    token, host = await world.token(Role.VIEWER), {"Host": "jobs.example.com"}
    async with httpx.AsyncClient(base_url=world.address) as http:
        for scheme in ("http", "https"):
            headers = {**host, "Origin": f"{scheme}://jobs.example.com"}
            answer = await http.post("/sign-in", data={"token": token}, headers=headers)
            (cookie,) = [each for each in answer.headers.get_list("set-cookie") if token_of(each)]
            assert ("; secure" in cookie.lower()) is (scheme == "https")


def token_of(cookie: str) -> str:
    """Returns the value of the cookie of a session; empty for others, and for one that ends."""
    name, _, rest = cookie.partition("=")
    return rest.partition(";")[0].strip('"') if "session" in name else ""


async def test_a_cookie_from_before_is_not_the_session(world: World) -> None:
    """Neither a value that others have planted nor a session of theirs is used, and the latter ends."""
    theirs = await world.session(Role.VIEWER)
    for planted in ("chosen-by-others", theirs):
        async with signed_in(world, planted) as http:
            own, token = {"Origin": world.address}, await world.token(Role.TENANT_ADMIN)
            answer = await http.post("/sign-in", data={"token": token}, headers=own)
        (secret,) = filter(None, map(token_of, answer.headers.get_list("set-cookie")))
        assert secret != planted
        async with signed_in(world, planted) as before, signed_in(world, secret) as after:
            assert (await before.get("/t/acme/jobs")).headers["location"].startswith("/sign-in")
            assert (await after.get("/t/acme/audit")).status_code == 200


async def test_a_session_ends_when_its_token_is_revoked(world: World) -> None:
    record, text = await tokens.create(world.app.store, "ada", Role.SUPER_ADMIN)
    secret = await sessions.sign_in(world.app.store, str(text))
    await tokens.revoke(world.app.store, record.id)
    async with signed_in(world, secret) as http:
        assert (await http.get("/all/jobs")).headers["location"].startswith("/sign-in")


async def test_a_form_of_another_site_or_session_is_refused(world: World) -> None:
    job = world.jobs["ready"]
    async with signed_in(world, await world.session(Role.TENANT_ADMIN)) as http:
        path, own = f"/t/acme/jobs/{job}/cancel", {"Origin": world.address}
        assert (await http.post(path, data={"form_token": "guessed"}, headers=own)).status_code == 403
        form = (await http.get(path)).text.partition('name="form_token" value="')[2].partition('"')[0]
        for headers in ({}, {"Origin": "https://evil.test"}, {"Origin": "//["}, {"Sec-Fetch-Site": "cross-site"}):
            assert (await http.post(path, data={"form_token": form}, headers=headers)).status_code == 403
        assert (await http.get("/api/v1/jobs")).status_code == 200
        assert (await http.post(f"/api/v1/jobs/{job}/cancel", headers=own)).status_code == 401
        record = await world.app.store.tenant(ACME).get(job)
        assert record is not None
        assert record.display.value == "ready"


async def test_an_address_after_sign_in_is_of_this_console(world: World) -> None:
    token, own = await world.token(Role.VIEWER), {"Origin": world.address}
    async with httpx.AsyncClient(base_url=world.address) as http:
        for wanted in ("https://evil.test/", "//evil.test", "/\\evil.test", "javascript:alert(1)", "//["):
            answer = await http.post("/sign-in", data={"token": token, "next": wanted}, headers=own)
            assert (answer.status_code, answer.headers["location"]) == (303, "/")
