"""Databases of a given size for plan tests."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import asyncpg
from tests.database_server import DatabaseServer

if TYPE_CHECKING:
    from leasehold.engines.postgres.database import Connection

# Tables that grow: no hot statement may walk over these.
GROWING = (
    *("jobs", "jobs_done", "job_attempts", "job_lines", "dedupe_holds"),
    *("triggers", "trigger_decisions", "events", "worker_names", "audit_log"),
    *("series_minutes", "series_hours", "usage_hours", "api_tokens", "operations"),
)
# Tables of which a hot statement may read a batch of rows: a scan of 5,000 limits took few buffers, and went unseen.
READ_IN_BATCHES = (*GROWING, "limits")


@dataclass(frozen=True)
class Size:
    """How many rows the tables have. The rows that a case asks for exist in every size: the first of each kind."""

    queued: int = 100  # in the one deep lane
    future: int = 100
    due: int = 100  # and not yet promoted
    ended: int = 2_000
    lanes: int = 100  # of a tenant each
    per_lane: int = 1
    running: int = 200  # 50 for each worker
    schedules: int = 50  # one of them is due
    decisions: int = 10  # of each schedule

    @property
    def tenants(self) -> int:
        return self.lanes + 1

    @property
    def workers(self) -> int:
        return self.running // 50


SMALL = Size()

DEEP, WIDE, LATER, DUE, RUNNING = "deep", "wide", "later", "due", "running"
DEFINITIONS = [DEEP, WIDE, LATER, DUE, RUNNING]
BIG = "big"  # has the deep lane, all that is to come, and all history

_DEFINITIONS = """
    insert into leasehold.definitions (key, version, created_at, updated_at)
    select key, 1, now(), now() from unnest($1::text[]) key;
"""
_VERSIONS = """
    insert into leasehold.definition_versions (
        key, version, description, timeout, max_attempts, backoff, priority, retention, on_exhausted, created_at)
    select key, 1, '', interval '1 minute', 5, '{}', 0, '{}', 'failed', now() from leasehold.definitions
"""
_WORKERS = """
    insert into leasehold.workers (
        id, host, pid, version, slots, definitions, started_at, last_seen_at, lease_expires_at)
    select lpad(n::text, 32, '0')::uuid, 'here', n, '1', 50, $3::text[], now(), now(), now() + interval '1 day'
    from generate_series($1::integer, $2) n
"""
_TENANTS = """
    insert into leasehold.tenants (id, created_at)
    select 'big', now() union all select 't' || lpad(n::text, 6, '0'), now() from generate_series(1, $1) n
"""
_SLEEPERS = """
    insert into leasehold.sleepers (worker_id, definitions)
    select id, array['nothing'] from leasehold.workers order by id limit 100
"""
_LIMITS = """
    insert into leasehold.limits (kind, key, max_running, capped_at)
    select 'tenant', 't' || lpad(n::text, 6, '0'), 1000, now() - interval '1 day' from generate_series(1, $1) n
