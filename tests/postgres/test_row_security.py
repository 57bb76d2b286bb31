"""Row-level security beside the tenant in each statement: each holds with the other taken away."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import asyncpg
import pytest
from tests.conftest import Raw
from tests.lossy_proxies import through_a_pooler
from tests.postgres.roles import SCHEMA, Roles

from leasehold import InvalidInput
from leasehold.engines import engine_for
from leasehold.engines.postgres.confined import ConfinedDatabase
from leasehold.engines.postgres.database import Database
from leasehold.engines.postgres.statements import statements
from leasehold.engines.postgres.store import PostgresStore
from leasehold.model.audit import Actor, NewEntry
from leasehold.model.dedupe import Dedupe, Within
from leasehold.model.definition import Definition
from leasehold.model.error_group import error_group
from leasehold.model.event import NewEvent
from leasehold.model.job import JobId, NewJob, TenantId
from leasehold.model.operation import OperationKind, OperationState
from leasehold.model.outcome import Verdict
from leasehold.model.status import AttemptStatus, Status
from leasehold.model.trigger import NewTrigger
from leasehold.store import (
    AuditFilter,
    CancelAnswer,
    Filter,
    NewOperation,
    RescheduleAnswer,
    RetryAnswer,
    Subscription,
    WorkerFacts,
)

ACME, GLOBEX = TenantId("acme"), TenantId("globex")
REPORT = Definition("report")
HOUR = timedelta(hours=1)
REFUSALS = re.compile("row-level security|another tenant|permission denied")
OF_A_TENANT = (
    "tenant/",
    "triggers/",
    "events/",
    "own/",
    "operations/begin",
    "operations/get",
    "operations/list_of_tenant",
    "operations/abort",
    "operations/look_at",
    "audit/page",
    "audit/append",
)
RETRY = NewOperation(OperationKind.RETRY, GLOBEX, Filter(statuses=(Status.DEAD_LETTER,)))
TENANT_TABLES = (
    "jobs",
    "jobs_done",
    "job_attempts",
    "job_lines",
    "dedupe_holds",
    "triggers",
    "trigger_decisions",
    "events",
    "operations",
    "audit_log",
)


def confined_url(url: str, role: str) -> str:
    return f"{url}{'&' if '?' in url else '?'}tenant_role={quote(role)}"


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[PostgresStore]:
    store = await engine_for(url, SCHEMA).open()
    assert isinstance(store, PostgresStore)
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def confined(roles: Roles) -> AsyncIterator[PostgresStore]:
    async with opened(confined_url(roles.url("tenant"), roles.names.tenant)) as store:
        yield store


async def fill(store: PostgresStore, tenant: TenantId) -> dict[str, Any]:
    """Gives a tenant rows in every table. Returns its ids, by the parameters of statements."""
    await store.sync_definitions([REPORT])
    jobs = store.tenant(tenant)
    (ended,) = await jobs.enqueue([NewJob(definition="report")])
    registration = await store.join(Subscription(("report",), (tenant,)), WorkerFacts("host", 1), HOUR)
    (claim,) = (await store.claim(registration, 1)).claims
    await store.finish([(claim, Verdict(Status.DEAD_LETTER, AttemptStatus.FAILED, error="secret of " + tenant))])
    await store.leave(registration)
    key = Dedupe("key", Within(HOUR))
    (held,) = await jobs.enqueue([NewJob(definition="report", payload={"secret": tenant}, dedupe=key, delay=HOUR)])
    trigger = await store.triggers(tenant).add(NewTrigger(label="wanted", event="report.wanted", definition="report"))
    event = await store.events(tenant).emit(NewEvent("report.wanted"))
    operation = await store.operations.begin(replace(RETRY, tenant=tenant, created_by="secret of " + tenant))
    await store.audit.append(NewEntry("job.retry", "secret of " + tenant, Actor("anna"), tenant))
    return {
        "tenant": tenant,
        "job": held.id,
        "jobs": [held.id, ended.id],
        "trigger": trigger.id,
        "id": event.id,
        "operation": operation.id,
    }


async def stored(connection: Raw, tenant: str) -> list[Any]:
    """Returns every row of a tenant, as text."""
    found = []
    for table in TENANT_TABLES:
        query = f"select t::text from rented.{table} t where tenant_id = $1 order by 1"  # noqa: S608
        rows = await connection.fetch(query, tenant)
        found += [(table, row[0]) for row in rows]
    return found


def values_for(parameters: tuple[str, ...], ids: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a value for each parameter of a statement, as far as one is needed to reach the tenant's rows."""
    known: dict[str, Any] = {
        **ids,
        "event": ids["id"],
        "attempts": [0, 1],
        "attempt": 1,
        "since": 0,
        "after": None,
        "limit": 100,
        "most": 10,
        "cap": 100,
        "seen": 1,
        "up_to": JobId("ffffffff-ffff-ffff-ffff-ffffffffffff"),
        "active": ["queued"],
        "running": True,
        "succeeded": True,
        "unusual": ["dead_letter"],
        "delay": timedelta(),
        "keys": ["key"],
        "enabled": False,
        "reset": False,
        "restore": True,
        "kind": None,
        "payload_template": "{}",
        "definition": "report",
        "ids": str(uuid4()),
        "payloads": "{}",
        "payload": "{}",
        "source": "manual",
        "wakes": False,
        "definitions": None,
        "label": "",
        "end": None,
        "priority": 1,
        "version": 1,
        "name": "x",
        "data": "{}",
        "decisions": "[]",
        "emitted_at": None,
        "dues": [],
        "before": JobId("ffffffff-ffff-ffff-ffff-ffffffffffff"),
        "from_id": JobId("00000000-0000-0000-0000-000000000000"),
        "statuses": ["queued"],
        "status": "dead_letter",
        "scan": 100,
        "job_filter": "{}",
        "canary": False,
        "total_is_cap": False,
        "actor": "anna",
        "subject": "a job",
        "action": "job.retry",
        "reason": None,
    }
    values = {name: known.get(name) for name in parameters}
    if "after" in parameters and "attempt" in parameters:
        values["after"] = 0
    if "id" in parameters and "definition" in parameters:
        values["id"] = str(uuid4())
    if "canary" in parameters:
        values |= {"id": str(uuid4()), "kind": "retry"}
    if "actor" in parameters:
        values["before"] = None
    if "wakes" in parameters and "jobs" in parameters:
        values["jobs"] = '[{"definition": "report", "source": "manual"}]'
    if "till" in parameters:
        now = datetime.now(UTC)
        given = {
            "since": now - HOUR,
            "till": now,
            "step": 60,
            "definitions": [""],
            "by_definition": True,
            "limit": 10,
        }
        values |= {name: value for name, value in given.items() if name in parameters}
    if "dues" in parameters:
        values["definitions"] = []
    return values


