"""`leasehold.enqueue` and `leasehold.enqueue_jobs`: public, for triggers and other languages, and here to stay."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.conftest import Raw
from tests.postgres.race_tools import Connections
from tests.store.bench import BROUGHT_ID, KEY, REPORT, Bench, all_jobs, keyed
from tests.store.wake_listener import asleep
from tests.tenant_kit import ACME, HOUR

from leasehold.engines.postgres.migrate import migrate
from leasehold.errors import InvalidInput, LeaseholdError
from leasehold.model.dedupe import Always, Dedupe, Mode, WhileActive, Within, canonical_key
from leasehold.model.job import EnqueueResult, JobId, JobRecord, NewJob, Source, tenant_id
from leasehold.store import Wake

DEFAULTS = "'acme', 'report'"
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
}
ANSWER = (
    "TABLE(number bigint, job_id uuid, created boolean, replaced boolean, "
    "code text, happened text, fix text, about text)"
)


async def enqueue(connection: Raw, arguments: str = DEFAULTS) -> EnqueueResult:
    row = await connection.fetchrow(f"select * from leasehold.enqueue({arguments})")  # noqa: S608
    assert row is not None
    return EnqueueResult(JobId(str(row["job_id"])), row["created"], row["replaced"])


async def enqueued(bench: Bench, connection: Raw, arguments: str) -> JobRecord:
    return await bench.job((await enqueue(connection, arguments)).id)


async def refusal(connection: Raw, arguments: str) -> str:
    with pytest.raises(asyncpg.PostgresError) as refused:
        await enqueue(connection, arguments)
    error: Any = refused.value
    assert error.message.startswith(f"LH-{error.sqlstate[1:]}: ")
    return f"{error.sqlstate}: {error.message} {error.hint}"


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
        [*SIGNATURES, "finish_within", "wake_held"], True
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


# Refusals


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ("'acme', 'reprt'", "1002", r'no definition has the key "reprt". Known: email, report'),
        ("null, 'report'", "1000", "null is not a tenant id"),
        ("'acme', null", "1002", "no definition"),
        ("'acme', 'report', '[1]'", "1001", "payload: array is not an object"),
        ("'acme', 'report', 'null'", "1001", "payload: null is not an object"),
        ("'acme', 'report', null", "1001", "payload: null is not an object"),
        (f"{DEFAULTS}, jsonb_build_object('x', repeat('y', 262144))", "1001", "262152 bytes of JSON, at most 262144"),
        (f"{DEFAULTS}, (repeat('{{\"a\":', 33) || '1' || repeat('}}', 33))::jsonb", "1001", "nested deeper than 32"),
        (f"{DEFAULTS}, priority => 32768", "1000", "priority=32768 is not between"),
        (f"{DEFAULTS}, priority => -32769", "1000", "priority=-32769 is not between"),
        (f"{DEFAULTS}, max_attempts => 0", "1000", "max_attempts=0 is not at least 1"),
        (f"{DEFAULTS}, delay => '-1 second'", "1000", "delay=-00:00:01 is not between zero and 3650 days"),
        (f"{DEFAULTS}, delay => '3651 days'", "1000", "delay=3651 days is not between"),
        (f"{DEFAULTS}, at => 'infinity'", "1000", "at=infinity names no moment"),
        (f"{DEFAULTS}, deadline => '-infinity'", "1000", "deadline=-infinity names no moment"),
        (f"{DEFAULTS}, dedupe => 'sometimes'", "1000", "none of active, window and always"),
        (f"{DEFAULTS}, dedupe => 'window'", "1000", "a window needs dedupe_for"),
        (f"{DEFAULTS}, dedupe_key => ''", "1000", "a dedupe key has 1 to 1000 characters, this one 0"),
        (f"{DEFAULTS}, dedupe_key => repeat('k', 1001)", "1000", "this one 1001"),
        (f"{DEFAULTS}, dedupe_key => 'k', dedupe_for => '1 hour'", "1000", "dedupe_for goes with dedupe window or"),
        (f"{DEFAULTS}, dedupe => 'always', dedupe_for => '0'", "1000", "not longer than zero and at most 3650 days"),
        (f"{DEFAULTS}, dedupe_key => 'k', on_conflict => 'ignore'", "1000", "none of return, raise and replace"),
        (f"{DEFAULTS}, on_conflict => 'raise'", "1000", "a dedupe key is held, and there is none"),
        (f"{DEFAULTS}, correlation_id => repeat('c', 1001)", "1000", "correlation_id has 1001 characters"),
        (f"{DEFAULTS}, created_by => repeat('c', 1001)", "1000", "created_by has 1001 characters"),
        (f"{DEFAULTS}, at => '9999-01-01Z'", "1000", "is not in the years 1900 to 9998"),
        (f"{DEFAULTS}, at => '294276-12-31Z'", "1000", "is not in the years 1900 to 9998"),
        (f"{DEFAULTS}, deadline => '0044-03-15 BC'", "1000", "is not in the years 1900 to 9998"),
        (f"{DEFAULTS}, delay => '71582788 mons -2147483640 days'", "1000", "is not between zero and 3650 days"),
        (f"{DEFAULTS}, delay => '-2147483640 days 71582788 mons'", "1000", "is not between zero and 3650 days"),
        (
            f"{DEFAULTS}, dedupe => 'always', dedupe_for => '71582788 mons -2147483640 days 1 hour'",
            "1000",
            "not longer than zero and at most 3650 days",
        ),
        (f"""{DEFAULTS}, '{{"n": 1e400}}'""", "1001", "a number beyond 1.8e308"),
        (f"""{DEFAULTS}, '{{"a": [{{"b": -1e400}}]}}'""", "1001", "a number beyond 1.8e308"),
        ("'acme', repeat('k', 5000)", "1000", "definition has 5000 characters"),
    ],
    ids=lambda value: value[:60] if isinstance(value, str) else None,
)
async def test_values_that_sql_can_check_are_refused(
    bench: Bench, observer: Raw, arguments: str, code: str, said: str
) -> None:
    message = await refusal(observer, arguments)
    assert message.startswith(f"L{code}: LH-{code}: ")
    assert said in message
    assert "Nothing was enqueued." in message
    assert await all_jobs(bench.jobs) == []


async def test_an_inactive_definition_takes_nothing(bench: Bench, observer: Raw) -> None:
    await bench.store.activate("report", False)
    assert "L1005: LH-1005: 'report' is inactive" in await refusal(observer, DEFAULTS)


async def test_a_strict_schema_refuses_unknown_tenants(bench: Bench, observer: Raw) -> None:
    await bench.store.set_strict_tenants(True)
    assert "L1006: LH-1006: tenant 'acmee' was never registered" in await refusal(observer, "'acmee', 'report'")
    jobs = json.dumps([{"definition": "report", "payload": {}}])
    row = await observer.fetchrow("select code from leasehold.enqueue_jobs('acmee', $1)", jobs)
    assert row is not None
    assert row["code"] == "L1006"
    await bench.store.add_tenant(tenant_id("acmee"))
    assert (await enqueue(observer, "'acmee', 'report'")).created


async def test_a_payload_is_measured_without_the_spaces_of_postgres(bench: Bench, observer: Raw) -> None:
    payload: dict[str, Any] = {"numbers": [1] * 100_000, "text": 'a: "b", c ' * 5_000}
    (placed,) = await bench.jobs.enqueue([NewJob(definition="report", payload=payload, dedupe=Dedupe())])
    assert placed.created


async def test_drivers_are_answered_and_not_thrown_out_of_their_transaction(bench: Bench, observer: Raw) -> None:
    jobs = json.dumps([{"definition": "report", "payload": {}}, {"definition": "nope", "payload": {}}])
    async with observer.transaction():
        (row,) = await observer.fetch("select * from leasehold.enqueue_jobs('acme', $1::text::jsonb)", jobs)
        assert (row["job_id"], row["code"]) == (None, "L1002")
        assert await observer.fetch("select * from leasehold.enqueue_jobs('acme', '[]')") == []
    assert await all_jobs(bench.jobs) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("at", '"tomorrow-ish"'),
        ("at", '"300000-01-01"'),
        ("at", '"infinity"'),
        ("deadline", '"0044-03-15 BC"'),
        ("delay", '"forever"'),
        ("delay", '"300000 years"'),
        ("priority", "99999999999"),
        ("priority", '"high"'),
        ("max_attempts", "1e400"),
        ("id", '"mine"'),
        ("dedupe_for", '"1e30 years"'),
        ("payload", '{"n": 1e400}'),
        ("payload", "7"),
    ],
)
async def test_a_value_that_no_field_holds_is_answered(bench: Bench, observer: Raw, field: str, value: str) -> None:
    """The caller's transaction goes on: a driver's own error would have ended it."""
    job = '{"definition": "report", "payload": {}'
    async with observer.transaction():
        (row,) = await observer.fetch(
            "select * from leasehold.enqueue_jobs('acme', $1)", f'[{job}}}, {job}, "{field}": {value}}}]'
        )
        assert row["code"] in ("L1000", "L1001")
        assert "Nothing was enqueued." in row["fix"]
        assert await observer.fetchval("select 1") == 1
    assert await all_jobs(bench.jobs) == []


@pytest.mark.parametrize("jobs", ["7", '{"definition": "report"}', "[7]", '[[{"definition": "report"}]]', "null"])
async def test_jobs_that_are_no_array_of_objects_are_answered(bench: Bench, observer: Raw, jobs: str) -> None:
    (row,) = await observer.fetch("select * from leasehold.enqueue_jobs('acme', $1)", jobs)
    assert row["code"] == "L1000"


async def test_the_largest_number_that_a_float_holds_is_taken(bench: Bench, observer: Raw) -> None:
    job = await enqueued(bench, observer, f"""{DEFAULTS}, '{{"n": 1.7976931348623157e308, "m": -1e308}}'""")
    assert job.payload == {"n": 1.7976931348623157e308, "m": -1e308}


async def test_a_refusal_names_which_job_it_is_about(bench: Bench) -> None:
    good, bad = NewJob(definition="report"), NewJob(definition="report", payload={"n": float("nan")})
    with pytest.raises(InvalidInput, match=r"LH-1003: job 3 of those given: payload\.n: nan") as python:
        await bench.jobs.enqueue([good, good, bad, good])
    assert python.value.number == 3
    late = NewJob(definition="report", dedupe=Dedupe("k"))
    object.__setattr__(late, "priority", 10**6)
    with pytest.raises(InvalidInput, match=r"job 2 of those given: .*priority=1000000") as sql:
        await bench.jobs.enqueue([good, late])
    assert sql.value.number == 2
    assert await all_jobs(bench.jobs) == []


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
    assert len(blocks) == 5
    assert await observer.fetchval("select count(*) from leasehold.jobs") == 5
    await transaction.rollback()


# Agreement of SQL and Python


@pytest.fixture
async def judge(database_url: str, connections: Connections) -> Raw:
    return await connections.open()


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=102) | st.text(
    " \t\n\u00a0\u2003\u0085\u3000\u200b\u202e\u00ad\ufeff\U000e0041ab\x1c\x7f", max_size=6
)
BOUNDED = settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True
)


@BOUNDED
@given(text=TEXTS)
async def test_they_agree_about_tenants(judge: Raw, text: str) -> None:
    try:
        tenant_id(text)
        fine = True
    except InvalidInput:
        fine = False
    try:
        await judge.fetch("select leasehold.require_tenant($1)", text)
        state = None
    except asyncpg.PostgresError as error:
        state = error.sqlstate
    assert state == (None if fine else "L1000")


@pytest.mark.parametrize("key", ["a\u200bb", "a\u202eb", "a\nb", "plain", 'greet::acme::{"name": "\u200d"}'])
async def test_they_agree_about_hidden_characters_in_keys(judge: Raw, key: str) -> None:
    try:
        Dedupe(key)
        fine = True
    except InvalidInput:
        fine = False
    call = "select leasehold.enqueue('acme', 'report', '{}', dedupe_key => $1)"
    with pytest.raises(asyncpg.PostgresError) as refusal:  # no definition exists here
        await judge.fetch(call, key)
    assert ("a character that can't be seen" in str(refusal.value)) is not fine


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8", exclude_characters="\0"))
)
PAYLOADS = st.dictionaries(
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5),
    st.recursive(
        SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('aAé"\\\n', max_size=3), inner)
    ),
    max_size=5,
)


@BOUNDED
@given(payload=PAYLOADS)
async def test_they_agree_about_canonical_keys(judge: Raw, payload: dict[str, Any]) -> None:
    key = canonical_key("report", "acme", payload)
    found = await judge.fetchrow(
        """
        select leasehold.canonical_key('acme', 'report', job.payload) as key,
               leasehold.dedupe_hash('acme', job) as hash
        from jsonb_populate_record(
            null::leasehold.new_job, jsonb_build_object('definition', 'report', 'payload', $1::text::jsonb)) job
        """,
        json.dumps(payload, ensure_ascii=False),
    )
    assert found is not None
    assert found["key"] == key
    assert found["hash"] == sha256(key.encode()).digest()


async def test_every_state_that_sql_refuses_with_is_an_error_of_ours(observer: Raw) -> None:
    source = await observer.fetchval(
        "select string_agg(prosrc, '') from pg_proc where pronamespace = 'leasehold'::regnamespace"
    )
    ours = {kind.code for kind in _all_kinds(LeaseholdError)}
    assert set(re.findall(r"'(LH-\d{4})'", source)) <= ours
    answered = set(re.findall(r"sqlstate 'L(\d{4})'", source))
    assert answered == {code[3:] for code in re.findall(r"'(LH-\d{4})'", source)}


def _all_kinds(of: type[LeaseholdError]) -> list[type[LeaseholdError]]:
    return [of, *(deeper for kind in of.__subclasses__() for deeper in _all_kinds(kind))]
