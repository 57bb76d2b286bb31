"""The schema: made under a lock, in any name, and never by surprise."""

import asyncio
from urllib.parse import urlsplit
from uuid import uuid4

import asyncpg
import pytest

from leasehold.engine import SchemaStatus
from leasehold.engines import engine_for
from leasehold.engines.postgres.migrate import migrate, migrations, schema_status, script
from leasehold.errors import InvalidInput, SchemaMismatch
from leasehold.model.job import tenant_id

VERSIONS = [migration.version for migration in migrations("leasehold")]
LATEST = VERSIONS[-1]
SHAPE = """
    select table_name, column_name, data_type, is_nullable, replace(column_default, $1, 'schema') as column_default
    from information_schema.columns where table_schema = $1
    union all
    select tablename, indexname, replace(indexdef, $1, 'schema'), '', '' from pg_indexes where schemaname = $1
    union all
    select 'function', proname, replace(prosrc, $1, 'schema'), '', '' from pg_proc
    where pronamespace = to_regnamespace($1)
    order by 1, 2, 3
"""


async def shape(url: str, schema: str) -> list[tuple[object, ...]]:
    connection = await asyncpg.connect(url)
    try:
        return [tuple(row) for row in await connection.fetch(SHAPE, schema)]
    finally:
        await connection.close()


async def test_migrating_makes_the_schema_and_says_what_it_did(database_url: str) -> None:
    applied = await migrate(database_url, "fresh")
    assert [migration.version for migration in applied] == VERSIONS
    assert await schema_status(database_url, "fresh") == SchemaStatus("fresh", LATEST, applied[-1].needs, LATEST)


async def test_migrating_again_changes_nothing(database_url: str) -> None:
    await migrate(database_url, "fresh")
    before = await shape(database_url, "fresh")
    assert await migrate(database_url, "fresh") == []
    assert await shape(database_url, "fresh") == before


async def test_one_of_eight_migrations_at_once_does_the_work(database_url: str) -> None:
    applied = await asyncio.gather(*(migrate(database_url, "fresh") for _ in range(8)))
    assert sum(len(by_one) for by_one in applied) == len(VERSIONS)


async def test_the_script_makes_the_same_schema(database_url: str) -> None:
    await migrate(database_url, "migrated")
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute(script("scripted"))
    finally:
        await connection.close()
    assert await shape(database_url, "scripted") == await shape(database_url, "migrated")
    assert (await schema_status(database_url, "scripted")).current


async def test_a_failed_migration_leaves_nothing_behind(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute("create schema taken; create table taken.jobs_done ()")
        with pytest.raises(asyncpg.DuplicateTableError):
            await migrate(database_url, "taken")
        assert await connection.fetchval("select to_regclass('taken.jobs') is null")
    finally:
        await connection.close()
    assert (await schema_status(database_url, "taken")).version == 0


async def test_a_reserved_word_can_be_the_schemas_name(database_url: str) -> None:
    await migrate(database_url, "user")
    store = await engine_for(database_url, "user").open()
    try:
        assert await store.tenant(tenant_id("acme")).counts(1) is not None
    finally:
        await store.close()


@pytest.mark.parametrize("name", ["", "a b", "Upper", 'quo"te', "1st", "x" * 31, "é"])
async def test_a_name_that_no_channel_could_carry_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="Nothing was changed"):
        await migrate("postgresql://unused", name)


async def test_channels_and_locks_are_named_after_the_schema(database_url: str) -> None:
    await migrate(database_url, "other")
    connection = await asyncpg.connect(database_url)
    try:
        query = "select {0}.channel_for_all(), {0}.sleep_key(), {0}.channel_for_results()"
        ours, theirs = [await connection.fetchrow(query.format(schema)) for schema in ("leasehold", "other")]
    finally:
        await connection.close()
    assert ours is not None
    assert theirs is not None
    assert all(mine != yours for mine, yours in zip(ours, theirs, strict=True))


async def test_a_missing_schema_is_said_before_anything_is_done(database_url: str) -> None:
    with pytest.raises(SchemaMismatch, match=r'LH-2001: the schema "absent" does not exist.*leasehold migrate'):
        await engine_for(database_url, "absent").open()


async def test_a_schema_that_vanishes_is_said_in_our_words(database_url: str) -> None:
    await migrate(database_url, "brief")
    store = await engine_for(database_url, "brief").open()
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute("drop schema brief cascade")
        with pytest.raises(SchemaMismatch, match="Run: leasehold migrate"):
            await store.workers()
    finally:
        await connection.close()
        await store.close()


def test_an_older_schema_is_refused_with_the_way_out() -> None:
    with pytest.raises(SchemaMismatch, match=r"LH-2001: .* is at 0001, this version needs 0002"):
        SchemaStatus("leasehold", version=1, needs=1, known=2).require_usable()


def test_a_newer_schema_that_allows_this_code_is_used() -> None:
    SchemaStatus("leasehold", version=3, needs=2, known=2).require_usable()


def test_a_newer_schema_that_needs_newer_code_is_refused() -> None:
    with pytest.raises(SchemaMismatch, match=r"LH-2002: .* needs code that knows 0003"):
        SchemaStatus("leasehold", version=3, needs=3, known=2).require_usable()


def test_migrations_have_the_next_numbers_and_need_no_future() -> None:
    """Number 2 is left out: databases of early checkouts have one in their ledger (docs/decisions/0027)."""
    known = migrations("leasehold")
    assert [migration.version for migration in known] == [1, *range(3, len(known) + 2)]
    assert all(1 <= migration.needs <= migration.version for migration in known)


async def test_the_schemas_owner_needs_no_privilege_on_the_database(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    role, parts = f"owner_{uuid4().hex[:8]}", urlsplit(database_url)
    login = f"create role {role} login password 'secret'"
    try:
        await connection.execute(f"{login}; create schema prepared authorization {role}")
        host = parts.netloc.rpartition("@")[2]
        assert await migrate(parts._replace(netloc=f"{role}:secret@{host}").geturl(), "prepared")
    finally:
        await connection.execute(f"drop owned by {role} cascade; drop role {role}")
        await connection.close()