# ------------------------------------------------------------------------------------------------- both


async def test_a_confined_handle_does_what_a_tenant_does(roles: Roles) -> None:
    async with opened(roles.url("worker")) as store:
        ids = await fill(store, ACME)
    async with confined(roles) as store:
        acme, events, triggers = store.tenant(ACME), store.events(ACME), store.triggers(ACME)
        held, ended = ids["jobs"]
        assert [job.id for job in (await acme.find(Filter(), None, 10)).jobs][1:] == [held, ended]
        assert (await acme.counts(10))[Status.DEAD_LETTER] == 1
        assert [attempt.error for attempt in await acme.attempts(ended)] == ["secret of acme"]
        assert await acme.lines(ended, 1) == []
        (found,) = await triggers.list(10)
        assert (await events.list(10))[0].name == "report.wanted"
        assert len((await events.emit(NewEvent("report.wanted"))).decisions) == 1
        (one,) = await acme.enqueue([NewJob(definition="report")])
        await acme.enqueue([NewJob(definition="report"), NewJob(definition="report")])
        async with acme.bulk_transaction() as bulk:
            await bulk.enqueue([NewJob(definition="report", dedupe=Dedupe("other"))])
        assert await acme.wait_until_final(one.id, timedelta()) is None
        assert (await acme.reschedule([held], HOUR))[held] is RescheduleAnswer.RESCHEDULED
        assert (await acme.cancel([one.id]))[one.id] is CancelAnswer.CANCELED
        assert (await acme.retry({ended: 1}))[ended] is RetryAnswer.QUEUED
        begun = await store.operations.begin(replace(RETRY, tenant=ACME))
        assert await store.operations.get(begun.id, ACME) == begun
        assert [each.id for each in (await store.operations.list(ACME, None, 1)).operations] == [begun.id]
        aborted = await store.operations.abort(begun.id, ACME)
        assert aborted is not None
        assert aborted.state is OperationState.ABORTED
        assert (await store.operations.look(replace(RETRY, tenant=ACME), None, 10, 10)).jobs == []
        await store.audit.append(NewEntry("job.cancel", "job", Actor("anna"), ACME))
        assert [each.entry.action for each in (await store.audit.page(AuditFilter(ACME), None, 1)).entries] == [
            "job.cancel"
        ]
        assert await triggers.pause(found.id, None) is not None
        assert await triggers.delete(found.id)


