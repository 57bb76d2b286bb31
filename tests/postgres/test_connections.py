"""Connections: which statements may wait for which, the error after a lost one, and the limit of waiting callers."""

import asyncio
from contextlib import suppress

import asyncpg
import pytest
from tests.conftest import PATIENCE, Raw
from tests.postgres.race_tools import SOON, Connections, blocked, parts_of
from tests.store.bench import Bench, all_jobs, keyed
from tests.tenant_kit import ACME, HOUR

from leasehold.engines import engine_for
from leasehold.engines.postgres.claim.claim import PROMOTED_AT_ONCE
from leasehold.engines.postgres.connections import OwnConnection
from leasehold.engines.postgres.database import POOL_SIZE, Database
from leasehold.errors import InvalidInput, LeaseholdError, Unreachable
from leasehold.model.job import LogLine, NewJob
from leasehold.store import Store


async def terminate(observer: Raw, store: Store) -> None:
    """Ends the session by which this store claims, as a crash of the server does."""
    async with parts_of(store).links.claim.session() as session:
        pid = session.get_server_pid()
    await observer.execute("select pg_terminate_backend($1, 5000)", pid)


async def test_a_heartbeat_does_not_wait_behind_waiting_enqueues(
    bench: Bench, connections: Connections, observer: Raw
) -> None:
    """A user's open transaction holds a key; as many enqueues as there are connections wait for it. Leases run on."""
    registration, first = await bench.worker(), await connections.open()
    job = NewJob(definition="report", dedupe=keyed())
    async with first.transaction():
        await bench.jobs.enqueue([job], within=first)
        waiting = [asyncio.create_task(bench.jobs.enqueue([job])) for _ in range(POOL_SIZE)]
        await blocked(observer, POOL_SIZE)
        renewing = asyncio.create_task(bench.store.renew(registration, [], HOUR))
        done, _ = await asyncio.wait([renewing], timeout=PATIENCE.total_seconds())
    await asyncio.gather(*waiting, renewing)
    assert done == {renewing}


async def test_a_lost_claim_connection_is_told_before_the_next_claim(bench: Bench, observer: Raw) -> None:
    """Claims commit asynchronously: some of those it believes in may be gone. It has to ask which, then claim."""
    await bench.running()
    await bench.enqueue()
    await terminate(observer, bench.store)
    with pytest.raises(Unreachable):
        await bench.store.claim(await bench.worker(), 1)
    assert len(await bench.store.held(await bench.worker())) == 1
    assert len((await bench.store.claim(await bench.worker(), 1)).claims) == 1


async def test_a_closed_store_opens_no_connection_for_late_callers(bench: Bench, database_url: str) -> None:
    store = await engine_for(database_url).open()
    registration = await bench.join(store=store)
    await store.close()
    with pytest.raises(Unreachable, match="closed"):
        await store.tenant(ACME).counts(1)
    with pytest.raises(Unreachable, match="closed"):
        await store.claim(registration, 1)


async def test_a_worker_stopped_in_a_capped_claim_frees_the_scope(bench: Bench) -> None:
    """It is stopped between the scope's lock and the claim. The server ends such a session after a while."""
    await bench.store.claim(await bench.worker(), 1)
    async with parts_of(bench.store).links.claim.session() as session:
        assert await session.fetchval("show idle_in_transaction_session_timeout") != "0"


async def test_an_unsendable_value_is_not_an_unreachable_database(bench: Bench) -> None:
    """Repeating it would never help."""
    with pytest.raises((LeaseholdError, asyncpg.PostgresError, ValueError)) as raised:
        await bench.jobs.enqueue([NewJob(definition="report", correlation_id="\ud800")])
    assert not isinstance(raised.value, Unreachable)


async def test_a_session_that_ends_means_an_unreachable_database(bench: Bench, observer: Raw) -> None:
    """Also between the server's last word and the end of the connection, when the driver has errors of its own."""
    link = parts_of(bench.store).links.upkeep

    async def pid() -> int:
        async with link.session() as session:
            return session.get_server_pid()

    for moment in range(60):
        ended = await pid()
        ending = asyncio.create_task(observer.execute("select pg_terminate_backend($1)", ended))
        for _ in range(moment):
            await asyncio.sleep(0)
        with suppress(Unreachable):
            while await pid() == ended:
                await bench.store.evict(1)
        await ending


async def test_the_store_works_on_after_all_of_its_sessions_were_ended(bench: Bench, observer: Raw) -> None:
    job = await bench.enqueue()
    await observer.execute(
        """
        select pg_terminate_backend(pid, 5000) from pg_stat_activity
        where datname = current_database() and application_name = 'leasehold'
        """
    )

    async def again() -> None:
        while True:
            try:
                await bench.store.tenant(ACME).get(job)
                await bench.store.claim(await bench.worker(), 1)
                await bench.store.evict(1)
                return
            except Unreachable:
                await asyncio.sleep(0)

    async with asyncio.timeout(SOON.total_seconds()):
        await again()


async def test_a_database_that_is_not_there_is_said_in_our_words(database_url: str) -> None:
    with pytest.raises(InvalidInput, match="the database refuses"):
        await engine_for(database_url.replace("leasehold_test_", "no_such_database_")).open()


async def test_a_server_without_room_for_more_is_one_to_come_back_to(bench: Bench) -> None:
    with pytest.raises(Unreachable), parts_of(bench.store).database.translate_errors():
        raise asyncpg.TooManyConnectionsError("sorry, too many clients already")


async def test_claims_use_read_committed_under_any_preset(bench: Bench, observer: Raw) -> None:
    await observer.execute("set default_transaction_isolation = 'repeatable read'")
    await bench.store.claim(await bench.worker(), 1)
    async with parts_of(bench.store).links.claim.session() as session:
        assert await session.fetchval("show default_transaction_isolation") == "read committed"


async def test_a_claim_promotes_a_bounded_number(bench: Bench, observer: Raw) -> None:
    await bench.enqueue_many(2000, delay=HOUR)
    await bench.move_clock(2 * HOUR)
    claimed = await bench.store.claim(await bench.worker(), 10)
    assert (len(claimed.claims), claimed.more) == (10, True)
    promoted = await observer.fetchval("select count(*) from leasehold.jobs where ready or status = 'running'")
    assert promoted <= 2 * PROMOTED_AT_ONCE


@pytest.mark.parametrize(
    "url", ["postgresql://u:secret@h:port/db", "postgresql://u:secret@[::1/db", "postgresql://u:secret@h:99999/db"]
)
def test_a_url_that_can_not_be_read_is_a_message_without_its_password(url: str) -> None:
    with pytest.raises(InvalidInput, match="can't be read") as refused:
        Database(url, "leasehold")
    assert "secret" not in str(refused.value)


async def test_a_connection_asks_the_server_for_no_types(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """asyncpg asks for each array by three statements, on each connection; ours know the arrays that they send."""

    async def ask(_: OwnConnection, types: object, __: object) -> None:
        pytest.fail(f"asyncpg asks for the types {types}")

    monkeypatch.setattr(OwnConnection, "_introspect_types", ask)
    running = await bench.running()
    await bench.store.append_log([(running, LogLine(1, "page 1 of 9"))])
    await bench.store.renew(await bench.worker(), [running], HOUR)
    await bench.succeed(running)
    await all_jobs(bench.jobs)
