"""Payloads from SQL are checked against the stored schema, as far as SQL can tell; drivers that validate are not."""

import json
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, Literal

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from tests.conftest import Raw
from tests.postgres.race_tools import Connections
from tests.store.bench import Bench, all_jobs

from leasehold import Job, Leasehold
from leasehold.errors import PayloadInvalid
from leasehold.model.definition import Definition
from leasehold.model.job import NewJob


class Size(StrEnum):
    SMALL = "small"


@dataclass
class Point:
    x: int


class Node(BaseModel):
    name: str
    children: list["Node"] = []


def sync_folder(
    job: Job,
    folder: int,
    path: str = "/",
    ratio: float = 1.0,
    deep: bool = False,
    size: Size = Size.SMALL,
    at: datetime | None = None,
    point: Point | None = None,
    tags: list[str] = [],  # noqa: B006
    price: Decimal = Decimal(0),
    mode: Literal["fast", 1] = 1,
    bounded: Annotated[int, Field(ge=10)] = 10,
    anything: Any = None,
) -> None: ...


def walk(job: Job, node: Node) -> None: ...


APP = Leasehold("postgresql://nowhere")
SYNC = APP.job(sync_folder).definition
WALK = APP.job(walk).definition
FREE = Definition("free")


@pytest.fixture
async def sql(bench: Bench, observer: Raw) -> Raw:
    await bench.store.sync_definitions([SYNC, WALK, FREE])
    return observer


async def enqueue(sql: Raw, payload: Any, key: str = "sync_folder") -> None:
    await sql.fetch("select * from leasehold.enqueue('acme', $1, $2::text::jsonb)", key, json.dumps(payload))


async def refusal(sql: Raw, payload: Any, key: str = "sync_folder") -> str:
    with pytest.raises(asyncpg.PostgresError) as refused:
        await enqueue(sql, payload, key)
    error: Any = refused.value
    assert error.sqlstate == "L1001"
    return f"{error.message} {error.hint}"


async def test_a_missing_field_is_refused(sql: Raw, bench: Bench) -> None:
    assert await refusal(sql, {}) == (
        "LH-1001: sync_folder: payload.folder: missing. "
        "Nothing was enqueued. Its schema: leasehold definitions show sync_folder"
    )
    assert await all_jobs(bench.jobs) == []


async def test_an_unknown_field_is_refused_with_the_known_ones(sql: Raw) -> None:
    assert (
        "sync_folder: payload.fodler: unknown field (known: anything, at, bounded, deep, folder, mode, path, point, "
        "price, ratio, and 2 more)." in await refusal(sql, {"folder": 9, "fodler": 9})
    )


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("folder", "nine", 'payload.folder: "nine" is not of type integer'),
        ("folder", 1.5, "payload.folder: 1.5 is not of type integer"),
        ("folder", None, "payload.folder: null is not of type integer"),
        ("path", 7, "payload.path: 7 is not of type string"),
        ("ratio", "1", 'payload.ratio: "1" is not of type number'),
        ("deep", "yes", 'payload.deep: "yes" is not of type boolean'),
        ("size", 1, "payload.size: 1 is not of type string"),
        ("at", 5, "payload.at: 5 is not of type string or null"),
        ("point", [1], "payload.point: [1] is not of type object or null"),
        ("tags", {"a": 1}, 'payload.tags: {"a": 1} is not of type array'),
        ("path", ["x" * 200], 'payload.path: ["' + "x" * 77 + "… is not of type string"),
    ],
)
async def test_a_field_of_another_type_is_refused(sql: Raw, field: str, value: Any, said: str) -> None:
    assert f"LH-1001: sync_folder: {said}." in await refusal(sql, {"folder": 9} | {field: value})


async def test_all_problems_of_a_payload_are_named(sql: Raw) -> None:
    message = await refusal(sql, {"path": 7, "x": 1})
    assert "sync_folder: payload.folder: missing; payload.x: unknown field (known: " in message
    assert "; payload.path: 7 is not of type string." in message


async def test_a_model_that_refers_to_itself_is_checked(sql: Raw) -> None:
    assert "payload.name: missing; payload.children: 7 is not of type array." in await refusal(
        sql, {"children": 7}, "walk"
    )
    await enqueue(sql, {"name": "a", "children": [{"name": "b"}]}, "walk")


async def test_a_definition_without_a_schema_takes_any_object(sql: Raw) -> None:
    await enqueue(sql, {"any": ["thing"]}, "free")


async def test_fields_with_defaults_may_be_left_out(sql: Raw, bench: Bench) -> None:
    await enqueue(sql, {"folder": 9.0})
    (job,) = await all_jobs(bench.jobs)
    assert job.payload == {"folder": 9}


async def test_values_that_sql_can_not_check_are_accepted(sql: Raw) -> None:
    """Formats, bounds and what is inside of a field are checked by the worker, as the page says."""
    await enqueue(sql, {"folder": 9, "at": "tomorrow", "bounded": 1, "point": {"y": 1}, "mode": "slow", "tags": [1]})


