"""Roles with few rights: what each can do with the grants that `leasehold grants` prints, and what it can't."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from uuid import uuid4

import asyncpg
import pytest
from tests.conftest import PATIENCE, eventually
from tests.postgres.roles import SCHEMA, Roles

from leasehold import InvalidInput, Job, Leasehold, RetryLater, Status, WorkerSettings, every
from leasehold.engines import engine_for

SECONDS = PATIENCE.total_seconds()


# ---------------------------------------------------------------------------------------------------------- producing


def with_jobs(app: Leasehold) -> Leasehold:
    @app.job
    async def greet(job: Job, name: str = "you") -> str:
        job.log(f"greeting {name}")
        return f"hello {name}"

    return app


@asynccontextmanager
async def worker(app: Leasehold) -> AsyncIterator[Leasehold]:
    """A worker that looks for work only when it is woken."""
    async with app.open(worker=WorkerSettings(fallback=timedelta(hours=1))):
        yield app


async def register(roles: Roles) -> None:
    store = await engine_for(roles.url("worker"), SCHEMA).open()
    await store.sync_definitions(with_jobs(Leasehold()).handlers.definitions)
    await store.close()


async def statuses(roles: Roles) -> list[str]:
    return [row[0] for row in await roles.superuser.fetch("select status from rented.job_records order by 1")]


async def test_a_producer_enqueues_in_all_ways_of_the_app(roles: Roles) -> None:
    await register(roles)
    app = with_jobs(roles.app("producer"))
    async with app.open(), roles.connection("producer") as connection:
        acme, greet = app.tenant("acme"), app.definition("greet")
        assert greet is not None
        await acme.aenqueue(greet)
        await acme.options(delay="1h").aenqueue(greet)
        await acme.options(dedupe_key="k").aenqueue(greet)
        assert not (await acme.options(dedupe_key="k").aenqueue(greet)).created
        await acme.options(dedupe_key="k", on_conflict="replace").aenqueue(greet, "them")
        await acme.options(id=uuid4()).aenqueue(greet)
        await acme.aenqueue_many([greet.bind("a"), greet.bind("b")])
        await acme.aenqueue_many([greet.bind(str(number)) for number in range(4)], chunk=2)
        async with connection.transaction():
            await acme.within(connection).aenqueue(greet)
    assert await statuses(roles) == ["queued"] * 11


async def test_a_producer_enqueues_by_the_sql_function(roles: Roles) -> None:
    await register(roles)
    async with roles.connection("producer") as connection:
        assert await connection.fetchval("select created from rented.enqueue('acme', 'greet', dedupe_key => 'k')")
        assert not await connection.fetchval("select created from rented.enqueue('acme', 'greet', dedupe_key => 'k')")
        assert await connection.fetchval("select rented.wake_workers('acme', 'greet')") == 0
    assert await statuses(roles) == ["queued"]


async def test_a_producer_emits_events_in_all_ways(roles: Roles) -> None:
    await register(roles)
    async with with_jobs(roles.app("worker")).open() as app:
        await app.tenant("acme").triggers.acreate("greet", event="list.created", dedupe_window=0)
    app = with_jobs(roles.app("producer"))
    async with app.open(), roles.connection("producer") as connection:
        acme = app.tenant("acme")
        assert (await acme.aemit("list.removed")).jobs == ()
        assert len((await acme.aemit("list.created")).jobs) == 1
        async with connection.transaction():
            assert len((await acme.within(connection).aemit("list.created")).jobs) == 1
        assert not await connection.fetchval("select expanded from rented.emit('acme', 'list.created')")
    async with with_jobs(roles.app("worker")).open() as app:
        assert (await app.store.schedules.fire_due()).fired == 1
    assert await statuses(roles) == ["queued"] * 3


async def test_a_producer_wakes_a_worker_that_sleeps(roles: Roles) -> None:
    async def sleeps() -> bool:
        return bool(await roles.superuser.fetchval("select bool_and(rented.listens(worker_id)) from rented.sleepers"))

    async def worked(count: int) -> bool:
        return await statuses(roles) == ["succeeded"] * count

    app = with_jobs(roles.app("producer"))
    greet = app.definition("greet")
    assert greet is not None
    async with worker(with_jobs(roles.app("worker"))), app.open():
        await eventually(sleeps)
        await app.tenant("acme").aenqueue(greet)
        await eventually(lambda: worked(1))
        await eventually(sleeps)
        await app.tenant("acme").aenqueue_many([greet.bind("a"), greet.bind("b")], chunk=1)
        await eventually(lambda: worked(3))


async def test_a_producer_notes_that_sleeps_are_over(roles: Roles) -> None:
    await register(roles)
    begun = await roles.superuser.fetchval("select nextval(rented.sleeps_begun('greet'))")
    app = with_jobs(roles.app("producer"))
    async with app.open():
        await app.tenant("acme").aenqueue_key("greet", {})
    assert await roles.superuser.fetchval("select pg_sequence_last_value(rented.sleeps_over('greet'))") == begun


async def test_a_producer_that_may_read_awaits_a_result(roles: Roles) -> None:
    await roles.superuser.execute(f"grant {roles.quoted('reader')} to {roles.quoted('producer')}")
    app = with_jobs(roles.app("producer"))
    greet = app.definition("greet")
    assert greet is not None
    async with worker(with_jobs(roles.app("worker"))), app.open():
        placed = await app.tenant("acme").aenqueue(greet, "them")
        assert await placed.aresult(SECONDS) == "hello them"


async def test_a_producer_reads_no_jobs_and_is_told_of_the_grants(roles: Roles) -> None:
    await register(roles)
    app = with_jobs(roles.app("producer"))
    async with app.open():
        placed = await app.tenant("acme").aenqueue_key("greet", {})
        with pytest.raises(InvalidInput, match=r"lacks a right .*leasehold grants --schema rented"):
            await app.tenant("acme").aget(placed.id)
    async with roles.connection("producer") as connection:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.fetch("select payload from rented.jobs")


async def test_a_producer_adds_no_job_that_runs(roles: Roles) -> None:
    row = "rented.jobs (id, scheduled_for, queued_at, version, max_attempts, priority, ready, tenant_id, definition, "
    values = "gen_random_uuid(), now(), now(), 1, 1, 0, false, 'acme', 'greet', 'running', '{}', 'manual'"
    async with roles.connection("producer") as connection:
        with pytest.raises(asyncpg.CheckViolationError, match="running_has_a_worker"):
            await connection.execute(f"insert into {row} status, payload, source) select {values}")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute(
                f"insert into {row} status, payload, source, worker_id) select {values}, gen_random_uuid()"
            )


async def test_a_producer_registers_nothing_and_is_told_what_to_do(roles: Roles) -> None:
    app = with_jobs(roles.app("producer"))
    async with app.open():
        with pytest.raises(InvalidInput, match=r'"greet" is not registered .* leasehold definitions sync'):
            await app.tenant("acme").aenqueue_key("greet", {})
    assert await roles.superuser.fetchval("select count(*) from rented.definitions") == 0


async def test_an_older_producer_keeps_its_version_and_changes_nothing(roles: Roles) -> None:
    await register(roles)
    newer = roles.app("worker")

    @newer.job(max_attempts=9)
    async def greet(job: Job, name: str = "you") -> str:
        return "hi"

    async with newer.open():
        await newer.store.sync_definitions(newer.handlers.definitions)
    older = with_jobs(roles.app("producer"))
    async with older.open():
        await older.tenant("acme").aenqueue_key("greet", {})
    assert await roles.superuser.fetchval("select version from rented.jobs") == 1
    assert await roles.superuser.fetchval("select version from rented.definitions") == 2


# ------------------------------------------------------------------------------------------------------------ working


async def test_a_worker_runs_jobs_of_all_kinds(roles: Roles) -> None:
    app = with_jobs(roles.app("worker"))
    tried: list[str] = []

    @app.job
    async def book(job: Job) -> str:
        async with job.transaction() as connection:
            await connection.execute("select")
        return "booked"

    @app.job
    async def again(job: Job) -> None:
        tried.append(job.id)
        if len(tried) == 1:
            raise RetryLater(timedelta(milliseconds=10))
        await app.tenant("acme").aenqueue_key("greet", {})

    @app.job(max_attempts=1)
    async def broken(job: Job) -> None:
        raise ValueError

    async def ended() -> bool:
        return await statuses(roles) == ["dead_letter", "succeeded", "succeeded", "succeeded"]

    await roles.command("migrator", "limit", "tenant", "acme", "--max-running", "1")
    async with worker(app):
        for key in ("book", "again", "broken"):
            await app.tenant("acme").aenqueue_key(key, {})
        await eventually(ended)
    assert await roles.superuser.fetchval("select text from rented.job_lines") == "greeting you"


async def test_a_worker_saves_and_fires_schedules(roles: Roles) -> None:
    app = roles.app("worker")

    @app.schedule(every("1s"), tenant="acme")
    @app.job
    async def greet(job: Job) -> str:
        return "hello"

    async def fired() -> bool:
        return "succeeded" in await statuses(roles)

    async with worker(app):
        await eventually(fired)
        triggers = app.tenant("acme").triggers
        (declared,) = await triggers.alist()
        await triggers.apause(declared.id, "enough")
        saved = await app.triggers.acreate(greet, schedule="@daily", label="nightly")
        await app.triggers.aupdate(saved.id, schedule="@weekly")
        await app.triggers.adelete(saved.id)


async def test_a_worker_cancels_retries_and_reschedules(roles: Roles) -> None:
    app = with_jobs(roles.app("worker"))
    async with app.open():
        acme = app.tenant("acme")
        job = (await acme.options(delay="1h").aenqueue_key("greet", {})).id
        await acme.arun_now(job)
        await acme.acancel(job)
        await acme.aretry(job)
        assert (await acme.aget(job)).status is Status.QUEUED


async def test_a_worker_takes_jobs_of_the_dead_and_prunes(roles: Roles) -> None:
    app = with_jobs(roles.app("worker"))
    async with app.open():
        await app.tenant("acme").aenqueue_key("greet", {})
        await app.tenant("acme").options(dedupe_key="k", id=uuid4()).aenqueue_key("greet", {})
    await roles.superuser.execute(
        """
        insert into rented.workers (
            id, host, pid, version, slots, definitions, started_at, last_seen_at, lease_expires_at)
        select id, 'gone', 1, '0', 1, '{greet}', now(), now(), now() - interval '1 hour' from rented.jobs limit 1;
        update rented.jobs set status = 'running', ready = false, attempt = 1, started_at = now(),
            worker_id = (select id from rented.workers)
        """
    )

    async def ended() -> bool:
        return await statuses(roles) == ["succeeded", "succeeded"]

    async with worker(app):
        await eventually(ended)
    await roles.superuser.execute("update rented.jobs_done set prune_after = now() - interval '1 hour'")
    assert (await roles.command("worker", "prune", "--json")).code == 0
    assert await statuses(roles) == []
    assert await roles.superuser.fetchval("select count(*) from rented.job_lines") == 0


async def test_a_worker_neither_limits_nor_activates_but_the_owner_does(roles: Roles) -> None:
    await register(roles)
    for words in (["limit", "tenant", "acme", "--max-running", "1"], ["definitions", "deactivate", "greet"]):
        refused = await roles.command("worker", *words)
        assert refused.code == 2
        assert "leasehold grants --schema rented prints the SQL" in refused.err
        assert (await roles.command("migrator", *words)).code == 0


async def test_a_workers_role_appends_to_the_audit_log_and_no_more(roles: Roles) -> None:
    await register(roles)
    app = with_jobs(roles.app("worker"))
    async with app.open():
        placed = await app.tenant("acme").aenqueue_key("greet", {})
    assert (await roles.command("worker", "cancel", placed.id)).code == 0
    (entry,) = (await roles.command("worker", "audit", "--json")).document
    assert (entry["action"], entry["tenant"]) == ("job.cancel", "acme")
    async with roles.connection("worker") as connection:
        for statement in (
            "update rented.audit_log set actor = 'nobody'",
            "delete from rented.audit_log",
            "truncate rented.audit_log",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(statement)
    assert (await roles.command("worker", "prune", "--json")).document["audit_entries"] == 0


async def test_a_workers_role_overrides_no_definition(roles: Roles) -> None:
    await register(roles)
    refused = await roles.command("worker", "definitions", "set", "greet", "max_attempts=9")
    assert (refused.code, "leasehold grants --schema rented" in refused.err) == (2, True)
    assert (await roles.command("migrator", "definitions", "set", "greet", "max_attempts=9")).code == 0
    await register(roles)
    shown = (await roles.command("reader", "definitions", "show", "greet", "--json")).document
    assert shown["max_attempts"] == 9


# ------------------------------------------------------------------------------------------------------------ reading


async def test_a_reader_uses_all_commands_that_look(roles: Roles) -> None:
    app = with_jobs(roles.app("worker"))
    async with worker(app):
        placed = await app.tenant("acme").aenqueue_key("greet", {})
        await placed.aresult(SECONDS)
        for words in (
            ["jobs"],
            ["jobs", "--tenant", "acme", "--state", "succeeded"],
            ["job", placed.id],
            ["logs", placed.id],
            ["logs", placed.id, "--follow"],
            ["counts", "--tenant", "acme"],
            ["tenants"],
            ["limits"],
            ["workers"],
            ["definitions"],
            ["definitions", "show", "greet"],
            ["triggers"],
            ["events", "ls", "--tenant", "acme"],
            ["events", "test", "greeting.wanted", "--tenant", "acme"],
            ["migrate", "--check"],
            ["audit"],
        ):
            shown = await roles.command("reader", *words)
            assert (words, shown.code, shown.err if shown.code else "") == (words, 0, "")
        doctor = (await roles.command("reader", "doctor", "--json")).document
    assert {finding["check"] for finding in doctor["findings"]} >= {"schema", "listener", "clock", "workers"}


async def test_a_reader_enqueues_nothing(roles: Roles) -> None:
    await register(roles)
    refused = await roles.command("reader", "enqueue", "greet", "--tenant", "acme")
    assert refused.code == 2
    assert "leasehold grants --schema rented prints the SQL" in refused.err
    assert await statuses(roles) == []
