"""`leasehold console link`."""

from urllib.parse import parse_qs, urlsplit

import orjson
from tests.cli.terminal import CommandLine

from leasehold.model.access import Role
from leasehold.operations import sessions
from leasehold.operations.sessions import SessionCheck
from leasehold.store import Store


async def test_a_link_is_printed_alone_and_signs_in(leasehold: CommandLine, store: Store) -> None:
    made = await leasehold("console", "link", "--at", "https://jobs.example.com/")
    address = urlsplit(made.out.strip())
    assert (address.netloc, address.path) == ("jobs.example.com", "/sign-in")
    secret = await sessions.redeem_link(store, parse_qs(address.query)["link"][0])
    principal = await SessionCheck().read(store, secret)
    assert principal is not None
    assert (principal.role, principal.tenant) == (Role.SUPER_ADMIN, None)
    assert "super_admin of all tenants, usable once" in made.err


async def test_a_link_for_a_tenant_has_the_rights_that_it_names(leasehold: CommandLine, store: Store) -> None:
    made = orjson.loads((await leasehold("console", "link", "--tenant", "acme", "--role", "viewer", "--json")).out)
    assert (made["role"], made["tenant"]) == ("viewer", "acme")
    await leasehold("token", "revoke", made["token"])
    assert orjson.loads((await leasehold("token", "list", "--json")).out)[0]["state"] == "revoked"
