"""Values that leasehold.enqueue refuses, in SQL as in Python."""

import json
import re
from hashlib import sha256
from typing import Any

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.conftest import Raw
from tests.postgres.enqueue_calls import DEFAULTS, enqueue, enqueued, refusal
from tests.postgres.race_tools import Connections
from tests.store.bench import Bench, all_jobs

from leasehold.errors import InvalidInput, LeaseholdError
from leasehold.model.dedupe import Dedupe, canonical_key
from leasehold.model.job import NewJob, tenant_id


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
