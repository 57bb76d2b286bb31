"""`leasehold token create`, `list`, `rotate` and `revoke`."""

import orjson
from tests.cli.terminal import CommandLine

from leasehold.model.access import Role
from leasehold.operations.tokens import TokenCheck
from leasehold.store import Store


async def test_a_token_is_printed_alone_and_once(leasehold: CommandLine, store: Store) -> None:
    made = await leasehold("token", "create", "ci", "--role", "tenant-admin", "--tenant", "acme")
    principal = await TokenCheck().read(store, made.out.strip())
    assert (principal.name, principal.role, principal.tenant) == ("ci", Role.TENANT_ADMIN, "acme")
    assert "tenant_admin of acme" in made.err
    listed = await leasehold("token", "list", "--json")
    assert made.out.strip() not in listed.out
    assert [each["state"] for each in orjson.loads(listed.out)] == ["live"]


async def test_a_rotated_token_is_revoked_with_both_secrets(leasehold: CommandLine, store: Store) -> None:
    made = orjson.loads((await leasehold("token", "create", "w", "--role", "worker", "--all-tenants", "--json")).out)
    rotated = await leasehold("token", "rotate", made["id"], "--overlap", "1h")
    for text in (made["token"], rotated.out.strip()):
        assert (await TokenCheck().read(store, text)).role is Role.WORKER
    assert "is revoked" in (await leasehold("token", "revoke", made["id"])).err
    assert orjson.loads((await leasehold("token", "list", "--json")).out)[0]["state"] == "revoked"


async def test_a_token_of_one_tenant_has_to_name_it(leasehold: CommandLine) -> None:
    refused = await leasehold("token", "create", "ci", "--role", "viewer")
    assert (refused.code, "LH-1004" in refused.err) == (2, True)


async def test_an_unknown_token_can_not_be_revoked(leasehold: CommandLine) -> None:
    refused = await leasehold("token", "revoke", "a" * 12)
    assert (refused.code, "LH-6004" in refused.err) == (3, True)
