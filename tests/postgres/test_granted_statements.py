"""Which statements of the engine each role may send."""

import asyncpg
import pytest
from tests.conftest import Raw
from tests.postgres.roles import SCHEMA, Roles

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
    "fleet/roll_up",
    "fleet/read_fleet",
    "doctor/load",
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
    "administration/replace_payloads",
    "administration/set_strict_tenants",
    "audit/prune",
    "ledger/record",
}
BY_THE_SERVER = {
    "administration/activate",
    "administration/limit",
    "administration/override",
    "administration/pause",
    *(name for name in CHECKED if name.startswith(("tokens/", "views/"))),
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
SERIES = ("series", "series_definitions", "busiest_tenants")
READING = {
    "events/decisions",
    "events/holders",
    "events/list",
    "scheduler/unexpanded",
    "administration/trigger",
    "administration/triggers",
    "administration/search_triggers",
    "administration/triggers_of_code",
    "scheduler/next",
    "triggers/decisions",
    "triggers/latest_decisions",
    "triggers/get",
    "triggers/list",
    "triggers/search",
    "administration/activity",
    "administration/changes",
    "administration/encrypted_jobs",
    "administration/error_groups",
    "administration/find_all_tenants",
    "administration/find_in_error_group",
    "administration/jobs_by_id",
    "administration/jobs_with_id",
    "administration/lanes",
    "administration/look_at_tenants",
    "administration/tenants_that_run",
    "administration/scope",
    "administration/scopes",
    "administration/tenant_usage",
    "audit/page",
    "operations/get",
    "operations/list",
    "operations/list_of_tenant",
    "operations/look_at_active",
    "operations/look_at_chosen",
    "operations/look_at_ended",
    "operations/look_at_error_group",
    "operations/next",
    "operations/removal",
    "doctor/leases",
    "doctor/schedules",
    "doctor/workers",
    "fleet/held",
    "fleet/lane_workers",
    "fleet/lock_scopes",
    "fleet/workers",
    "tenant/attempts",
    "tenant/counts",
    "tenant/facts",
    "tenant/error_groups",
    "tenant/find",
    "tenant/find_in_error_group",
    "tenant/look",
    "tenant/look_in_error_group",
    "tenant/taken_keys",
    "tenant/get",
    "tenant/last_lines",
    "tenant/last_worker",
    *(f"tenant/series_{rows}" for rows in ("minutes", "hours")),
    *(f"administration/{name}_{rows}" for name in SERIES for rows in ("minutes", "hours")),
    "administration/series_progress",
    "tenant/lines",
    "tenant/oldest_queued",
    "tenant/usage",
    "administration/usage",
}
# Within the rows of one tenant.
OF_A_TENANT = {name for name in CHECKED if name.startswith(("tenant/", "triggers/", "events/", "own/"))}
CHECKING_THE_TENANT = {name for name in OF_A_TENANT if name.startswith("own/")}
BY_THE_OWNERS_FUNCTIONS = {"tenant/enqueue_jobs", "events/place", "events/write"}
OF_A_FLEET = {
    *("fleet/claim_few", "fleet/claim_from_lanes", "fleet/claim_next_tenants", "fleet/join", "fleet/renew"),
    *("fleet/evict", "fleet/sleep", "fleet/append_log", "fleet/prune_holds", "fleet/prune_lines", "fleet/prune"),
}
ALLOWED = {
    "migrator": CHECKED,
    "worker": CHECKED - ONLY_THE_OWNER - BY_THE_SERVER - CHECKING_THE_TENANT,
    "server": CHECKED - ONLY_THE_OWNER - CHECKING_THE_TENANT,
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


@pytest.mark.parametrize("part", ALLOWED)
async def test_a_role_may_send_just_the_statements_of_its_part(roles: Roles, part: str) -> None:
    known = statements(SCHEMA)
    async with roles.connection(part) as connection:
        allowed = {name for name in CHECKED if await is_allowed(connection, known[name])}
    assert allowed == ALLOWED[part]


async def test_a_role_of_tenants_sends_what_its_handles_send(roles: Roles) -> None:
    """Other statements find the rows of one tenant, too; but it claims nothing, and joins no fleet."""
    known = statements(SCHEMA)
    async with roles.connection("tenant") as connection:
        allowed = {name for name in CHECKED if await is_allowed(connection, known[name])}
    assert allowed >= OF_A_TENANT - BY_THE_OWNERS_FUNCTIONS
    assert allowed.isdisjoint(BY_THE_OWNERS_FUNCTIONS | ONLY_THE_OWNER | BY_THE_SERVER | OF_A_FLEET)
