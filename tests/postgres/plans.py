"""What the plan tests stand on: a database of a given size, a statement's real plan, and what that plan touched.

A link keeps one generic plan for each statement; the pool plans anew at first and may then settle on a generic one.
EXPLAIN with bound parameters would show neither: so statements are prepared in SQL, on the engine's own connections,
and it is their EXECUTE that is explained, with literals, in a transaction that is rolled back.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import asyncpg
import orjson
from tests.conftest import DatabaseServer

from leasehold.engines.postgres.database import ONE_PLAN, Database, Link
from leasehold.engines.postgres.sql import statements

if TYPE_CHECKING:
    from leasehold.engines.postgres.database import Connection

# What grows: no hot statement may walk over these.
GROWING = ("jobs", "jobs_done", "job_attempts", "job_lines", "dedupe_holds")

# ------------------------------------------------------------------------------------------------------------- plans


class Door(Enum):
    """Whose connection runs a statement, and with which plan."""

    LINK = "link"  # a worker's own: one generic plan for as long as it is open
    POOL = "pool"  # may settle on a generic plan after five runs
    ANEW = "anew"  # from the pool, prepared for this one run
    CALLER = "caller"  # a connection of the app's, whose settings are not ours


@dataclass(frozen=True)
class Node:
    """One node of a plan, with those below it."""

    facts: Mapping[str, Any]

    @property
    def type(self) -> str:
        return str(self.facts["Node Type"])

    @property
    def children(self) -> list["Node"]:
        return [Node(facts) for facts in self.facts.get("Plans", ())]

    @property
    def buffers(self) -> int:
        return int(self.facts["Shared Hit Blocks"]) + int(self.facts["Shared Read Blocks"])

    @property
    def rows_read(self) -> int:
        """All that it handed on or threw away, over all loops."""
        removed = (count for fact, count in self.facts.items() if fact.startswith("Rows Removed by"))
        return int((self.facts["Actual Rows"] + sum(removed)) * self.facts["Actual Loops"])

    def __iter__(self) -> Iterator["Node"]:
        yield self
        for child in self.children:
            yield from child

    def __str__(self) -> str:
        return "\n".join(self._lines(0))

    def _lines(self, depth: int) -> Iterator[str]:
        facts = self.facts
        names = [facts[fact] for fact in ("Subplan Name", "Relation Name", "Index Name", "CTE Name") if fact in facts]
        conditions = [f"{fact}: {facts[fact]}" for fact in ("Index Cond", "Recheck Cond", "Filter") if fact in facts]
        head = " ".join((self.type, *names))
        told = f"{head}  rows={self.rows_read} buffers={self.buffers}"
        yield "  " * depth + "  ".join((told, *conditions))
        for child in self.children:
            yield from child._lines(depth + 1)


@dataclass(frozen=True)
class Plan:
    root: Node

    def __repr__(self) -> str:
        return f"buffers={self.buffers}\n{self.root}"

    @property
    def buffers(self) -> int:
        """The root's, and those of what nobody reads from and so runs when the root is done."""
        read_from = {node.facts["CTE Name"] for node in self.root if node.type == "CTE Scan"}
        unread = (
            node
            for node in self.root
            if (name := str(node.facts.get("Subplan Name", ""))).startswith("CTE ")
            and name.removeprefix("CTE ") not in read_from
        )
        return self.root.buffers + sum(node.buffers for node in unread)

    @property
    def scans(self) -> list[Node]:
        """Of tables that grow."""
        return [node for node in self.root if node.type.endswith("Scan") and _table(node) in GROWING]

    @property
    def sorts(self) -> list[Node]:
        return [node for node in self.root if node.type in ("Sort", "Incremental Sort")]

    def ways_to(self, table: str) -> set[str]:
        """The indexes by which a table is read, or the kind of scan where it is none."""
        return {way for node in self.scans if _table(node) == table for way in _ways(node)}


def _table(node: Node) -> str:
    return str(node.facts.get("Relation Name", ""))


