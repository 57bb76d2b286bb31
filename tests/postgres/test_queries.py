"""Rules for every statement of the engine."""

import re
from dataclasses import fields
from itertools import pairwise

import asyncpg
import pytest

from leasehold.engines.postgres import rows
from leasehold.engines.postgres.migrate import migrations
from leasehold.engines.postgres.statements import query_files, statements, with_fragments
from leasehold.model.job import Claim

FILES = {name: file.read_text() for name, file in query_files()}
TENANT_TABLE = re.compile(
    r"\b(?:from|join|update|using)\s+leasehold\."
    r"(?:jobs|jobs_done|job_attempts|job_lines|dedupe_holds|job_records|find_job_ids|triggers|trigger_decisions|events|series_minutes|series_hours|saved_views|usage_hours)\b"
)
# By the parameter itself, or by a CTE of the same statement that carries it.
ASKED_BY_TENANT = re.compile(
    r"tenant_id\s*=\s*(?::tenant\b|(?:any \(array\[)?(?:wanted|seen|queued|w|place)\.tenant_id)"
    r"|find_job_ids\(\s*:tenant\b"
)
FUNCTION = re.compile(
    r"create function leasehold\.(?P<name>\w+)\s*\((?P<parameters>.*?)\)\s*(?:returns|language)"
    r".*?\$\$(?P<body>.*?)\$\$",
    re.DOTALL,
)
# Functions in which another value is the tenant, and how they write it.
TENANT_WITHIN = {"finish_within": r"\(?claim ->> 'tenant'\)?", "tenant_is_held": r"l\.key"}
# Functions that look into these tables for all tenants.
OF_ALL_TENANTS = {
    *("lanes_of", "startable", "has_startable_work", "figures_of_minutes", "depths", "roll_up", "usage_between"),
    *("dead_letters", "oldest_waits", "fleet_figures"),
}
FUNCTIONS = {
    found["name"]: found
    for migration in migrations("leasehold")
    for found in FUNCTION.finditer(re.sub(r"--.*", "", migration.text.replace('"leasehold".', "leasehold.")))
}
OF_A_TENANT = [
    name
    for name, function in FUNCTIONS.items()
    if name in TENANT_WITHIN or re.search(r"^\s*tenant\s+text\b|,\s*tenant\s+text\b", function["parameters"])
]
# The folders of statements that belong to one tenant.
TENANT_FOLDERS = ("tenant/", "triggers/", "events/", "views/")
OTHER_CLOCKS = re.compile(r"\bnow\s*\(\)|\bcurrent_timestamp\b|\blocaltimestamp\b|_timestamp\s*\(\)", re.IGNORECASE)

# The server's time for its own statement: compared with no stored moment.
A_DURATION = "clock_timestamp() - statement_timestamp()"


@pytest.mark.parametrize("name", FILES)
def test_a_query_begins_with_a_sentence(name: str) -> None:
    assert re.match(r"-- [A-Z].+", FILES[name])
    comment = re.match(r"(?:--.*\n)+", FILES[name])
    assert comment is not None
    assert comment[0].rstrip().endswith((".", "?", ":")) or "." in comment[0]


@pytest.mark.parametrize("name", [name for name in FILES if name.startswith(TENANT_FOLDERS)])
def test_a_tenants_query_takes_the_tenant(name: str) -> None:
    assert "tenant" in statements("leasehold")[name].parameters


@pytest.mark.parametrize("name", [name for name in FILES if name.startswith(TENANT_FOLDERS)])
def test_a_tenants_query_asks_each_table_by_tenant(name: str) -> None:
    text = re.sub(r"--.*", "", with_fragments(FILES[name]))
    found = [match.start() for match in TENANT_TABLE.finditer(text)]
    for begin, end in pairwise([*found, len(text)]):
        assert ASKED_BY_TENANT.search(text[begin:end]), text[begin:end]
    if re.search(r"tenant_id = (?:any \(array\[)?(?:wanted|seen|w|place)\.tenant_id", text):
        assert ":tenant::text as tenant_id" in text


@pytest.mark.parametrize("name", OF_A_TENANT)
def test_a_function_for_a_tenant_asks_each_table_by_tenant(name: str) -> None:
    body = FUNCTIONS[name]["body"]
    tenant = TENANT_WITHIN.get(name, rf"(?:{name}\.)?tenant")
    if "unnest(array[tenant, '']) as owner (tenant_id)" in body:  # a trigger of all tenants has an empty one
        tenant = rf"(?:{tenant}|owner\.tenant_id)"
    asked = re.compile(rf"\btenant_id\s*=\s*{tenant}(?![\w.])")
    found = [match.start() for match in TENANT_TABLE.finditer(body)]
    for begin, end in pairwise([*found, len(body)]):
        assert asked.search(body[begin:end]), body[begin:end]


@pytest.mark.parametrize("name", OF_A_TENANT)
def test_a_function_for_a_tenant_calls_others_for_the_same(name: str) -> None:
    """A variable of the caller's, and no text or other row, is what the called function gets as its tenant."""
    for other in OF_A_TENANT:
        first = FUNCTIONS[other]["parameters"].split()[0] == "tenant"
        for call in re.finditer(rf"leasehold\.{other}\(([^,)]*)", FUNCTIONS[name]["body"]):
            assert not first or call[1].strip() == "tenant", call[0]


def test_functions_that_look_into_tenants_tables_are_known() -> None:
    """A function that has no tenant as a parameter is named above, or it may mix tenants by mistake."""
    looking = {name for name, function in FUNCTIONS.items() if TENANT_TABLE.search(function["body"])}
    assert looking - set(OF_A_TENANT) == OF_ALL_TENANTS
    assert {
        *("find_job_ids", "replace_waiting", "resolve_conflict", "reserve_id", "hold_key"),
        *("place_jobs", "refuse_duplicate", "triggers_of", "place_event"),
    } <= looking


@pytest.mark.parametrize("name", FILES)
def test_a_query_knows_only_the_engines_own_clock(name: str) -> None:
    if not name.startswith("ledger/"):
        assert not OTHER_CLOCKS.search(re.sub(r"--.*", "", FILES[name]).replace(A_DURATION, ""))


def test_the_migrations_stamp_nothing_by_another_clock() -> None:
    for migration in migrations("leasehold"):
        code = re.sub(r"--.*", "", migration.text)
        assert OTHER_CLOCKS.findall(code) == (["_timestamp()"] if migration.version == 1 else [])


def test_a_claim_has_a_column_for_each_field() -> None:
    """Rows of claims are read by the places of their columns."""
    text = re.sub(r"--.*", "", with_fragments("include(claim_columns)"))
    columns = re.sub(r"\((?:[^()]|\([^()]*\))*\)", "", text).split(",")
    assert len(columns) == rows.CLAIM_COLUMNS
    assert {each.name for each in fields(Claim)} >= rows.NOT_IN_CLAIM_COLUMNS


def test_sql_is_no_wider_than_a_page() -> None:
    texts = [*FILES.values(), *(migration.text for migration in migrations("leasehold"))]
    assert [line for text in texts for line in text.splitlines() if len(line) > 122] == []


async def test_every_query_can_be_prepared(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    try:
        for statement in statements("leasehold").values():
            if not statement.name.startswith("ledger/create"):
                await connection.prepare(statement.text)
    finally:
        await connection.close()


def test_a_statement_refuses_values_it_does_not_take() -> None:
    with pytest.raises(TypeError, match=r"fleet/leave takes \['has_claimed', 'worker'\], not \['job'\]"):
        statements("leasehold")["fleet/leave"].arguments({"job": "x"})
