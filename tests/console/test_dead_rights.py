"""Rights to dead letters and to changes of many jobs, asked without a browser."""

import re

import httpx
import pytest
from tests.console.world import ACME, GLOBEX, World, signed_in

from leasehold.model.access import Permission, Role

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def form_of(http: httpx.AsyncClient, path: str) -> dict[str, str]:
    page = (await http.get(path)).text
    return dict(re.findall(r'<input type="hidden" name="(form_token|as_of|group)" value="([^"]*)"', page))


@pytest.mark.parametrize(
    ("role", "may"),
    [(Role.VIEWER, False), (Role.OPERATOR, True), (Role.TENANT_ADMIN, True), (Role.SUPER_ADMIN, True)],
)
async def test_many_jobs_are_changed_by_roles_that_may(world: World, role: Role, may: bool) -> None:
    plan, abort = f"/t/acme/bulk/retry?group={world.group}", f"/t/acme/operations/{world.operation}"
    async with await world.signed_in(role) as http:
        offers = [
            "/bulk/retry" in (await http.get(path)).text for path in ("/t/acme/dead", f"/t/acme/dead/{world.group}")
        ]
        listed = 'name="job"' in (await http.get("/t/acme/jobs?q=status:dead-letter")).text
        assert ([*offers, listed], (await http.get(plan)).status_code) == ([may] * 3, 200 if may else 403)
        sent = {"form_token": (await form_of(http, plan)).get("form_token", ""), "as_of": "2026-01-01T00:00:00+00:00"}
        path = "/t/acme/bulk/retry"
        data = {**sent, "group": world.group}  # as of then, no job had ended
        begun = await http.post(path, data=data, headers={"Origin": world.address})
        ended = await http.post(f"{abort}/abort", data=sent, headers={"Origin": world.address})
    assert (begun.status_code, ended.status_code) == ((303, 409) if may else (403, 403))


async def test_a_viewer_reads_codes_but_no_errors_and_payloads(world: World) -> None:
    async with await world.signed_in(Role.VIEWER) as http:
        pages = [(await http.get(path)).text for path in ("/t/acme/dead", f"/t/acme/dead/{world.group}", "/t/acme")]
        shown = (await http.get(f"/api/v1/errors/{world.group}")).json()
    assert all("TimeoutError" in page and "timed out" not in page for page in pages)
    assert "p_9" not in pages[1]
    assert (shown["code"], shown["error"], shown["fields"]) == ("TimeoutError", None, [])


async def test_secrets_of_payloads_are_not_counted(world: World) -> None:
    async with await world.signed_in(Role.OPERATOR, Permission.JOBS_READ, Permission.PAYLOADS_READ) as http:
        fields = (await http.get(f"/api/v1/errors/{world.group}")).json()["fields"]
    assert {each["name"]: each["values"][0]["value"] for each in fields}["provider_id"] == '"p_9"'


async def test_groups_and_operations_of_others_are_not_found(world: World) -> None:
    async with signed_in(world, await world.session(Role.TENANT_ADMIN, GLOBEX)) as http:
        paths = (
            f"/t/{ACME}/dead",
            f"/t/globex/dead/{world.group}",
            f"/t/globex/operations/{world.operation}",
            f"/t/globex/operations/{world.operation}/abort",
            "/t/globex/operations/no-such",
            "/all/dead",
            "/t/globex/bulk/delete",
        )
        assert [(await http.get(path)).status_code for path in paths] == [404] * 7


async def test_nothing_chosen_changes_nothing(world: World) -> None:
    async with await world.signed_in(Role.OPERATOR) as http:
        none = await http.get("/t/acme/bulk/retry?chosen=yes")
        wrong = await http.get("/t/acme/bulk/retry?q=status:running")
        pace = {**await form_of(http, f"/t/acme/bulk/retry?group={world.group}"), "speed": "paced", "pace": "often"}
        refused = await http.post("/t/acme/bulk/retry", data=pace, headers={"Origin": world.address})
    assert [none.status_code, wrong.status_code, refused.status_code] == [422] * 3
    assert "No job is chosen" in none.text
    assert "not a pace" in refused.text


async def test_a_plan_can_be_pasted_as_a_command(world: World) -> None:
    async with await world.signed_in(Role.OPERATOR) as http:
        page = (await http.get(f"/t/acme/bulk/retry?group={world.group}")).text
    assert f"leasehold retry --error {world.group} --pace 120/m --tenant acme" in page
    assert "/api/v1/operations" in page
