"""Examines a database for `leasehold doctor`: does the promise hold there, and do workers serve all definitions?"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any
from uuid import uuid4

from asyncpg import Record

from leasehold.engine import Finding, SchemaStatus, Severity
from leasehold.engines.findings import examine_fires, examine_leases, list_names
from leasehold.engines.postgres.connections import close_connection
from leasehold.engines.postgres.database import Database
from leasehold.engines.postgres.listen import PROBE_LIMIT
from leasehold.engines.postgres.migrate import status_of
from leasehold.errors import CannotListen, SchemaMismatch

OLDEST_SERVER = 14
TOLERATED_SKEW = timedelta(seconds=1)
TOLERATED_TRANSACTION = timedelta(minutes=10)
# Dead rows of past jobs: so many, and so many times as many as there are jobs.
TOLERATED_DEAD_ROWS, TOLERATED_DEAD_SHARE = 50_000, 2
# Shares of the connections that the server accepts, and of its queue of notifications.
MANY_CONNECTIONS, TOO_MANY_CONNECTIONS, FULL_QUEUE = 0.8, 0.95, 0.5
COUNTED_RUNNING = 10_000
COUNTED_SCHEDULES = 10_000


async def examine(url: str, schema: str, listen_url: str | None = None) -> AsyncIterator[Finding]:
    """Yields one finding for each check. Changes nothing. Raises Unreachable: then no finding is possible.

    Without a schema that this code can use, checks that read its tables are left out.
    """
    database = Database(url, schema, listen_url=listen_url)
    try:
        (server,) = await database.fetch("doctor/server")
        yield await _server(database, server)
        yield _durability(server)
        schema_fits = _schema(await status_of(database))
        yield schema_fits
        yield await _listener(database)
        if schema_fits.verdict is Severity.OK:
            yield await _clock(database)
            yield await _workers(database)
            yield await _schedules(database)
            (leases,) = await database.fetch("doctor/leases", most=COUNTED_RUNNING)
            yield examine_fires(leases["overdue"])
            yield examine_leases(leases["workers"], leases["jobs"], leases["living"])
            (load,) = await database.fetch("doctor/load")
            yield _bloat(load)
            yield await _snapshots(database)
            yield _connections(load["connections"], load["most_connections"])
            yield _notifications(load["notification_queue"])
    finally:
        await database.close()


async def _server(database: Database, server: Record) -> Finding:
    version = f"PostgreSQL {server['version'].split()[0]}"
    if server["major"] < OLDEST_SERVER:
        return Finding(
            "database",
            Severity.PROBLEM,
            f"{version} is too old: Leasehold needs {OLDEST_SERVER} or newer",
            fix="Upgrade the server.",
        )
    return Finding("database", Severity.OK, f"{version}, {await _round_trip(database):.1f} ms")


async def _round_trip(database: Database) -> float:
    """Measures a round trip in milliseconds, of a statement that is not prepared: preparing would be another trip."""
    with database.translate_errors():
        async with database.connection() as connection:
            began = monotonic()
            await connection.execute(database.statement("doctor/server").text)
            return 1000 * (monotonic() - began)


def _durability(server: Record) -> Finding:
    if off := " and ".join(server["switched_off"]):
        return Finding(
            "durability",
            Severity.PROBLEM,
            f"switched off: {off}; when the machine crashes, jobs may be lost and the database spoiled",
            fix=f"Switch {off} on in postgresql.conf, and reload it.",
        )
    return Finding("durability", Severity.OK, "what was enqueued survives a crash")


def _schema(status: SchemaStatus) -> Finding:
    try:
        status.require_usable()
    except SchemaMismatch as error:
        return Finding("schema", Severity.PROBLEM, error.happened, error.code, error.fix)
    how = "current" if status.current else f"newer than this version's {status.known:04d}, which still works"
    return Finding("schema", Severity.OK, f"{status.version:04d} ({how})")


async def _listener(database: Database) -> Finding:
    if await _hears_itself(database):
        return Finding("listener", Severity.OK, "a NOTIFY arrives: workers are woken")
    polling = "workers poll instead of being woken, no job is lost"
    fix = "Give workers a direct connection to Postgres, by LEASEHOLD_URL or by LEASEHOLD_LISTEN_URL."
    if database.pooled:
        why = f"behind a pooler in transaction mode, through which no NOTIFY arrives: {polling}"
        return Finding("listener", Severity.WARNING, why, CannotListen.code, fix)
    why = f"a NOTIFY sent to ourselves did not arrive: {polling}"
    return Finding("listener", Severity.PROBLEM, why, CannotListen.code, fix)


async def _hears_itself(database: Database) -> bool:
    arrived = asyncio.Event()
    channel = f"{database.schema}:{uuid4().hex}"
    connection = await database.listener.connect()

    def on_notify(*_: Any) -> None:
        arrived.set()

    try:
        with database.translate_errors():
            async with database.transaction(connection):  # a pooler may part what the driver sends for one statement
                await connection.add_listener(channel, on_notify)
            await database.fetch("doctor/notify", channel=channel)
            with suppress(TimeoutError):
                await asyncio.wait_for(arrived.wait(), PROBE_LIMIT)
            if not arrived.is_set():  # a slow link: an earlier notification comes before the next answer
                await connection.execute("select")
        return arrived.is_set()
    finally:
        await close_connection(connection)


async def _clock(database: Database) -> Finding:
    """Compares the clocks. The database answers between question and answer, so the skew is off by half of that at
    most.
    """
    asked = datetime.now(UTC)
    ((theirs,),) = await database.fetch("doctor/clock")
    doubt = (datetime.now(UTC) - asked) / 2
    ahead = asked + doubt - theirs
    seconds = abs(ahead).total_seconds()
    if abs(ahead) - doubt <= TOLERATED_SKEW:
        return Finding("clock", Severity.OK, f"this host and the database agree within {seconds:.3f} s")
    where = "ahead of" if ahead > timedelta() else "behind"
    return Finding(
        "clock",
        Severity.WARNING,
        f"this host is {seconds:.1f} s {where} the database; due times and leases use the database's clock, "
        "so jobs are safe, but times that are logged here look wrong",
        code="LH-3004",
        fix="Check what sets this host's clock (NTP).",
    )


async def _workers(database: Database) -> Finding:
    (fleet,) = await database.fetch("doctor/workers", most=COUNTED_RUNNING)
    waiting = f"ready jobs of {list_names(fleet['waiting'])}" if fleet["waiting"] else ""
    start = "Start one: leasehold worker TARGET"
    if not fleet["workers"]:
        text = f"none lives, and {waiting} wait" if waiting else "none lives"
        return Finding("workers", Severity.WARNING, text, fix=f"{start}.")
    slots = "1 slot" if fleet["slots"] == 1 else f"{fleet['slots']} slots"
    text = f"{fleet['workers']} live, {slots}, {fleet['running']} running"
    if fleet["unserved"]:
        text += f"; none of them serves {list_names(fleet['unserved'])}" + (f"; {waiting} wait" if waiting else "")
        fix = f"{start}, with handlers for them. Unused ones: leasehold definitions deactivate KEY."
    else:
        fix = f"{start}, for these tenants or without --tenants."
    if fleet["left_out"]:
        lanes = [
            f"{key} for {tenant}" for key, tenant in zip(fleet["left_out"], fleet["left_out_tenants"], strict=True)
        ]
        text += f"; ready jobs wait that none of them serves: {list_names(lanes)}"
    elif not fleet["unserved"]:
        return Finding("workers", Severity.OK, text)
    return Finding("workers", Severity.WARNING, text, fix=fix)


async def _schedules(database: Database) -> Finding:
    (found,) = await database.fetch("doctor/schedules", most=COUNTED_SCHEDULES)
    of_all = "1 schedule fires" if found["schedules"] == 1 else f"{found['schedules']:,} schedules fire"
    if not found["unserved"]:
        return Finding("schedules", Severity.OK, of_all)
    return Finding(
        "schedules",
        Severity.WARNING,
        f"{of_all}, {found['without_worker']:,} of them for jobs that no live worker serves: "
        f"{list_names(found['unserved'])}",
        fix="Start a worker with handlers for them, or remove what is not needed: leasehold triggers ls, then "
        "leasehold triggers rm ID; with --force for one of code that is gone.",
    )


def _bloat(load: Record) -> Finding:
    dead, live = load["dead_rows"], load["live_rows"]
    if not load["vacuums"]:
        return Finding(
            "bloat",
            Severity.PROBLEM,
            "autovacuum is off: rows of past jobs are never removed, and every claim reads over them",
            fix="Switch autovacuum on in postgresql.conf, and reload it.",
        )
    if dead <= TOLERATED_DEAD_ROWS or dead <= TOLERATED_DEAD_SHARE * live:
        return Finding("bloat", Severity.OK, f"{dead:,} dead rows beside {live:,} jobs that are not over")
    return Finding(
        "bloat",
        Severity.WARNING,
        f"{dead:,} dead rows beside {live:,} jobs that are not over: vacuum does not keep up",
        fix="Look for old transactions below, and for a replication slot that is not read; then: VACUUM jobs.",
    )


def _connections(used: int, most: int) -> Finding:
    text = f"{used} of {most} that the server accepts"
    if used < MANY_CONNECTIONS * most:
        return Finding("connections", Severity.OK, text)
    return Finding(
        "connections",
        Severity.PROBLEM if used >= TOO_MANY_CONNECTIONS * most else Severity.WARNING,
        f"{text}: a new worker, or one that connects again, may be refused",
        fix="Raise max_connections, run fewer worker processes, or let them share connections by a pooler.",
    )


def _notifications(used: float) -> Finding:
    text = f"{100 * used:.0f} % of the server's queue of notifications are used"
    if used < FULL_QUEUE:
        return Finding("notifications", Severity.OK, text)
    return Finding(
        "notifications",
        Severity.PROBLEM,
        f"{text}: a session that listens is in a transaction for long. When the queue is full, every enqueue fails",
        fix="End that session: it is among those of pg_stat_activity that are idle in transaction.",
    )


async def _snapshots(database: Database) -> Finding:
    (oldest,) = await database.fetch("doctor/snapshots", tolerated=TOLERATED_TRANSACTION)
    minutes = int(TOLERATED_TRANSACTION.total_seconds() // 60)
    if oldest["name"] is None:
        return Finding("snapshots", Severity.OK, f"no transaction in sight is older than {minutes} minutes")
    age = str(oldest["age"]).partition(".")[0]
    return Finding(
        "snapshots",
        Severity.WARNING,
        f"a transaction is open for {age} ({oldest['name']}); {oldest['dead_rows']:,} dead rows of past jobs "
        "can't be removed meanwhile, and claims of idle workers read over them",
        fix="End that transaction. Set idle_in_transaction_session_timeout for roles that leave transactions open.",
    )