async def test_calls_of_two_tenants_over_a_pool_stay_apart(roles: Roles) -> None:
    async with opened(roles.url("worker")) as store:
        owned = {tenant: set((await fill(store, tenant))["jobs"]) for tenant in (ACME, GLOBEX)}
    async with confined(roles) as store:
        both = [job for jobs in owned.values() for job in jobs]

        async def look(tenant: TenantId) -> bool:
            return {job.id for job in await store.tenant(tenant).get_many(both)} == owned[tenant]

        seen = [await asyncio.gather(*(look(tenant) for tenant in (ACME, GLOBEX) * 10)) for _ in range(50)]
    assert all(all(each) for each in seen)


async def test_a_pooler_carries_no_tenant_to_the_next_client(roles: Roles, database_url: str) -> None:
    async with opened(roles.url("worker")) as store:
        owned = {tenant: set((await fill(store, tenant))["jobs"]) for tenant in (ACME, GLOBEX)}
    both = [job for jobs in owned.values() for job in jobs]
    left = "select current_user = session_user, current_setting('leasehold_session.tenant', true)"
    async with (
        through_a_pooler(database_url, size=1) as url,
        opened(confined_url(url, roles.names.tenant)) as store,
        asyncpg.create_pool(url, statement_cache_size=0, min_size=1) as next_clients,
    ):
        for tenant in (ACME, GLOBEX) * 5:
            assert {job.id for job in await store.tenant(tenant).get_many(both)} == owned[tenant]
        found = await next_clients.fetchrow(left)
    assert found is not None
    assert tuple(found) == (True, "")


async def test_a_confined_change_is_a_part_of_the_transaction_around_it(roles: Roles) -> None:
    async with opened(roles.url("worker")) as store:
        ids, theirs = await fill(store, ACME), await fill(store, GLOBEX)
    async with opened(confined_url(roles.url("server"), roles.names.tenant)) as store:
        acme = store.tenant(ACME)
        with suppress(RuntimeError):
            async with store.together():
                assert (await acme.cancel([ids["job"]]))[ids["job"]] is CancelAnswer.CANCELED
                everything = await store.find_all_tenants(Filter(), None, 100)
                assert {job.tenant for job in everything.jobs} == {ACME, GLOBEX}
                assert await acme.get_many(theirs["jobs"]) == []
                raise RuntimeError("roll back")
        (job,) = await acme.get_many([ids["job"]])
        assert job.status is Status.QUEUED


# --------------------------------------------------------------------- without the tenant in statements


async def test_rows_of_others_stay_hidden_from_every_statement(roles: Roles) -> None:
    """Each statement gets another tenant and that one's ids, as if a handle had mixed them up."""
    async with opened(roles.url("worker")) as store:
        ids = await fill(store, GLOBEX)
        await fill(store, ACME)
    before = await stored(roles.superuser, GLOBEX)
    database = Database(roles.url("tenant"), SCHEMA)
    known = {name: each for name, each in statements(SCHEMA).items() if name.startswith(OF_A_TENANT)}
    answers: dict[str, Any] = {}
    refused: dict[str, str] = {}
    for name, statement in sorted(known.items()):
        confined = ConfinedDatabase(database, roles.names.tenant, ACME)
        try:
            answers[name] = await confined.fetch(name, **values_for(statement.parameters, ids))
        except InvalidInput as error:
            refused[name] = str(error)
    await database.close()
    assert [name for name, why in refused.items() if not REFUSALS.search(why)] == []
    assert {name: rows for name, rows in answers.items() if GLOBEX in str(rows) or "secret" in str(rows)} == {}
    found = {name for name, rows in answers.items() if rows}
    looks = {f"operations/look_at_{which}" for which in ("active", "chosen", "ended", "error_group")}
    assert found <= {"tenant/counts", "tenant/wake", "tenant/ensure_tenant", "tenant/look", *looks}
    assert all(answers[name][0]["looked"] == 0 for name in (*looks, "tenant/look"))
    assert all(row["count"] == 0 for row in answers["tenant/counts"])
    assert await stored(roles.superuser, GLOBEX) == before