async def test_jobs_of_a_driver_are_answered_with_their_number(sql: Raw, bench: Bench) -> None:
    jobs = [{"definition": "sync_folder", "payload": {"folder": folder}} for folder in (1, "two", 3)]
    (row,) = await sql.fetch("select * from leasehold.enqueue_jobs('acme', $1)", json.dumps(jobs))
    assert (row["code"], row["about"]) == ("L1001", "2")
    assert row["happened"] == 'LH-1001: sync_folder: payload.folder: "two" is not of type integer.'
    assert await all_jobs(bench.jobs) == []


async def test_a_version_that_is_named_is_the_one_that_counts(sql: Raw, bench: Bench) -> None:
    await bench.store.sync_definitions([Definition("sync_folder")])
    current = {"definition": "sync_folder", "payload": {"x": 1}}
    jobs = [current, {**current, "version": 1}]
    (row,) = await sql.fetch("select * from leasehold.enqueue_jobs('acme', $1)", json.dumps(jobs))
    assert row["about"] == "2"
    assert len(await sql.fetch("select * from leasehold.enqueue_jobs('acme', $1)", json.dumps(jobs[:1]))) == 1


async def test_a_driver_that_validates_itself_says_so(sql: Raw) -> None:
    jobs = json.dumps([{"definition": "sync_folder", "payload": {"x": 1}}])
    (row,) = await sql.fetch("select * from leasehold.enqueue_jobs('acme', $1, validate => false)", jobs)
    assert row["created"]


async def test_python_pays_for_no_second_check(bench: Bench, observer: Raw) -> None:
    """The database's check is broken here: only an enqueue from SQL meets it."""
    await bench.store.sync_definitions([SYNC])
    await observer.execute("alter function leasehold.require_valid rename to elsewhere")
    plain = NewJob(definition="sync_folder", payload={"folder": 1})
    keyed = NewJob(definition="sync_folder", payload={"folder": 1}, correlation_id="c", id=None, priority=1)
    await bench.jobs.enqueue([plain])
    await bench.jobs.enqueue([plain, keyed])
    with pytest.raises(asyncpg.UndefinedFunctionError):
        await enqueue(observer, {"folder": 1})


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"folder": {"$ref": "#/$defs/Loop"}}, "$defs": {"Loop": {"$ref": "#/$defs/Loop"}}},
        {"properties": {"folder": {"$ref": "https://example.com/schema"}}},
        {"properties": {"folder": True}, "required": ["folder"]},
        {"properties": {"folder": {"type": ["string", "integer"]}}},
        {"additionalProperties": False, "patternProperties": {"^fol": {}}},
        {"anyOf": [{"required": ["x"]}, {}]},
        {"properties": [], "required": "folder", "additionalProperties": {}},
        {"properties": {"folder": {"anyOf": [{"type": "null"}, {}]}}},
        {},
        [],
        7,
    ],
    ids=str,
)
async def test_a_schema_of_any_kind_refuses_nothing_it_allows(sql: Raw, schema: Any) -> None:
    await sql.execute("update leasehold.definition_versions set schema = $1::text::jsonb", json.dumps(schema))
    await enqueue(sql, {"folder": 1})


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=3)
LISTS = st.lists(st.integers(), max_size=2)
VALUES = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2) | TEXTS | LISTS | st.just({"x": 1})
NAMES = st.sampled_from([*(SYNC.schema or {})["properties"], "unknown"])


@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True
)
@given(payload=st.dictionaries(NAMES, VALUES, max_size=6))
async def test_sql_refuses_nothing_that_the_schema_allows(judge: Raw, payload: dict[str, Any]) -> None:
    problems = await judge.fetchval(
        "select leasehold.problems_of_fields($1::text::jsonb, $2::text::jsonb)",
        json.dumps(payload),
        json.dumps(SYNC.schema),
    )
    if problems is not None:
        with pytest.raises(PayloadInvalid):
            SYNC.check(payload)


@pytest.fixture
async def judge(database_url: str, connections: Connections) -> Raw:
    return await connections.open()


async def test_sql_can_not_enqueue_a_definition_with_secret_fields(bench: Bench, sql: Raw) -> None:
    nested = {"$defs": {"L": {"properties": {"p": {"type": "string", "x-secret": True}}}}, "type": "object"}
    schema = {**nested, "properties": {"login": {"$ref": "#/$defs/L"}, "path": {"type": "string"}}}
    await bench.store.sync_definitions([Definition("sign_in", schema=schema)])
    said = await refusal(sql, {"path": "/"}, "sign_in")
    assert "sign_in has secret fields, which SQL can't encrypt. Nothing was enqueued." in said
    (answer,) = await sql.fetch(
        """select * from leasehold.enqueue_jobs('acme', '[{"definition": "sign_in", "payload": {}}]')"""
    )
    assert answer["code"] == "L1001"
    assert await all_jobs(bench.jobs) == []


async def test_a_mark_that_is_false_is_not_a_secret(bench: Bench, sql: Raw) -> None:
    schema = {"type": "object", "properties": {"path": {"type": "string", "x-secret": False}}}
    await bench.store.sync_definitions([Definition("open", schema=schema)])
    await enqueue(sql, {"path": "/"}, "open")
    assert len(await all_jobs(bench.jobs)) == 1