def _ways(scan: Node) -> Iterator[str]:
    if scan.type == "Bitmap Heap Scan":
        yield from (node.facts["Index Name"] for node in scan if node.type == "Bitmap Index Scan")
    else:
        yield scan.facts.get("Index Name", scan.type)


Plans = Mapping[str, Plan | asyncpg.PostgresError]


async def plans_of(url: str, cases: Iterable["Case"], fill: Callable[[], Awaitable[None]] | None = None) -> Plans:
    """The plan of each case, by its name. With `fill`: as it was settled on before the tables were filled."""
    async with doors(url) as door:
        prepared = {case.name: await Prepared.on(door[case.door], case) for case in cases}
        if fill is not None:
            await fill()
        return {name: await one.explain() for name, one in prepared.items()}


@asynccontextmanager
async def doors(url: str) -> AsyncIterator[Mapping[Door, "Connection"]]:
    """The connections that the engine itself would use."""
    database = Database(url, "leasehold")
    link = Link(database, ONE_PLAN)
    try:
        async with link.session() as own, database.connection() as pooled, connected(url) as callers:
            for connection in (own, pooled, callers):
                await connection.execute("set statement_timeout = '20s'")
            yield {Door.LINK: own, Door.POOL: pooled, Door.ANEW: pooled, Door.CALLER: callers}
    finally:
        await link.close()
        await database.close()


@dataclass(frozen=True)
class Prepared:
    """A statement that a connection has prepared; and settled on a plan for, as it does within its first six runs."""

    connection: "Connection"
    execute: str

    @staticmethod
    async def on(connection: "Connection", case: "Case") -> "Prepared":
        statement = statements("leasehold")[case.statement]
        described = await connection.prepare(statement.text)
        types = ", ".join(parameter.name for parameter in described.get_parameters())
        name = f"p{uuid4().hex}"
        await connection.execute(f"prepare {name} {_brackets([types])} as {statement.text}")
        prepared = Prepared(connection, f"execute {name} {_brackets(map(literal, statement.arguments(case.values)))}")
        if case.door is not Door.ANEW:
            for _ in range(6):
                if case.statement == PLACE:  # a function plans its own statements, when it runs
                    await _explained(connection, prepared.execute)
                else:
                    await connection.execute(f"explain {prepared.execute}")
        return prepared

    async def explain(self) -> Plan | asyncpg.PostgresError:
        """It is run twice, since the first time fills caches. That it took too long is an answer, too."""
        try:
            await _explained(self.connection, self.execute)
            return await _explained(self.connection, self.execute)
        except asyncpg.QueryCanceledError as error:
            return error


async def _explained(connection: "Connection", execute: str) -> Plan:
    transaction = connection.transaction()
    await transaction.start()
    try:
        text = await connection.fetchval(f"explain (analyze, buffers, timing off, format json) {execute}")
    finally:
        await transaction.rollback()
    return Plan(Node(orjson.loads(text)[0]["Plan"]))


def _brackets(items: Iterable[str]) -> str:
    joined = ", ".join(items)
    return f"({joined})" if joined else ""