@pytest.mark.parametrize("set_to", [None, ""])
async def test_a_role_of_tenants_without_a_tenant_sees_no_row(roles: Roles, set_to: str | None) -> None:
    async with opened(roles.url("worker")) as store:
        await fill(store, ACME)
    async with roles.connection("tenant") as connection:
        if set_to is not None:
            await connection.execute(f"set leasehold_session.tenant = '{set_to}'")
        for table in (*TENANT_TABLES, "job_records"):
            assert await connection.fetchval(f"select count(tenant_id) from rented.{table}") == 0  # noqa: S608
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="another tenant, or to none"):
            await connection.fetch("select * from rented.enqueue_own_jobs('acme', '[]')")


async def test_a_role_of_tenants_changes_no_rows_of_others(roles: Roles) -> None:
    async with opened(roles.url("worker")) as store:
        await fill(store, GLOBEX)
    before = await stored(roles.superuser, GLOBEX)
    async with roles.connection("tenant") as connection:
        await connection.execute("set leasehold_session.tenant = 'acme'")
        assert await connection.execute("delete from rented.jobs") == "DELETE 0"
        assert await connection.execute("delete from rented.jobs_done") == "DELETE 0"
        assert await connection.execute("update rented.jobs set priority = 1") == "UPDATE 0"
        assert await connection.execute("update rented.triggers set enabled = false") == "UPDATE 0"
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
            await connection.execute("insert into rented.tenants values ('initech', now())")
        for function in ("enqueue('globex', 'report')", "enqueue_jobs('globex', '[]')", "emit('globex', 'x')"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError, match="permission denied"):
                await connection.execute(f"select rented.{function}")
    assert await stored(roles.superuser, GLOBEX) == before


# --------------------------------------------------------------------------- without row-level security


async def test_a_handle_alone_hides_the_rows_of_others(roles: Roles) -> None:
    async with opened(roles.url("migrator")) as store:
        ids = await fill(store, GLOBEX)
        before = await stored(roles.superuser, GLOBEX)
        acme, triggers = store.tenant(ACME), store.triggers(ACME)
        assert await acme.get_many(ids["jobs"]) == []
        assert set((await acme.cancel(ids["jobs"])).values()) == {CancelAnswer.UNKNOWN}
        assert set((await acme.retry(dict.fromkeys(ids["jobs"], 1))).values()) == {RetryAnswer.UNKNOWN}
        assert set((await acme.reschedule(ids["jobs"], HOUR)).values()) == {RescheduleAnswer.UNKNOWN}
        assert [await acme.attempts(job) for job in ids["jobs"]] == [[], []]
        assert await acme.facts(ids["job"]) is None
        assert await triggers.get(ids["trigger"]) is None
        assert not await triggers.delete(ids["trigger"])
        assert await store.events(ACME).list(10) == []
        assert await store.operations.get(ids["operation"], ACME) is None
        assert await store.operations.abort(ids["operation"], ACME) is None
        assert (await store.operations.list(ACME, None, 10)).operations == []
        assert (await store.audit.page(AuditFilter(ACME), None, 10)).entries == []
    assert await stored(roles.superuser, GLOBEX) == before


# ---------------------------------------------------------------------------------------- constant work


async def buffers(connection: Raw, name: str, **values: Any) -> tuple[int, int]:
    statement = statements(SCHEMA)[name]
    await connection.execute("set plan_cache_mode = force_generic_plan")
    text = f"explain (analyze, buffers, format json) {statement.text}"
    ((plan,),) = await connection.fetch(text, *statement.arguments(values))
    found = json.loads(plan)[0]["Plan"]
    return found["Actual Rows"], found["Shared Hit Blocks"] + found["Shared Read Blocks"]


@pytest.mark.parametrize("part", ["tenant", "migrator"])
async def test_an_id_of_another_tenant_costs_what_an_unknown_one_does(roles: Roles, part: str) -> None:
    async with opened(roles.url("worker")) as store:
        ids = await fill(store, GLOBEX)
        await fill(store, ACME)
    async with roles.connection(part) as connection:
        await connection.execute("set leasehold_session.tenant = 'acme'")
        for job in ids["jobs"]:
            for _ in range(2):  # the first look reads the catalog, too
                foreign = await buffers(connection, "tenant/get", tenant=ACME, jobs=[job])
                unknown = await buffers(connection, "tenant/get", tenant=ACME, jobs=[str(uuid4())])
            assert foreign == unknown


FAILED_JOBS = """
    insert into rented.jobs_done
    select (jsonb_populate_record(d, jsonb_build_object('id', gen_random_uuid(), 'last_error', error))).*
    from rented.jobs_done d
    cross join (select 'e' || chr(97 + n % 26) as error from generate_series(1, 3000) n) made
    where d.tenant_id = 'acme' and d.status = 'dead_letter'
"""
ONE_GROUP = Filter(error_group=error_group("report", None, "ea"), statuses=(Status.DEAD_LETTER,))