"""
# Half of the deep lane has a dedupe key, a tenth a correlation id.
_QUEUED = """
    insert into leasehold.jobs (
        id, scheduled_for, queued_at, version, max_attempts, priority, ready, tenant_id, definition, status, payload,
        source, correlation_id, dedupe_hash)
    select ('01900001-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, now(), now(), 1, 5, n % 3, true, 'big',
           'deep', 'queued', '{"n": 1}', 'manual', case when n % 10 = 0 then 'c' || n / 20 end,
           case when n % 2 = 0 then sha256(convert_to('key:' || n, 'UTF8')) end
    from generate_series(1, $1) n
"""
_FUTURE = """
    insert into leasehold.jobs (
        id, scheduled_for, queued_at, version, max_attempts, priority, ready, tenant_id, definition, status, payload,
        source)
    select ('01900002-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid,
           now() + interval '1 day' + n * interval '1 ms', now(), 1, 5, 0, false, 'big', 'later', 'queued',
           '{"n": 1}', 'manual'
    from generate_series(1, $1) n
"""
_DUE = """
    insert into leasehold.jobs (
        id, scheduled_for, queued_at, version, max_attempts, priority, ready, tenant_id, definition, status, payload,
        source)
    select ('01900003-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid,
           now() - interval '1 day' + n * interval '1 ms', now(), 1, 5, 0, false, 'big', 'due', 'queued',
           '{"n": 1}', 'manual'
    from generate_series(1, $1) n
"""
_LANES = """
    insert into leasehold.jobs (
        id, scheduled_for, queued_at, version, max_attempts, priority, ready, tenant_id, definition, status, payload,
        source)
    select ('01900004-0000-7000-8000-' || lpad(to_hex(lane), 6, '0') || lpad(to_hex(n), 6, '0'))::uuid, now(), now(),
           1, 5, 0, true, 't' || lpad(lane::text, 6, '0'), 'wide', 'queued', '{"n": 1}', 'manual'
    from generate_series(1, $2) n, generate_series(1, $1) lane
"""
_RUNNING = """
    insert into leasehold.jobs (
        id, scheduled_for, queued_at, started_at, version, attempt, max_attempts, priority, ready, tenant_id,
        definition, status, payload, source, worker_id)
    select ('01900005-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, now(), now(), now(), 1, 1, 5, 0, false,
           'big', 'running', 'running', '{"n": 1}', 'manual', lpad(((n - 1) / 50 + 1)::text, 32, '0')::uuid
    from generate_series($1::integer, $2) n
"""
# A tenth did not succeed, a tenth may be pruned.
_ENDED = """
    insert into leasehold.jobs_done (
        id, scheduled_for, queued_at, started_at, finished_at, prune_after, version, attempt, max_attempts, forgiven,
        priority, dedupe_held, tenant_id, definition, status, payload, source, correlation_id)
    select ('01900006-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, now(), now(), now(), now(),
           now() + case when n % 10 = 0 then interval '-1 day' else interval '1 day' end + n * interval '1 ms',
           1, 1, 5, 0, 0, false, 'big', 'deep',
           case when n % 10 = 1 then (array['failed', 'canceled', 'dead_letter'])[n / 10 % 3 + 1]
                else 'succeeded' end,
           '{"n": 1}', 'manual', case when n % 10 = 0 then 'c' || n / 20 end
    from generate_series(1, $1) n
"""
_ATTEMPTS = """
    insert into leasehold.job_attempts (tenant_id, job_id, attempt, status, started_at, finished_at)
    select tenant_id, id, 1, 'failed', started_at, finished_at from leasehold.jobs_done where status <> 'succeeded'
"""
_LINES = """
    insert into leasehold.job_lines (tenant_id, job_id, attempt, number, at, kind, text)
    select 'big', ('01900006-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 1, line, now(), 'log', 'said'
    from generate_series(1, $1 / 10) n, generate_series(1, 2) line
"""
_HOLDS = """
    insert into leasehold.dedupe_holds (tenant_id, dedupe_hash, job_id, expires_at)
    select 'big', sha256(convert_to('held:' || n, 'UTF8')),
           ('01900006-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid,
           now() + case when n % 10 = 0 then interval '-1 day' else interval '1 day' end
    from generate_series(1, $1 / 5) n
"""
# The first one is due, the others fire tomorrow. Half belong to the big tenant.
_SCHEDULES = """
    insert into leasehold.triggers (
        id, tenant_id, label, kind, cron, zone, catch_up, catch_up_cap, spread, cursor_at, next_fire_at, tzdata,
        definition, origin, created_at, updated_at)
    select ('01900007-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid,
           case when n % 2 = 1 then 'big' else 't' || lpad((n % 100)::text, 6, '0') end, 'schedule ' || n, 'schedule',
           '0 2 * * *', 'UTC', 'latest', 100, interval '0', now() - interval '1 day',
           now() + case when n = 1 then interval '-1 minute' else interval '1 day' end + n * interval '1 ms', '2026b',
           'deep', case when n % 100 = 0 then 'code' else 'data' end, now(), now()
    from generate_series(1, $1) n
"""
# A tenth may be pruned.
_DECISIONS = """
    insert into leasehold.trigger_decisions (trigger_id, tenant_id, fire_at, kind, decided_at)
    select t.id, t.tenant_id, now() - n * interval '1 day', 'fired',
           now() - case when n % 10 = 0 then interval '31 days' else interval '1 day' end
    from leasehold.triggers t, generate_series(1, $1) n
"""
# Each row names a worker that no longer runs. The first worker ran the first ended job; a tenth may be pruned.
_WORKER_NAMES = """
    insert into leasehold.worker_names (id, host, pid, started_at)
    select lpad(n::text, 32, '0')::uuid, 'here', n,
           now() - case when n % 10 = 0 then interval '401 days' else interval '1 day' end
    from generate_series(1, $1) n
"""
# Ids sort by time; the first tenth may be pruned. One entry in a thousand is of a rare tenant and a rare action.
_AUDIT_LOG = """
    insert into leasehold.audit_log (id, at, action, subject, tenant_id, actor)
    select ('01900005-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid,
           now() - case when n <= $1 / 10 then interval '401 days' else interval '1 day' end,
           case when n % 1000 = 1 then 'rare' else 'often' end, 'it',
           case when n % 1000 = 1 then 'few' else 'big' end, 'me'
    from generate_series(1, $1) n
"""
# Figures of all tenants, of the big one and of 18 more, back from now; some may be pruned.
_MINUTES = """
    insert into leasehold.series_minutes (tenant_id, definition, at, figures)
    select case tenant when 0 then '' when 1 then 'big' else 't' || lpad(tenant::text, 6, '0') end, '',
           date_trunc('hour', now()) - n * interval '1 minute', '{"started": 1}'
    from generate_series(1, $1 / 100) n, generate_series(0, 19) tenant
"""
_HOURS = """
    insert into leasehold.series_hours (tenant_id, definition, at, figures)
    select case tenant when 0 then '' when 1 then 'big' else 't' || lpad(tenant::text, 6, '0') end, '',
           date_trunc('hour', now()) - n * interval '1 hour', '{"started": 1}'
    from generate_series(1, $1 / 100) n, generate_series(0, 19) tenant
"""
_USAGE = """
    insert into leasehold.usage_hours (tenant_id, at, definition, attempts, run_time, cpu_time, cpu_attempts)
    select case tenant when 1 then 'big' else 't' || lpad(tenant::text, 6, '0') end,
           date_trunc('hour', now()) - n * interval '1 hour', 'deep', 1, interval '1 second', interval '0', 0
    from generate_series(1, $1 / 100) n, generate_series(1, 19) tenant
"""
# Letters for digits: an id is twelve of a to z and 2 to 7. Half of the tokens belong to the big tenant.
_TOKENS = """
    insert into leasehold.api_tokens (id, name, role, tenant_id, secret_hash, created_at, expires_at)
    select lpad(translate(n::text, '0123456789', 'abcdefghij'), 12, 'a'), 'token', 'viewer',
           case when n % 2 = 0 then 'big' end, '', now(), now() + interval '1 day'
    from generate_series(1, $1 / 10) n
"""
# The first five go on.
_OPERATIONS = """
    insert into leasehold.operations (id, kind, tenant_id, state, created_at, ended_at, due_at)
    select ('01900010-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 'retry', 'big',
           case when n > 5 then 'done' else 'running' end, now(), case when n > 5 then now() end,
           case when n <= 5 then now() end
    from generate_series(1, $1 / 10) n
"""
_EVENTS = """
    insert into leasehold.events (tenant_id, id, name, data, emitted_at, expanded_at)
    select 'big', ('01900008-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 'a.b', '{}', now(),
           case when n > 5 then now() - case when n % 10 = 0 then interval '31 days' else interval '1 day' end end
    from generate_series(1, $1) n
"""
# The first five match the events, of which the first five wait to be expanded.
_EVENT_TRIGGERS = """
    insert into leasehold.triggers (
        id, tenant_id, label, kind, event_name, dedupe_window, definition, origin, created_at, updated_at)
    select ('01900009-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid,
           case when n % 2 = 1 or n < 5 then 'big' else '' end, 'event ' || n, 'event',
           case when n <= 5 then 'a.b' else 'other.' || n end, interval '5 minutes', 'deep', 'data',
           now() - interval '1 day', now()
    from generate_series(1, $1) n
"""


def trigger_uuid(number: int) -> UUID:
    return UUID(f"01900007-0000-7000-8000-{number:012x}")


def event_uuid(number: int) -> UUID:
    return UUID(f"01900008-0000-7000-8000-{number:012x}")


def event_trigger_uuid(number: int) -> UUID:
    return UUID(f"01900009-0000-7000-8000-{number:012x}")


def operation_uuid(number: int) -> UUID:
    return UUID(f"01900010-0000-7000-8000-{number:012x}")


def token_text(number: int) -> str:
    return str(number).translate(str.maketrans("0123456789", "abcdefghij")).rjust(12, "a")


def queued_id(number: int) -> UUID:
    return UUID(f"01900001-0000-7000-8000-{number:012x}")


def due_id(number: int) -> UUID:
    return UUID(f"01900003-0000-7000-8000-{number:012x}")


def running_id(number: int) -> UUID:
    return UUID(f"01900005-0000-7000-8000-{number:012x}")


def ended_id(number: int) -> UUID:
    return UUID(f"01900006-0000-7000-8000-{number:012x}")


def lane_tenant(number: int) -> str:
    return f"t{number:06}"


def worker_id(number: int) -> UUID:
    return UUID(f"{number:032}")


def hash_of(text: str) -> bytes:
    return sha256(text.encode()).digest()


async def load(connection: "Connection", size: Size) -> None:
    await add_tenants(connection, size)
    await fill(connection, size)


async def add_tenants(connection: "Connection", size: Size) -> None:
    """Adds all rows that exist before the first job."""
    await connection.execute(_TENANTS, size.lanes)
    await connection.execute(_DEFINITIONS, DEFINITIONS)
    await connection.execute(_VERSIONS)
    await connection.execute(_WORKERS, 1, size.workers, DEFINITIONS)
    await connection.execute(_SLEEPERS)
    await connection.execute(_LIMITS, size.lanes)


async def fill(connection: "Connection", size: Size) -> None:
    await connection.execute("set synchronous_commit = off")
    await connection.execute(_RUNNING, 1, size.running)
    await connection.execute(_QUEUED, size.queued)
    await connection.execute(_FUTURE, size.future)
    await connection.execute(_DUE, size.due)
    await connection.execute(_LANES, size.lanes, size.per_lane)
    await connection.execute(_ENDED, size.ended)
    await connection.execute(_ATTEMPTS)
    await connection.execute(_LINES, size.ended)
    await connection.execute(_HOLDS, size.ended)
    await connection.execute(_SCHEDULES, size.schedules)
    await connection.execute(_DECISIONS, size.decisions)
    await connection.execute(_EVENTS, size.schedules * size.decisions)
    await connection.execute(_EVENT_TRIGGERS, size.schedules)
    await connection.execute(_WORKER_NAMES, size.ended)
    await connection.execute(_AUDIT_LOG, size.ended)
    for rows in (_MINUTES, _HOURS, _USAGE, _TOKENS, _OPERATIONS):
        await connection.execute(rows, size.ended)


async def run_more(connection: "Connection", size: Size, more: int) -> None:
    """Adds running jobs, and the workers that they need."""
    crowded = replace(size, running=size.running + more)
    await connection.execute(_WORKERS, size.workers + 1, crowded.workers, DEFINITIONS)
    await connection.execute(_RUNNING, size.running + 1, crowded.running)


async def no_autovacuum(connection: "Connection") -> None:
    """Keeps statistics as the test leaves them."""
    tables = await connection.fetch("select tablename from pg_tables where schemaname = 'leasehold'")
    for (table,) in tables:
        await connection.execute(f"alter table leasehold.{table} set (autovacuum_enabled = off)")


async def leave_few(connection: "Connection") -> None:
    """Leaves about a hundred rows of each kind, and vacuums; the statistics still count all."""
    for table in ("jobs", "jobs_done"):
        # The last six digits of an id count within its kind or lane, the six before them the lanes.
        few = "right(id::text, 12) <= '000000000064' or right(id::text, 6) = '000001' and tenant_id < 't000100'"
        await connection.execute(f"delete from leasehold.{table} where not ({few})")  # noqa: S608
    await connection.execute("vacuum")


async def empty(connection: "Connection") -> None:
    """Empties the tables that grow, and vacuums; the statistics still count the rows."""
    for table in GROWING:
        await connection.execute(f"delete from leasehold.{table}")  # noqa: S608
    await connection.execute("vacuum")


@asynccontextmanager
async def connected(url: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


async def copy(server: DatabaseServer, name: str) -> str:
    """Copies a database file by file and returns the name of the copy. No session may be connected to the first."""
    duplicate = f"leasehold_test_{server.run}_{uuid4().hex[:12]}"
    async with connected(server.url_for("postgres")) as admin:
        strategy = " strategy file_copy" if admin.get_server_version().major >= 15 else ""
        await admin.execute(f'create database "{duplicate}" template "{name}"{strategy}')
    return duplicate
