"""`leasehold.enqueue` and `leasehold.enqueue_jobs`: public, for triggers and other languages, and here to stay."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import asyncpg
import pytest
from tests.conftest import Raw
from tests.postgres.enqueue_calls import DEFAULTS, enqueue, enqueued, refusal
from tests.postgres.race_tools import Connections
from tests.store.bench import BROUGHT_ID, KEY, REPORT, Bench, all_jobs, keyed
from tests.store.wake_listener import asleep
from tests.tenant_kit import ACME, HOUR

from leasehold.engines.postgres.migrate import migrate
from leasehold.model.dedupe import Always, Dedupe, Mode, WhileActive, Within
from leasehold.model.job import EnqueueResult, NewJob, Source
from leasehold.store import Wake

# Signatures grow only: at the end, by arguments that have defaults. A shorter one would break its users.
SIGNATURES = {
    "enqueue": "tenant text, key text, payload jsonb DEFAULT '{}'::jsonb, priority integer DEFAULT NULL::integer, "
    "max_attempts integer DEFAULT NULL::integer, delay interval DEFAULT NULL::interval, "
    "at timestamp with time zone DEFAULT NULL::timestamp with time zone, "
    "deadline timestamp with time zone DEFAULT NULL::timestamp with time zone, "
    "dedupe_key text DEFAULT NULL::text, dedupe text DEFAULT NULL::text, "
    "dedupe_for interval DEFAULT NULL::interval, on_conflict text DEFAULT NULL::text, id uuid DEFAULT NULL::uuid, "
    "correlation_id text DEFAULT NULL::text, created_by text DEFAULT NULL::text, "
    "OUT job_id uuid, OUT created boolean, OUT replaced boolean",
    "enqueue_jobs": "tenant text, jobs jsonb, wakes boolean DEFAULT true, validate boolean DEFAULT true",
    "wake_workers": "tenant text, key text",
    "emit": "tenant text, name text, data jsonb DEFAULT '{}'::jsonb, correlation_id text DEFAULT NULL::text, "
    "created_by text DEFAULT NULL::text, id uuid DEFAULT NULL::uuid, OUT event_id uuid, OUT expanded boolean",
}
ANSWER = (
    "TABLE(number bigint, job_id uuid, created boolean, replaced boolean, "
    "code text, happened text, fix text, about text)"
)


# Signatures


async def test_their_signatures_are_what_was_promised(observer: Raw) -> None:
    found = await observer.fetch(
        """
        select proname, pg_get_function_arguments(oid) as arguments, pg_get_function_result(oid) as result
        from pg_proc where pronamespace = 'leasehold'::regnamespace and proname = any($1)
        """,
        list(SIGNATURES),
    )
    assert {row["proname"]: row["arguments"] for row in found} == SIGNATURES
    assert {row["proname"]: row["result"] for row in found} == {
        "enqueue": "record",
        "enqueue_jobs": ANSWER,
        "wake_workers": "integer",
        "emit": "record",
    }


async def test_they_run_as_the_owner_on_a_path_that_no_caller_can_turn(observer: Raw) -> None:
    found = await observer.fetch(
        """
        select prosecdef, proconfig[1] as path, has_function_privilege('public', oid, 'execute') as anyones
        from pg_proc where pronamespace = 'leasehold'::regnamespace and proname = any($1)
        """,
        list(SIGNATURES),
    )
    assert [tuple(row) for row in found] == [(True, "search_path=pg_catalog, pg_temp", False)] * len(SIGNATURES)


async def test_no_function_that_forbids_scans_compiles_its_statements(observer: Raw) -> None:
    found = await observer.fetch(
        """
        select proname, 'jit=off' = any (proconfig) as is_off from pg_proc
        where pronamespace = 'leasehold'::regnamespace and 'enable_seqscan=off' = any (proconfig)
        """
    )
    assert {row["proname"]: row["is_off"] for row in found} == dict.fromkeys(
        [
            *SIGNATURES,
            *("finish_within", "wake_held", "write_event", "place_event"),
            *("roll_up", "figures_of_minutes", "depths", "usage_between", "dead_letters", "oldest_waits"),
        ],
        True,
    )


async def test_a_caller_can_not_put_functions_of_its_own_in_their_way(bench: Bench, observer: Raw) -> None:
    await observer.execute(
        """
        create schema trap; set search_path = trap, leasehold, pg_catalog;
        create function trap.length(text) returns integer language sql as 'select 1 / 0';
        create function trap.coalesce_all(text) returns text language sql as 'select 1 / 0';
        create function trap.jsonb_typeof(jsonb) returns text language sql as 'select (1 / 0)::text';
        """
    )
    assert (await enqueue(observer)).created


async def test_a_role_of_an_app_needs_execute_and_nothing_else(bench: Bench, observer: Raw) -> None:
    transaction = observer.transaction()
    await transaction.start()
    await observer.execute("create role an_app; grant usage on schema leasehold to an_app")
    await observer.execute("grant execute on function leasehold.enqueue to an_app; set local role an_app")
    assert (await enqueue(observer, f"{DEFAULTS}, dedupe_key => 'k', dedupe => 'always'")).created
    assert not (await enqueue(observer, f"{DEFAULTS}, dedupe_key => 'k', dedupe => 'always'")).created
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await observer.fetch("select * from leasehold.jobs")
    await transaction.rollback()


async def test_they_work_in_a_schema_of_any_name(database_url: str, observer: Raw) -> None:
    await migrate(database_url, "other")
    with pytest.raises(asyncpg.PostgresError, match=r'LH-1002: no definition has the key "report". Known: none'):
        await observer.fetch("select * from other.enqueue('acme', 'report', dedupe => 'always')")


# Enqueued jobs


async def test_a_job_with_nothing_said_is_due_and_as_its_definition_says(bench: Bench, observer: Raw) -> None:
    job = await enqueued(bench, observer, DEFAULTS)
    assert (job.tenant, job.definition, job.version, job.payload) == (ACME, "report", 1, {})
    assert (job.priority, job.max_attempts, job.due, job.source) == (100, 3, True, Source.MANUAL)


async def test_all_that_is_said_is_kept(bench: Bench, observer: Raw) -> None:
    job = await enqueued(
        bench,
        observer,
        f"""{DEFAULTS}, '{{"month": 3}}', priority => 7, max_attempts => 9, at => '2999-01-01T12:00Z',
            deadline => '2999-01-02T00:00Z', correlation_id => 'order-7', created_by => 'a trigger',
            id => '{BROUGHT_ID}', dedupe_key => 'k'""",
    )
    assert (job.id, job.payload, job.priority, job.max_attempts) == (BROUGHT_ID, {"month": 3}, 7, 9)
    assert (job.scheduled_for, job.due) == (datetime(2999, 1, 1, 12, tzinfo=UTC), False)
    assert job.deadline == datetime(2999, 1, 2, tzinfo=UTC)
    assert (job.correlation_id, job.created_by, job.dedupe_key) == ("order-7", "a trigger", "k")


async def test_a_delay_counts_from_the_databases_clock(bench: Bench, observer: Raw) -> None:
    job = await enqueued(bench, observer, f"{DEFAULTS}, delay => '1 hour'")
    assert job.scheduled_for - job.queued_at == HOUR


async def test_a_tenant_appears_at_its_first_use(bench: Bench, observer: Raw) -> None:
    await enqueue(observer, "'never-seen', 'report'")
    assert "never-seen" in await bench.store.tenants()


async def test_an_id_that_is_made_here_is_in_the_order_of_time(bench: Bench, observer: Raw) -> None:
    made = [UUID((await enqueue(observer)).id) for _ in range(50)]
    assert made == sorted(made)
    assert {(each.version, each.variant) for each in made} == {(7, "specified in RFC 4122")}


async def test_it_wakes_who_sleeps(bench: Bench, observer: Raw) -> None:
    registration = await bench.join()
    async with asleep(bench.store, registration) as listener:
        await enqueue(observer)
        assert await listener.next() is Wake.WORK


async def test_a_replaced_job_wakes_a_worker_that_sleeps_longer(bench: Bench, observer: Raw) -> None:
    await enqueue(observer, f"{DEFAULTS}, delay => '1 hour', dedupe_key => 'k'")
    registration = await bench.join()
    async with asleep(bench.store, registration) as listener:
        assert (await enqueue(observer, f"{DEFAULTS}, dedupe_key => 'k', on_conflict => 'replace'")).replaced
        assert await listener.next() is Wake.WORK


async def test_a_trigger_enqueues_in_the_transaction_that_fires_it(bench: Bench, observer: Raw) -> None:
    await observer.execute(
        """
        create table orders (number integer);
        create function ship() returns trigger language plpgsql as $$
        begin
            perform leasehold.enqueue('acme', 'report', jsonb_build_object('number', new.number));
            return new;
        end $$;
        create trigger ship after insert on orders for each row execute function ship();
        """
    )
    transaction = observer.transaction()
    await transaction.start()
    await observer.execute("insert into orders values (1)")
    await transaction.rollback()
    await observer.execute("insert into orders values (2), (3)")
    assert sorted(job.payload["number"] for job in await all_jobs(bench.jobs)) == [2, 3]


async def test_an_enqueue_is_durable_whatever_the_session_said(connections: Connections, bench: Bench) -> None:
    careless = await connections.open(synchronous_commit="off")
    async with careless.transaction():
        await enqueue(careless)
        assert await careless.fetchval("show synchronous_commit") == "on"


# Once

MODES: dict[str, tuple[Mode, str]] = {
    "active": (WhileActive(), ""),
    "window": (Within(HOUR), ", dedupe => 'window', dedupe_for => '1 hour'"),
    "always": (Always(), ", dedupe => 'always'"),
}


@pytest.mark.parametrize("mode", MODES)
async def test_a_key_from_sql_is_the_same_key_from_python(bench: Bench, observer: Raw, mode: str) -> None:
    python, sql = MODES[mode]
    first = await enqueue(observer, f"{DEFAULTS}, dedupe_key => '{KEY}'{sql}")
    (second,) = await bench.jobs.enqueue([NewJob(definition="report", dedupe=keyed(python))])
    assert (first.created, second) == (True, EnqueueResult(first.id, created=False))


@pytest.mark.parametrize("mode", MODES)
async def test_the_canonical_key_from_sql_is_the_same_from_python(bench: Bench, observer: Raw, mode: str) -> None:
    python, sql = MODES[mode]
    payload = {"to": {"z": [1, {"d": None, "c": 2.50}], "a": 1e300}, "b": -0.0, "é": 'x"\\\n', "": []}
    (first,) = await bench.jobs.enqueue([NewJob(definition="report", payload=payload, dedupe=Dedupe(None, python))])
    said = sql or ", dedupe => 'active'"
    text = json.dumps(dict(reversed(payload.items())), ensure_ascii=False)
    second = await observer.fetchrow(
        f"select * from leasehold.enqueue({DEFAULTS}, $1::text::jsonb {said})",  # noqa: S608
        text,
    )
    assert second is not None
    assert (str(second["job_id"]), second["created"]) == (first.id, False)


async def test_raise_and_replace_work_from_sql(bench: Bench, observer: Raw) -> None:
    held = await enqueue(observer, f"{DEFAULTS}, dedupe_key => 'k'")
    said = await refusal(observer, f"{DEFAULTS}, dedupe_key => 'k', on_conflict => 'raise'")
    assert said.startswith(f'L1010: LH-1010: dedupe key "k" is held by job {held.id} (queued).')
    replaced = await enqueue(observer, f"""{DEFAULTS}, '{{"n": 2}}', dedupe_key => 'k', on_conflict => 'replace'""")
    assert replaced == EnqueueResult(held.id, created=False, replaced=True)


async def test_an_id_from_sql_is_the_same_id_from_python(bench: Bench, observer: Raw) -> None:
    await bench.enqueue(id=BROUGHT_ID, payload={"a": 1, "b": 2.0})
    again = await enqueue(observer, f"""{DEFAULTS}, '{{"b": 2.0, "a": 1}}', id => '{BROUGHT_ID}'""")
    assert again == EnqueueResult(BROUGHT_ID, created=False)
    assert "L1013: LH-1013" in await refusal(observer, f"{DEFAULTS}, id => '{BROUGHT_ID}'")


async def test_a_lost_race_has_the_state_that_every_language_knows(
    bench: Bench, observer: Raw, connections: Connections
) -> None:
    other = await connections.open()
    transaction = observer.transaction(isolation="repeatable_read")
    await transaction.start()
    await observer.execute("select from leasehold.jobs")
    await enqueue(other, f"{DEFAULTS}, dedupe_key => 'k'")
    with pytest.raises(asyncpg.SerializationError):
        await enqueue(observer, f"{DEFAULTS}, dedupe_key => 'k'")
    await transaction.rollback()


# Documentation

PAGE = (Path(__file__).parents[2] / "docs/reference/sql.md").read_text()


def test_the_page_lists_the_arguments_in_their_order() -> None:
    listed = re.findall(r"^\| `(\w+)` \| (\w+) \|", PAGE, re.MULTILINE)
    types = {"timestamptz": "timestamp with time zone"}
    arguments = SIGNATURES["enqueue"].partition(", OUT")[0].split(", ")
    assert [f"{name} {types.get(kind, kind)}" for name, kind in listed] == [
        argument.partition(" DEFAULT")[0] for argument in arguments
    ]


async def test_the_sql_on_the_page_runs(bench: Bench, observer: Raw) -> None:
    await bench.store.sync_definitions([replace(REPORT, key=key) for key in ("sync_folder", "ship")])
    transaction = observer.transaction()
    await transaction.start()
    await observer.execute("create role app; create table orders (tenant text, number integer, uuid uuid)")
    blocks = re.findall(r"^```sql\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    for block in blocks:
        await observer.execute(block)
    await observer.execute("insert into orders values ('acme', 7, gen_random_uuid())")
    assert len(blocks) == 6
    assert await observer.fetchval("select count(*) from leasehold.jobs") == 5
    await transaction.rollback()
