"""Runs statements as the engine does, and reads their plans: the nodes, the indexes, the buffers.

A link keeps one generic plan for each statement; the pool plans at first for each run, and may then settle on a
generic plan. EXPLAIN with bound parameters would show neither. So statements are prepared in SQL, on the engine's own
connections, and their EXECUTE is explained, with literals, in a transaction that is rolled back.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import asyncpg
import orjson
from tests.postgres.plan_database import READ_IN_BATCHES, connected

from leasehold.engines.postgres.database import ONE_PLAN, Database, Link
from leasehold.engines.postgres.statements import statements

if TYPE_CHECKING:
    from leasehold.engines.postgres.database import Connection

ENQUEUE_JOBS = "tenant/enqueue_jobs"
# A look at jobs without any trait.
NO_TRAITS = dict.fromkeys(
    (
        *("worker", "dedupe_key", "lowest_priority", "highest_priority", "shortest", "longest"),
        *("payload_path", "payload_value"),
    )
)
OF_FUNCTIONS = (ENQUEUE_JOBS, "events/write", "events/place")


class ConnectionKind(Enum):
    """The connection that runs a statement, and so its kind of plan."""

    LINK = "link"  # a worker's own: one generic plan for as long as it is open
    POOL = "pool"  # may settle on a generic plan after five runs
    FRESH = "fresh"  # of the pool, prepared for this one run
    CALLER = "caller"  # a connection of the app's, whose settings are not ours


@dataclass(frozen=True)
class Case:
    """A statement, its values, and the indexes by which it may reach the tables that grow."""

    name: str
    statement: str
    values: Mapping[str, Any] = field(repr=False)
    ways: Mapping[str, set[str]] = field(repr=False)
    kind: ConnectionKind = ConnectionKind.LINK

    def on(self, kind: ConnectionKind) -> "Case":
        return replace(self, name=f"{self.name} ({kind.value})", kind=kind)

    def __str__(self) -> str:
        return self.name.replace(" ", "-")


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
        """The rows that the node returned or removed, over all loops."""
        removed = (count for fact, count in self.facts.items() if fact.startswith("Rows Removed by"))
        return int((self.facts["Actual Rows"] + sum(removed)) * self.facts["Actual Loops"])

    def __iter__(self) -> Iterator["Node"]:
        yield self
        for child in self.children:
            yield from child

    def __str__(self) -> str:
        return "\n".join(self.lines(0))

    def lines(self, depth: int) -> Iterator[str]:
        """Yields one line for each node, indented."""
        facts = self.facts
        names = [facts[fact] for fact in ("Subplan Name", "Relation Name", "Index Name", "CTE Name") if fact in facts]
        conditions = [f"{fact}: {facts[fact]}" for fact in ("Index Cond", "Recheck Cond", "Filter") if fact in facts]
        head = " ".join((self.type, *names))
        told = f"{head}  rows={self.rows_read} buffers={self.buffers}"
        yield "  " * depth + "  ".join((told, *conditions))
        for child in self.children:
            yield from child.lines(depth + 1)


@dataclass(frozen=True)
class Plan:
    root: Node

    def __repr__(self) -> str:
        return f"buffers={self.buffers}\n{self.root}"

    @property
    def buffers(self) -> int:
        """The buffers of the root, and of CTEs that no node reads, which run after the root."""
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
        """Scans of tables that may be large."""
        return [node for node in self.root if node.type.endswith("Scan") and _table(node) in READ_IN_BATCHES]

    @property
    def sorts(self) -> list[Node]:
        return [node for node in self.root if node.type in ("Sort", "Incremental Sort")]

    def ways_to(self, table: str) -> set[str]:
        """Returns the indexes by which a table is read, or the kind of scan where there is none."""
        return {way for node in self.scans if _table(node) == table for way in _ways(node)}


def _table(node: Node) -> str:
    return str(node.facts.get("Relation Name", ""))


def _ways(scan: Node) -> Iterator[str]:
    if scan.type == "Bitmap Heap Scan":
        yield from (node.facts["Index Name"] for node in scan if node.type == "Bitmap Index Scan")
    else:
        yield scan.facts.get("Index Name", scan.type)


Plans = Mapping[str, Plan | asyncpg.PostgresError]


async def plans_of(url: str, cases: Iterable[Case], fill: Callable[[], Awaitable[None]] | None = None) -> Plans:
    """Returns the plan of each case, by its name. With `fill`, plans are made before the tables are filled."""
    async with engine_connections(url) as connections:
        prepared = {case.name: await Prepared.on(connections[case.kind], case) for case in cases}
        if fill is not None:
            await fill()
        return {name: await one.explain() for name, one in prepared.items()}


@asynccontextmanager
async def engine_connections(url: str) -> AsyncIterator[Mapping[ConnectionKind, "Connection"]]:
    """Opens the connections that the engine itself would use."""
    database = Database(url, "leasehold")
    link = Link(database, ONE_PLAN)
    try:
        async with link.session() as own, database.connection() as pooled, connected(url) as callers:
            for connection in (own, pooled, callers):
                await connection.execute("set statement_timeout = '20s'")
            yield {
                ConnectionKind.LINK: own,
                ConnectionKind.POOL: pooled,
                ConnectionKind.FRESH: pooled,
                ConnectionKind.CALLER: callers,
            }
    finally:
        await link.close()
        await database.close()


@dataclass(frozen=True)
class Prepared:
    """A prepared statement, with the plan that a connection settles on within its first six runs."""

    connection: "Connection"
    execute: str

    @staticmethod
    async def on(connection: "Connection", case: Case) -> "Prepared":
        statement = statements("leasehold")[case.statement]
        described = await connection.prepare(statement.text)
        types = ", ".join(parameter.name for parameter in described.get_parameters())
        name = f"p{uuid4().hex}"
        await connection.execute(f"prepare {name} {_brackets([types])} as {statement.text}")
        prepared = Prepared(connection, f"execute {name} {_brackets(map(literal, statement.arguments(case.values)))}")
        if case.kind is not ConnectionKind.FRESH:
            for _ in range(6):
                if case.statement in OF_FUNCTIONS:  # a function plans its own statements when it runs
                    await _explained(connection, prepared.execute)
                else:
                    await connection.execute(f"explain {prepared.execute}")
        return prepared

    async def explain(self) -> Plan | asyncpg.PostgresError:
        """Runs the statement twice, since the first run fills caches. Returns the error of a slow run."""
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
    """Writes a Python value as SQL."""
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
