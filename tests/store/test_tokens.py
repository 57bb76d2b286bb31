"""API tokens, on every engine."""

from datetime import timedelta

import pytest
from tests.store.bench import Bench
from tests.tenant_kit import ACME, DAY, HOUR, OTHER

from leasehold.errors import NotAuthenticated, WrongState
from leasehold.model.access import Permission, Role
from leasehold.operations import tokens
from leasehold.operations.tokens import TokenCheck


async def test_a_token_is_recognised_by_its_text(bench: Bench) -> None:
    only = frozenset({Permission.JOBS_READ})
    record, text = await tokens.create(bench.store, "ci", Role.OPERATOR, tenant=ACME, permissions=only)
    principal = await TokenCheck().read(bench.store, str(text))
    assert (principal.name, principal.role, principal.tenant) == ("ci", Role.OPERATOR, ACME)
    assert (principal.permissions, principal.token) == (only, record.id)
    assert (await tokens.get(bench.store, record.id)).last_used_at is not None


async def test_a_token_expires_by_the_clock_of_the_engine(bench: Bench) -> None:
    _, text = await tokens.create(bench.store, "ci", Role.VIEWER, tenant=ACME, life=HOUR)
    await bench.move_clock(HOUR)
    with pytest.raises(NotAuthenticated):
        await TokenCheck().read(bench.store, str(text))


async def test_a_rotated_token_has_two_live_secrets_for_a_while(bench: Bench) -> None:
    record, first = await tokens.create(bench.store, "ci", Role.WORKER, definitions=("report",))
    rotated, second = await tokens.rotate(bench.store, record.id, life=10 * DAY, overlap=HOUR)
    assert rotated.accepts(first)
    assert rotated.accepts(second)
    await bench.move_clock(HOUR)
    later = await tokens.get(bench.store, record.id)
    assert (later.accepts(first), later.accepts(second)) == (False, True)
    assert later.definitions == ("report",)


async def test_a_revoked_token_stays_revoked(bench: Bench) -> None:
    record, text = await tokens.create(bench.store, "ci", Role.VIEWER, tenant=ACME)
    revoked = await tokens.revoke(bench.store, record.id)
    assert (revoked.state, revoked.accepts(text)) == ("revoked", False)
    assert (await tokens.revoke(bench.store, record.id)).revoked_at == revoked.revoked_at
    with pytest.raises(WrongState):
        await tokens.rotate(bench.store, record.id)


async def test_tokens_are_listed_for_one_tenant_or_for_all(bench: Bench) -> None:
    ids = [(await tokens.create(bench.store, "ci", Role.VIEWER, tenant=each))[0].id for each in (ACME, ACME, OTHER)]
    assert [each.id for each in await tokens.list_all(bench.store, 10, tenant=ACME)] == sorted(ids[:2])
    first = await tokens.list_all(bench.store, 1)
    rest = await tokens.list_all(bench.store, 10, first[0].id)
    assert {each.id for each in (*first, *rest)} >= set(ids)


async def test_a_process_trusts_a_token_for_five_seconds(bench: Bench) -> None:
    now = [0.0]
    check = TokenCheck(lambda: now[0])
    record, text = await tokens.create(bench.store, "ci", Role.VIEWER, tenant=ACME)
    assert check.known(str(text)) is None
    await check.read(bench.store, str(text))
    await tokens.revoke(bench.store, record.id)
    assert check.known(str(text)) is not None
    now[0] += timedelta(seconds=5.1).total_seconds()
    assert check.known(str(text)) is None
    with pytest.raises(NotAuthenticated):
        await check.read(bench.store, str(text))