async def ask_by_group(store: PostgresStore, statement: str) -> int:
    """Sends a statement by error group. Returns the number of its groups or jobs."""
    match statement:
        case "error_groups":
            return len((await store.tenant(ACME).error_groups(50, 10)).groups)
        case "find_in_error_group":
            return len((await store.tenant(ACME).find(ONE_GROUP, None, 100)).jobs)
        case _:
            return len(
                (await store.operations.look(replace(RETRY, tenant=ACME, where=ONE_GROUP), None, 300, 100)).jobs
            )


@pytest.mark.parametrize(
    ("statement", "answers"), [("error_groups", 27), ("find_in_error_group", 100), ("look_at_error_group", 100)]
)
async def test_error_groups_of_a_role_are_found_by_their_index(
    roles: Roles, statement: str, answers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under policies, the function of the index would be called for each job that failed."""
    async with opened(roles.url("worker")) as store:
        await fill(store, ACME)
    await roles.superuser.execute(FAILED_JOBS + "; analyze rented.jobs_done")
    plans, send = dict[str, list[str]](), Database.fetch_planned_on

    async def explain_and_send(self: Database, connection: Any, name: str, /, **values: Any) -> list[asyncpg.Record]:
        sent = self.statement(name)
        found = await connection.fetch(f"explain {sent.text}", *sent.arguments(values))
        plans[name.rpartition("/")[2]] = [row[0] for row in found]
        return await send(self, connection, name, **values)

    async with opened(confined_url(roles.url("server"), roles.names.tenant)) as store:
        monkeypatch.setattr(Database, "fetch_planned_on", explain_and_send)
        assert await ask_by_group(store, statement) == answers
    calls = [line.strip() for line in plans[statement] if ".error_group(" in line]
    assert calls
    assert [line for line in calls if not line.startswith("Index Cond:")] == []


async def test_a_list_by_error_group_is_refused_for_another_tenant(roles: Roles) -> None:
    database = Database(roles.url("server"), SCHEMA)
    confined = ConfinedDatabase(database, roles.names.tenant, ACME)
    with pytest.raises(InvalidInput, match="names another tenant"):
        await confined.fetch("tenant/error_groups", tenant=GLOBEX, limit=10, counted=10, only=None)
    await database.close()


# ----------------------------------------------------------------------------------------------------------- policies


async def test_every_table_of_tenants_has_its_policies(roles: Roles) -> None:
    found = await roles.superuser.fetch(
        """
        select c.relname, c.relrowsecurity,
               array(select p.polname::text from pg_policy p where p.polrelid = c.oid order by 1) as policies
        from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id'
        where c.relnamespace = 'rented'::regnamespace and c.relkind in ('r', 'p')
        """
    )
    assert {row["relname"] for row in found} >= set(TENANT_TABLES)
    assert all(row["relrowsecurity"] and row["policies"] == ["all_rows", "own_tenant"] for row in found)


async def test_functions_with_the_owners_rights_have_a_fixed_path(roles: Roles) -> None:
    found = await roles.superuser.fetch(
        "select proname, proconfig from pg_proc where pronamespace = 'rented'::regnamespace and prosecdef"
    )
    assert {row["proname"] for row in found} >= {"enqueue_own_jobs", "write_own_event", "place_own_event", "enqueue"}
    assert all("search_path=pg_catalog, pg_temp" in row["proconfig"] for row in found)


async def test_a_second_run_of_the_grants_changes_no_policy(roles: Roles) -> None:
    """A policy that is made again would lock the table of jobs at each deploy."""
    policies = "select oid, polrelid, polroles from pg_policy order by 1"
    before = await roles.superuser.fetch(policies)
    await roles.grant()
    assert await roles.superuser.fetch(policies) == before


@pytest.mark.parametrize(("part", "why"), [("migrator", "it owns the table"), ("reader", "has no policy for it")])
async def test_a_role_that_policies_miss_is_refused(roles: Roles, part: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        async with opened(confined_url(roles.url(part), roles.names.by_part()[part])):
            pass


async def test_a_role_that_is_not_a_member_is_refused(roles: Roles) -> None:
    with pytest.raises(InvalidInput, match="is not a member of it"):
        async with opened(confined_url(roles.url("reader"), roles.names.tenant)):
            pass