def literal(value: object) -> str:
    """A Python value as SQL writes it."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case str() | UUID():
            return "'" + str(value).replace("'", "''") + "'"
        case bytes():
            return f"'\\x{value.hex()}'"
        case datetime():
            return f"'{value.isoformat()}'"
        case timedelta():
            return f"'{value.total_seconds()} seconds'"
        case list() | tuple():
            return literal("{" + ",".join(map(_element, value)) + "}")
    raise TypeError(f"no literal for {value!r}")


def _element(value: object) -> str:
    if value is None:
        return "null"
    text = literal(value)
    if text.startswith("'"):
        text = text[1:-1].replace("''", "'").replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


# --------------------------------------------------------------------------------------------------------- databases


@dataclass(frozen=True)
class Size:
    """How much lies in the tables. What a statement is asked for is there in every size: the first of each kind."""

    queued: int = 100  # in the one deep lane
    future: int = 100
    due: int = 100  # and not yet promoted
    ended: int = 2_000
    lanes: int = 100  # of a tenant each
    per_lane: int = 1
    running: int = 200  # 50 for each worker

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


def queued_id(number: int) -> UUID:
    return UUID(f"01900001-0000-7000-8000-{number:012x}")


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
    await settle_in(connection, size)
    await fill(connection, size)


async def settle_in(connection: "Connection", size: Size) -> None:
    """What is there before the first job."""
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


async def run_more(connection: "Connection", size: Size, more: int) -> None:
    """So many more jobs run, on as many more workers as that takes."""
    crowded = replace(size, running=size.running + more)
    await connection.execute(_WORKERS, size.workers + 1, crowded.workers, DEFINITIONS)
    await connection.execute(_RUNNING, size.running + 1, crowded.running)


async def no_autovacuum(connection: "Connection") -> None:
    """Statistics stay as the test leaves them, and no plan is measured while they change."""
    tables = await connection.fetch("select tablename from pg_tables where schemaname = 'leasehold'")
    for (table,) in tables:
        await connection.execute(f"alter table leasehold.{table} set (autovacuum_enabled = off)")


async def leave_few(connection: "Connection") -> None:
    """About a hundred of each kind are left, and the rest is vacuumed away; the statistics still speak of all."""
    for table in ("jobs", "jobs_done"):
        # The last six digits of an id count within its kind or lane, the six before them the lanes.
        few = "right(id::text, 12) <= '000000000064' or right(id::text, 6) = '000001' and tenant_id < 't000100'"
        await connection.execute(f"delete from leasehold.{table} where not ({few})")  # noqa: S608
    await connection.execute("vacuum")


async def empty(connection: "Connection") -> None:
    """All that grows is gone, and vacuumed away; the statistics still speak of it."""
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
    """A second database, file by file; its name. Nobody may be connected to the first."""
    duplicate = f"leasehold_test_{server.run}_{uuid4().hex[:12]}"
    async with connected(server.url_for("postgres")) as admin:
        strategy = " strategy file_copy" if admin.get_server_version().major >= 15 else ""
        await admin.execute(f'create database "{duplicate}" template "{name}"{strategy}')
    return duplicate


# ------------------------------------------------------------------------------------------------------------- cases


@dataclass(frozen=True)
class Case:
    """A statement, what it is asked, and by which ways it may reach the tables that grow."""

    name: str
    statement: str
    values: Mapping[str, Any] = field(repr=False)
    ways: Mapping[str, set[str]] = field(repr=False)
    door: Door = Door.LINK

    def through(self, door: Door) -> "Case":
        return replace(self, name=f"{self.name} ({door.value})", door=door)

    def __str__(self) -> str:
        return self.name.replace(" ", "-")


def _lanes(tenants: Sequence[str], definition: str) -> dict[str, Any]:
    count = len(tenants)
    return {
        "worker": worker_id(1),
        "batch": 1,
        "definitions": [definition] * count,
        "tenants": tenants,
        "from_priorities": [-(2**15)] * count,
        "from_seqs": [-1] * count,
        "to_priorities": [2**15 - 1] * count,
        "locked_definitions": [],
        "advance": False,
    }


def _held(numbers: Sequence[int]) -> dict[str, Any]:
    return {
        "tenants": [BIG] * len(numbers),
        "jobs": [running_id(number) for number in numbers],
        "attempts": [1] * len(numbers),
        "batches": [0] * len(numbers),
    }


def _verdicts(numbers: Sequence[int], attempt_status: str) -> dict[str, Any]:
    count = len(numbers)
    return {
        **_held(numbers),
        "workers": [worker_id(1)] * count,
        "attempt_statuses": [attempt_status] * count,
        "errors": [None] * count,
        "error_codes": [None] * count,
        "exit_codes": [None] * count,
        "details": [None] * count,
    }


def _taking(definitions: Sequence[str]) -> dict[str, Any]:
    """Looks at the first piece of tenants; with a limit, takes from them."""
    start = {
        "after": "",
        "until": None,
        "around": True,
        "most": 64,
        "limit": 0,
        "even_if_due": True,
        "due_from": None,
    }
    return {"worker": worker_id(1), "batch": 1, "definitions": definitions, "tenants": None, **start}


def _alike(**jobs: Any) -> dict[str, Any]:
    shared = dict.fromkeys(
        ("priority", "max_attempts", "at", "deadline", "source_ref", "correlation_id", "created_by"), None
    )
    told = {"tenant": BIG, "definition": DEEP, "version": 1, "delay": timedelta(), "source": "manual"}
    return {**shared, **told, **jobs}


_NEW_IDS = [f"01900009-0000-7000-8000-{number:012x}" for number in range(100)]
_NEW_ID = UUID(_NEW_IDS[0])
_MINE = range(1, 51)


def _few(definitions: Sequence[str]) -> dict[str, Any]:
    return {"worker": worker_id(1), "batch": 1, "definitions": definitions, "limit": 16, "due_from": None}


_READY = {"jobs": {"jobs_ready", "Tid Scan", "jobs_running"}}
_FOUND = {"jobs": {"jobs_ready", "Tid Scan", "jobs_running", "jobs_future"}}
_PKEY = {"jobs": {"jobs_pkey"}}
_TENANTS_64 = [lane_tenant(number) for number in range(1, 65)]
_BY_ID = {"jobs": {"jobs_pkey"}, "jobs_done": {"jobs_done_pkey"}}
_FIND = {
    "tenant": BIG,
    "up_to": UUID(int=2**128 - 1),
    "active": ["blocked", "queued", "running"],
    "running": False,
    "succeeded": True,
    "unusual": ["failed", "canceled", "dead_letter"],
    "definitions": None,
    "source": None,
    "correlation_id": None,
    "due": None,
    "tried": None,
    "created_after": None,
    "created_before": None,
    "limit": 50,
}
_FIND_WAYS = {
    "jobs": {"jobs_pkey", "jobs_correlation"},
    "jobs_done": {"jobs_done_pkey", "jobs_done_unusual", "jobs_done_correlation"},
}

# What a worker's own links run.
ON_LINKS: tuple[Case, ...] = (
    Case(
        "claim from a deep lane",
        "fleet/claim_from_lanes",
        {**_lanes([BIG], DEEP), "share": 50, "limit": 50, "locked_tenants": []},
        _READY,
    ),
    Case(
        "claim behind a mark",
        "fleet/claim_from_lanes",
        {
            **_lanes([BIG], DEEP),
            "from_priorities": [1],
            "from_seqs": [0],
            "to_priorities": [1],
            "share": 20,
            "limit": 20,
            "locked_tenants": [],
        },
        _READY,
    ),
    Case(
        "claim from 64 capped lanes",
        "fleet/claim_from_lanes",
        {**_lanes(_TENANTS_64, WIDE), "share": 1, "limit": 50, "locked_tenants": _TENANTS_64},
        _READY,
    ),
    Case(
        "claim from 64 capped lanes and advance",
        "fleet/claim_from_lanes",
        {**_lanes(_TENANTS_64, WIDE), "share": 1, "limit": 50, "locked_tenants": _TENANTS_64, "advance": True},
        _READY,
    ),
    Case(
        "claim from 64 busy lanes",
        "fleet/claim_from_lanes",
        {**_lanes(_TENANTS_64, WIDE), "share": 1, "limit": 50, "locked_tenants": []},
        _READY,
    ),
    Case("take from a deep lane", "fleet/claim_next_tenants", {**_taking([DEEP]), "limit": 50}, _FOUND),
    Case("take from wide lanes", "fleet/claim_next_tenants", {**_taking([WIDE]), "limit": 100}, _FOUND),
    Case(
        "take from lanes of many definitions",
        "fleet/claim_next_tenants",
        {**_taking(DEFINITIONS), "limit": 100},
        _FOUND,
    ),
    Case(
        "take from three tenants",
        "fleet/claim_next_tenants",
        {**_taking(DEFINITIONS), "limit": 50, "tenants": [BIG, lane_tenant(7), "none"]},
        _FOUND,
    ),
    Case(
        "take from the end on at the beginning",
        "fleet/claim_next_tenants",
        {**_taking([WIDE]), "limit": 50, "after": "~", "until": "~", "around": False},
        _FOUND,
    ),
    Case("claim a few", "fleet/claim_few", _few(DEFINITIONS), _FOUND),
    Case("claim a few where there are many", "fleet/claim_few", _few([DEEP]), _FOUND),
    Case("only look", "fleet/claim_next_tenants", _taking(DEFINITIONS), _FOUND),
    Case("lock scopes", "fleet/lock_scopes", {"tenants": _TENANTS_64, "definitions": [WIDE] * 64}, {}),
    Case(
        "promote what is due",
        "fleet/promote",
        {"definitions": DEFINITIONS, "tenants": None, "limit": 50, "due_from": None},
        {"jobs": {"jobs_future", "Tid Scan"}},
    ),
    Case(
        "promote nothing",
        "fleet/promote",
        {"definitions": [DEEP, LATER], "tenants": None, "limit": 50, "due_from": None},
        {"jobs": {"jobs_future", "Tid Scan"}},
    ),
    Case(
        "finish",
        "fleet/finish",
        {
            **{
                name: values if values[0] is None else f"{{{','.join(map(str, values))}}}"
                for name, values in _verdicts(_MINE, "failed").items()
            },
            "statuses": f"{{{','.join(['failed'] * 50)}}}",
            "results": [None] * 50,
            "keeps": f"{{{','.join(['1 day'] * 50)}}}",
        },
        _PKEY,
    ),
    Case(
        "requeue",
        "fleet/requeue",
        {**_verdicts(_MINE, "failed"), "delays": [timedelta(minutes=1)] * 50, "forgiven": [0] * 50},
        _PKEY,
    ),
    Case(
        "append_log",
        "fleet/append_log",
        {
            **_held(_MINE),
            "workers": [worker_id(1)] * 50,
            "numbers": [1] * 50,
            "kinds": ["log"] * 50,
            "texts": ["said"] * 50,
            "progresses": [None] * 50,
        },
        _PKEY,
    ),
    Case(
        "renew",
        "fleet/renew",
        {
            "worker": worker_id(1),
            "lease": timedelta(minutes=1),
            "definitions": DEFINITIONS,
            "serves_tenants": None,
            "look": True,
            "probe": False,
            "thorough": True,
            "due_from": None,
            "cheap": 0.005,
            **_held(_MINE),
        },
        {"jobs": {"jobs_pkey", "jobs_running", "jobs_future"}},
    ),
    Case("sleep", "fleet/sleep", {"worker": worker_id(1), "definitions": DEFINITIONS, "tenants": None}, {}),
    Case("doze", "fleet/set_wake_time", {"sleep": 1, "next_due": timedelta(hours=1)}, {}),
    Case(
        "wake_another",
        "fleet/wake_another",
        {"worker": worker_id(1), "definitions": ["nothing"], "tenants": None},
        {},
    ),
    Case("evict", "fleet/evict", {"limit": 50}, {"jobs": {"jobs_running"}}),
    Case("held", "fleet/held", {"worker": worker_id(1)}, {"jobs": {"jobs_running"}}),
    Case(
        "prune",
        "fleet/prune",
        {"limit": 10},
        {
            "jobs_done": {"jobs_done_prune", "jobs_done_pkey"},
            "job_attempts": {"job_attempts_pkey"},
            "job_lines": {"job_lines_pkey"},
            "dedupe_holds": {"dedupe_holds_pkey"},
        },
    ),
    Case(
        "prune lines",
        "fleet/prune_lines",
        {"limit": 10, "lines": 50},
        {"jobs_done": {"jobs_done_prune"}, "job_lines": {"job_lines_pkey", "Tid Scan"}},
    ),
    Case("prune holds", "fleet/prune_holds", {"limit": 10}, {"dedupe_holds": {"dedupe_holds_expiry", "Tid Scan"}}),
)

PLACE = "tenant/enqueue_jobs"


def _placed(name: str, fields: Mapping[str, str]) -> Case:
    """Twenty jobs; their keys and ids are numbered. Only what it touches is seen of a function, not by which way."""
    jobs = [
        {"definition": DEEP, "payload": {"n": 1}} | {field: value.format(number) for field, value in fields.items()}
        for number in range(2, 42, 2)
    ]
    return Case(name, PLACE, {"tenant": BIG, "jobs": orjson.dumps(jobs).decode(), "wakes": True}, {})


# What runs on the pool.
_POOLED = (
    _placed("place new", {"dedupe_key": "new-{}"}),
    _placed("place for ever", {"dedupe_key": "new-{}", "dedupe": "always"}),
    _placed("place with ids", {"id": "01900007-0000-7000-8000-{:012}"}),
    _placed("place with ids that were used", {"id": "01900006-0000-7000-8000-{:012}"}),
    _placed("place what is there", {"dedupe_key": "key:{}"}),
    _placed("place what is held", {"dedupe_key": "held:{}", "dedupe": "always"}),
    _placed("replace", {"dedupe_key": "key:{}", "on_conflict": "replace"}),
    Case(
        "enqueue one of which little is said",
        "tenant/enqueue_one",
        {"tenant": BIG, "id": _NEW_ID, "definition": DEEP, "version": 1, "payload": "{}", "source": "manual"},
        {},
    ),
    Case(
        "enqueue a hundred alike",
        "tenant/enqueue_alike",
        _alike(
            ids=",".join(f"01900009-0000-7000-8000-{number:012x}" for number in range(100)),
            payloads="\n".join(["{}"] * 100),
            wakes=True,
        ),
        {},
    ),
    Case("wake for many", "tenant/wake", {"tenant": BIG, "definitions": [DEEP], "dues": [None]}, {}),
    Case("get", "tenant/get", {"tenant": BIG, "jobs": [ended_id(1)]}, _BY_ID),
    Case("cancel", "tenant/cancel", {"tenant": BIG, "jobs": [queued_id(1), queued_id(2), running_id(1)]}, _BY_ID),
    Case(
        "reschedule",
        "tenant/reschedule",
        {"tenant": BIG, "jobs": [queued_id(1), queued_id(2)], "delay": timedelta(hours=1), "priority": None},
        _BY_ID,
    ),
    Case(
        "retry",
        "tenant/retry",
        {"tenant": BIG, "jobs": [ended_id(number) for number in range(1, 51)], "attempts": [1] * 50},
        {**_BY_ID, "dedupe_holds": {"dedupe_holds_pkey"}, "job_attempts": {"job_attempts_pkey"}},
    ),
    Case("await", "tenant/await", {"tenant": BIG, "job": queued_id(1)}, _PKEY),
    Case(
        "counts",
        "tenant/counts",
        {"tenant": BIG, "cap": 50},
        {
            "jobs": {"jobs_pkey", "jobs_ready", "jobs_running", "jobs_blocked"},
            "jobs_done": {"jobs_done_pkey", "jobs_done_unusual"},
        },
    ),
    Case(
        "counts of a small tenant",
        "tenant/counts",
        {"tenant": lane_tenant(7), "cap": 50},
        {
            "jobs": {"jobs_pkey", "jobs_ready", "jobs_running", "jobs_blocked"},
            "jobs_done": {"jobs_done_pkey", "jobs_done_unusual"},
        },
    ),
    Case(
        "attempts",
        "tenant/attempts",
        {"tenant": BIG, "job": ended_id(1)},
        {**_BY_ID, "job_attempts": {"job_attempts_pkey"}},
    ),
    Case(
        "lines",
        "tenant/lines",
        {"tenant": BIG, "job": ended_id(1), "attempt": 1, "after": 0, "limit": 1000},
        {"job_lines": {"job_lines_pkey"}},
    ),
)

# Planned anew each time, by the filters that are given.
_FINDING = (
    Case("find", "tenant/find", _FIND, _FIND_WAYS),
    Case("find a small tenant's", "tenant/find", {**_FIND, "tenant": lane_tenant(7)}, _FIND_WAYS),
    Case("find further below", "tenant/find", {**_FIND, "up_to": ended_id(60)}, _FIND_WAYS),
    Case("find by correlation", "tenant/find", {**_FIND, "correlation_id": "c2"}, _FIND_WAYS),
    Case(
        "find dead letters",
        "tenant/find",
        {**_FIND, "active": [], "succeeded": False, "unusual": ["dead_letter"]},
        _FIND_WAYS,
    ),
    Case("find what is due", "tenant/find", {**_FIND, "due": True}, _FIND_WAYS),
    Case("find what was tried", "tenant/find", {**_FIND, "tried": True}, _FIND_WAYS),
    Case(
        "find running",
        "tenant/find",
        {**_FIND, "active": [], "running": True, "succeeded": False, "unusual": []},
        {**_FIND_WAYS, "jobs": {"jobs_pkey", "jobs_running"}},
    ),
)

# What no tenant may ask; planned anew each time.
_EVERYWHERE = {**_FIND, "last_tenant": "", "up_to_later": UUID(int=2**128 - 1), "only_running": False}
del _EVERYWHERE["tenant"]
_ONLY_RUNNING = {
    **_EVERYWHERE,
    "active": [],
    "running": True,
    "succeeded": False,
    "unusual": [],
    "only_running": True,
}
_LOOKING_ROUND = (
    Case("tenants", "administration/tenants", {"limit": 50}, {}),
    Case(
        "count the workers",
        "doctor/workers",
        {"most": 10_000},
        {"jobs": {"jobs_running", "jobs_ready", "jobs_future"}},
    ),
    Case(
        "find what runs everywhere",
        "administration/find_all_tenants",
        _ONLY_RUNNING,
        {**_FIND_WAYS, "jobs": {"jobs_running", "jobs_pkey"}},
    ),
)
# There is no index for these: they cost some probes for each tenant.
OF_EACH_TENANT = tuple(
    case.through(Door.ANEW)
    for case in (
        Case("find everywhere", "administration/find_all_tenants", _EVERYWHERE, _FIND_WAYS),
        Case(
            "find further below everywhere",
            "administration/find_all_tenants",
            {**_EVERYWHERE, "last_tenant": lane_tenant(7), "up_to": ended_id(60), "up_to_later": ended_id(61)},
            _FIND_WAYS,
        ),
        Case(
            "find dead letters everywhere",
            "administration/find_all_tenants",
            {**_EVERYWHERE, "active": [], "succeeded": False, "unusual": ["dead_letter"]},
            _FIND_WAYS,
        ),
        Case(
            "find by correlation everywhere",
            "administration/find_all_tenants",
            {**_EVERYWHERE, "correlation_id": "c2"},
            _FIND_WAYS,
        ),
        Case("whose", "administration/tenants_with_job", {"job": ended_id(1)}, _BY_ID),
        Case("whose is unknown", "administration/tenants_with_job", {"job": UUID(int=1)}, _BY_ID),
    )
)

# The first five enqueues on a connection are planned anew, the later ones as it was settled.
_ENQUEUING = [case for case in _POOLED if case.statement.startswith(("tenant/enqueue", "tenant/wake", PLACE))]
ON_THE_POOL = tuple(case.through(Door.POOL) for case in _ENQUEUING)
PLANNED_ANEW = tuple(case.through(Door.ANEW) for case in (*_POOLED, *_FINDING, *_LOOKING_ROUND))
# In a transaction of the app's.
ON_THE_CALLERS = tuple(case.through(Door.CALLER) for case in _ENQUEUING)

EVERY = (*ON_LINKS, *ON_THE_POOL, *PLANNED_ANEW, *ON_THE_CALLERS)

# These must have one sane plan, whatever the statistics said when it was made. Counting and finding are for people.
WITH_ONE_PLAN = (
    *ON_LINKS,
    *ON_THE_POOL,
    *ON_THE_CALLERS,
)
