"""Rights that only the owner of the schema has, and the scripts that grant the others."""

import asyncpg
import pytest
from tests.postgres.roles import SCHEMA, Roles

from leasehold.engines import DEFAULT_URL, engine_for

FOR_THE_OWNER = [
    "create table rented.more (id integer)",
    "create or replace function rented.clock() returns timestamptz language sql as 'select now()'",
    "alter function rented.clock() security definer",
    "alter table rented.jobs add column more integer",
    "truncate rented.jobs",
    "drop table rented.jobs",
    "drop schema rented cascade",
]


@pytest.mark.parametrize("part", ["worker", "producer", "reader"])
async def test_a_role_that_is_not_the_owner_changes_no_schema(roles: Roles, part: str) -> None:
    async with roles.connection(part) as connection:
        for statement in FOR_THE_OWNER:
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(statement)


@pytest.mark.parametrize("part", ["worker", "producer", "reader"])
async def test_a_role_that_is_not_the_owner_hands_on_no_right(roles: Roles, part: str) -> None:
    async with roles.connection(part) as connection:
        await connection.execute("grant select on rented.definitions to public")  # answered by a warning
    assert not await roles.superuser.fetchval("select has_table_privilege('public', 'rented.definitions', 'select')")


async def test_the_migrating_role_creates_no_other_schema(roles: Roles) -> None:
    async with roles.connection("migrator") as connection:
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="permission denied for database"):
            await connection.execute("create schema another")
    assert await engine_for(roles.url("migrator"), SCHEMA).prepare() == []


async def test_functions_that_run_as_the_owner_are_not_public(roles: Roles) -> None:
    definers = await roles.superuser.fetch(
        """
        select proname, has_function_privilege('public', oid, 'execute') as is_public from pg_proc
        where pronamespace = 'rented'::regnamespace and prosecdef order by proname
        """
    )
    assert [tuple(row) for row in definers] == [
        ("emit", False),
        ("enqueue", False),
        ("enqueue_jobs", False),
        ("enqueue_own_jobs", False),
        ("finish_within", False),
        ("place_event", False),
        ("place_own_event", False),
        ("wake_workers", False),
        ("write_event", False),
        ("write_own_event", False),
    ]


# -------------------------------------------------------------------------------------------------------- the scripts


async def test_the_scripts_can_be_run_again_and_take_other_rights_away(roles: Roles) -> None:
    reader = roles.quoted("reader")
    await roles.superuser.execute(f"grant update (payload) on rented.jobs to {reader}")
    await roles.superuser.execute(f"grant execute on function rented.enqueue to {reader}")
    await roles.superuser.execute(engine_for(DEFAULT_URL, SCHEMA).scripts().create_roles(roles.names))
    await roles.grant()
    async with roles.connection("reader") as connection:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute("update rented.jobs set payload = '{}'")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute("select rented.enqueue('acme', 'greet')")
        assert await connection.fetch("select * from rented.jobs") == []


@pytest.mark.parametrize("part", ["worker", "reader"])
async def test_the_grants_are_refused_to_a_role_that_is_not_the_owner(roles: Roles, part: str) -> None:
    async with roles.connection(part) as connection:
        with pytest.raises(asyncpg.RaiseError, match=r"does not own the schema rented\. Nothing was granted"):
            await connection.execute(engine_for(DEFAULT_URL, SCHEMA).scripts().grants(roles.names))


async def test_a_role_without_grants_is_told_of_them(roles: Roles) -> None:
    reader = roles.quoted("reader")
    await roles.superuser.execute(f"revoke all on schema rented from {reader}")
    refused = await roles.command("reader", "jobs")
    assert refused.code == 2
    assert "permission denied for schema rented" in refused.err
    assert "leasehold grants --schema rented prints the SQL" in refused.err
