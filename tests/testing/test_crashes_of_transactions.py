"""Writes in the finishing transaction happen once, wherever the handler is stopped."""

import asyncio

import asyncpg
import pytest
from tests.testing import ledgers

from leasehold import Leasehold
from leasehold.testing import QueueTester


@pytest.fixture
def leasehold_app() -> Leasehold:
    return ledgers.app


def ask(url: str, statement: str) -> int:
    async def ask() -> int:
        connection = await asyncpg.connect(url)
        try:
            found: int = await connection.fetchval(statement)
            return found
        finally:
            await connection.close()

    return asyncio.run(ask())


def test_an_effect_in_the_finishing_transaction_needs_no_key(leasehold: QueueTester) -> None:
    ask(leasehold.url, "create table entries (amount int)")
    found = leasehold.crashes(
        "acme",
        ledgers.enter.bind(amount=7),
        effects=[ledgers.last_thought],
        count=lambda: ask(leasehold.url, "select count(*) from entries"),
    )
    found.assert_once()
    assert "killed: its result written, its transaction not yet committed" in str(found)
    assert len(found.crashes) == 9
