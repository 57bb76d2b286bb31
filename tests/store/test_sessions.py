"""Sessions of browsers and one-time links, on every engine."""

import pytest
from tests.store.bench import Bench
from tests.tenant_kit import ACME

from leasehold.errors import NotAuthenticated, NotPermitted
from leasehold.model.access import Role
from leasehold.model.session import SESSION_LIFE
from leasehold.operations import sessions, tokens
from leasehold.operations.sessions import SessionCheck


async def test_a_session_has_the_rights_of_its_token(bench: Bench) -> None:
    record, text = await tokens.create(bench.store, "ada", Role.OPERATOR, tenant=ACME)
    secret = await sessions.sign_in(bench.store, str(text))
    assert await SessionCheck().read(bench.store, secret) == record.principal()
    assert await SessionCheck().read(bench.store, "guessed") is None


async def test_a_session_ends_by_sign_out_time_or_its_token(bench: Bench) -> None:
    record, text = await tokens.create(bench.store, "ada", Role.VIEWER, tenant=ACME)
    left, late, revoked = [await sessions.sign_in(bench.store, str(text)) for _ in range(3)]
    await sessions.sign_out(bench.store, left)
    assert await SessionCheck().read(bench.store, left) is None
    assert await SessionCheck().read(bench.store, late) is not None
    await tokens.revoke(bench.store, record.id)
    assert await SessionCheck().read(bench.store, revoked) is None
    _, other = await tokens.create(bench.store, "bob", Role.VIEWER, tenant=ACME)
    late = await sessions.sign_in(bench.store, str(other))
    await bench.move_clock(SESSION_LIFE)
    assert await SessionCheck().read(bench.store, late) is None


async def test_a_link_begins_one_session(bench: Bench) -> None:
    record, _ = await tokens.create(bench.store, "dev", Role.SUPER_ADMIN)
    link = await sessions.make_link(bench.store, record.id)
    assert await SessionCheck().read(bench.store, link) is None
    secret = await sessions.redeem_link(bench.store, link)
    assert await SessionCheck().read(bench.store, secret) == record.principal()
    with pytest.raises(NotAuthenticated):
        await sessions.redeem_link(bench.store, link)


async def test_the_token_of_a_worker_opens_no_session(bench: Bench) -> None:
    _, text = await tokens.create(bench.store, "worker", Role.WORKER)
    with pytest.raises(NotPermitted):
        await sessions.sign_in(bench.store, str(text))
