"""Inline, jobs that are part of a transaction wait, and say so."""

import asyncpg
import psycopg
import pytest
from sqlalchemy import create_engine
from sqlalchemy.orm import Session
from tests.testing.shop import app, send_invoice, sync_folder

from leasehold.testing import NotRunInline, QueueTester

acme = app.tenant("acme")


def test_inline_a_job_of_a_session_waits_and_warns(leasehold: QueueTester) -> None:
    engine = create_engine(leasehold.url.replace("postgresql://", "postgresql+psycopg://"))
    warned = pytest.warns(NotRunInline, match=r"inline\(\) does not run jobs .* leasehold.drain\(\)")
    with leasehold.inline(), Session(engine) as session, session.begin(), warned as said:
        acme.within(session).enqueue(sync_folder, provider_id="p_9")
    engine.dispose()
    assert said[0].filename == __file__
    assert leasehold.job().status == "queued"
    assert leasehold.drain() == 1


def test_inline_many_jobs_of_a_transaction_warn_once(leasehold: QueueTester) -> None:
    with leasehold.inline(), psycopg.connect(leasehold.url) as connection, pytest.warns(NotRunInline) as said:
        acme.within(connection).enqueue_many(send_invoice.bind(number) for number in (1, 2))
    assert len(said) == 1
    assert leasehold.drain() == 2


async def test_inline_an_awaited_job_of_a_transaction_warns(leasehold: QueueTester) -> None:
    connection = await asyncpg.connect(leasehold.url)
    with leasehold.inline():
        async with connection.transaction():
            with pytest.warns(NotRunInline):
                await acme.within(connection).aenqueue(send_invoice, 7)
            with pytest.warns(NotRunInline):
                await acme.within(connection).aenqueue_many([send_invoice.bind(8)])
    await connection.close()
    assert await leasehold.adrain() == 2


def test_inline_a_job_in_autocommit_runs_at_once(leasehold: QueueTester) -> None:
    with leasehold.inline(), psycopg.connect(leasehold.url, autocommit=True) as connection:
        acme.within(connection, atomic=False).enqueue(sync_folder, provider_id="p_9")
        assert leasehold.job().status == "succeeded"
