"""The usage page: what it adds up, for whom, and as a file."""

import re

import pytest
from tests.console.world import ACME, World, signed_in

from leasehold.model.access import Role
from leasehold.operations import usage

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_the_page_shows_the_usage_of_its_tenant(world: World) -> None:
    found = await usage.read(world.app.store, ACME, "24h")
    assert found.total.attempts
    async with signed_in(world, await world.session(Role.VIEWER)) as http:
        page = (await http.get("/t/acme/usage")).text
        assert 'href="/t/acme/usage"' in (await http.get("/t/acme")).text
        assert page.count("<tr>") == 1 + len(found.rows)
        assert f"<b>{found.total.attempts}</b> attempts" in page
        assert "globex" not in page
        assert (await http.get("/all/usage")).status_code == 404
        refused = await http.get("/t/acme/usage?since=401d")
        assert (refused.status_code, "at most 400 days" in refused.text) == (422, True)


async def test_all_tenants_are_divided_by_tenant(world: World) -> None:
    async with signed_in(world, await world.session(Role.SUPER_ADMIN)) as http:
        page = (await http.get("/all/usage?by=tenant")).text
        assert re.search(r'data-label="Tenant">acme<', page)
        of_one = (await http.get("/all/usage?tenant=acme")).text
        assert "Tenant and definition" not in of_one


async def test_the_file_has_the_same_rows(world: World) -> None:
    found = await usage.read(world.app.store, ACME, "24h", by="definition")
    async with signed_in(world, await world.session(Role.VIEWER)) as http:
        file = await http.get("/t/acme/usage.csv?since=24h&by=definition")
        assert file.headers["content-type"] == "text/csv; charset=utf-8"
        assert "attachment" in file.headers["content-disposition"]
        assert file.text == usage.as_csv(usage.as_document(found))
