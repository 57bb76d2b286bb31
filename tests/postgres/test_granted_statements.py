"""Which statements of the engine each role may send."""

import asyncpg
import pytest
from tests.conftest import Raw
from tests.postgres.roles import PARTS, SCHEMA, Roles

from leasehold.engines.postgres.statements import Statement, statements

# Which no EXPLAIN can check: statements of a session, of test databases, and those that are not prepared.
UNCHECKED = ("session/", "test_databases/", "ledger/create", "tenant/wake")
CHECKED = {name for name in statements(SCHEMA) if not name.startswith(UNCHECKED)}
# Without a table: every role may use them.
HARMLESS = {
    "scheduler/wake",
    "doctor/clock",
    "doctor/notify",
    "doctor/server",
    "doctor/snapshots",
    "effects/mark",
    "effects/marked",
    "fleet/channel_for_results",
    "fleet/channels",
    "fleet/flush_claims",
    "fleet/lock_listener",
    "fleet/probe",
    "fleet/may_sleep",
    "fleet/wake_another",
    "administration/lock_definitions",
    "ledger/applied",
    "ledger/exists",
    "ledger/holders",
    "ledger/lock",
    "ledger/newest",
    "administration/may_register",
}
DEFINITIONS = {
    "scheduler/tenants",
    "administration/definitions",
    "administration/strict_tenants",
    "administration/tenants",
    "administration/versions",
    "fleet/definition_versions",
}
ONLY_THE_OWNER = {
    "administration/activate",
    "administration/limit",
    "administration/pause",
    "administration/replace_payloads",
    "administration/set_strict_tenants",
    "ledger/record",
}
PRODUCING = {
    "events/place",
    "events/write",
    "administration/add_tenant",
    "fleet/cancel_sleep",
    "tenant/await",
    "tenant/enqueue_plain_jobs",
    "tenant/enqueue_one",
    "tenant/ensure_tenant",
    "tenant/enqueue_jobs",
}
READING = {
    "events/holders",
    "events/list",
    "scheduler/unexpanded",
    "administration/trigger",
    "administration/triggers",
    "administration/search_triggers",
    "administration/triggers_of_code",
    "scheduler/next",
    "triggers/decisions",
    "triggers/get",
    "triggers/list",
    "triggers/search",
    "administration/encrypted_jobs",
    "administration/encrypted_jobs_done",
    "administration/find_all_tenants",
    "administration/jobs_with_id",
    "administration/lanes",
    "administration/scopes",
    "doctor/schedules",
    "doctor/workers",
    "fleet/held",
    "fleet/lock_scopes",
    "fleet/workers",
    "tenant/attempts",
    "tenant/counts",
    "tenant/find",
    "tenant/get",
    "tenant/last_lines",
    "tenant/lines",
}
ALLOWED = {
    "migrator": CHECKED,
    "worker": CHECKED - ONLY_THE_OWNER,
    "producer": HARMLESS | DEFINITIONS | PRODUCING,
    "reader": HARMLESS | DEFINITIONS | READING,
}


async def is_allowed(connection: Raw, statement: Statement) -> bool:
    """EXPLAIN checks the rights on tables as an execution does, and executes nothing."""
    nulls = f"({', '.join('null' for _ in statement.parameters)})" if statement.parameters else ""
    await connection.execute(f"prepare checked as {statement.text}")
    try:
        await connection.execute(f"explain execute checked{nulls}")
    except asyncpg.InsufficientPrivilegeError:
        return False
    finally:
        await connection.execute("deallocate checked")
    return True


@pytest.mark.parametrize("part", PARTS)
async def test_a_role_may_send_just_the_statements_of_its_part(roles: Roles, part: str) -> None:
    known = statements(SCHEMA)
    async with roles.connection(part) as connection:
        allowed = {name for name in CHECKED if await is_allowed(connection, known[name])}
    assert allowed == ALLOWED[part]
