"""Connections: a pool for whoever asks, and links of our own for the hot statements."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import asyncpg

from leasehold.engines.postgres.connections import (
    DIRECT_SESSION,
    FIRST_WITH_TRANSACTION_TIMEOUT,
    OwnConnection,
    Transaction,
    milliseconds,
    options_for,
    require_readable,
)
from leasehold.engines.postgres.errors import BROKEN, UNREACHABLE, Translated
from leasehold.engines.postgres.pool import Loan, Pool
from leasehold.engines.postgres.sql import Statement, schema_name, statements
from leasehold.errors import (
    Unreachable,
)

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

    Connection = asyncpg.Connection[asyncpg.Record] | PoolConnectionProxy[asyncpg.Record]

T = TypeVar("T")

# Hot tables are analysed when empty as often as when full. With these, each hot statement has one plan, by index,
# whatever the statistics said last; tests pin them. Only for connections of our own: no handler ever gets one.
ONE_PLAN = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_bitmapscan": "off",
    "enable_sort": "off",
    "enable_incremental_sort": "off",
    "jit": "off",
    # A process that is stopped between two statements of a transaction must not hold its locks for ever.
    "idle_in_transaction_session_timeout": "10s",
}

POOL_SIZE = 10
# How many seconds a producer waits for the answer to one statement, unless its settings say otherwise; and how many a
# worker's link waits, after which the default lease has ended anyway.
STATEMENT_TIMEOUT = 30.0
LINK_TIMEOUT = 60.0
CLOSING = 0.5


class Database:
    """One schema in one database. Opens nothing until it is asked for something.

    `pooled`: a pooler in transaction mode stands between, which the first connection finds out. A pooler gives each
    transaction another session, so nothing is set in a session and no prepared statement is kept, and each statement
    is sent in a transaction of its own.

    `statement_timeout` is how many seconds a statement of the pool may take. `listen_url` leads to the same database
    past a pooler, for the connections that listen.
    """

    def __init__(
        self,
        url: str,
        schema: str,
        *,
        listen_url: str | None = None,
        statement_timeout: float | None = STATEMENT_TIMEOUT,
    ) -> None:
        require_readable(url)
        self.url = url
        self.schema = schema_name(schema)
        self.pooled = False
        self.listener = Database(listen_url, schema) if listen_url else self
        self._statement_timeout = statement_timeout
        self._statements = statements(self.schema)
        self._session_settings = DIRECT_SESSION
        self._knows_whether_pooled = False
        self._finding_out = asyncio.Lock()
        self._pool: Pool | None = None
        self._closed = False
        self._translated = Translated(self)
        # Whoever fills a transaction may have to look something up meanwhile: if all were lent to those, each would
        # wait for the others.
        self.long_loans = asyncio.Semaphore(POOL_SIZE - 2)

    def statement(self, name: str) -> Statement:
        return self._statements[name]

    async def fetch(self, name: str, /, **values: Any) -> list[asyncpg.Record]:
        with self.translated():
            async with self.connection() as connection:
                return await self.fetch_anew_on(connection, name, **values)

    async def fetch_anew_on(self, connection: "Connection", name: str, /, **values: Any) -> list[asyncpg.Record]:
        """Planned for this one run: a plan that a connection settled on while tables were empty would stay."""
        if self.pooled:
            return await self.fetch_on(connection, name, **values)
        statement = self.statement(name)
        prepared = await connection.prepare(statement.text)
        return await prepared.fetch(*statement.arguments(values))

    async def fetch_on(self, connection: "Connection", name: str, /, **values: Any) -> list[asyncpg.Record]:
        """Planned once for each connection: for statements whose plan is good whenever it was made."""
        statement = self._statements[name]
        if not self.pooled or connection.is_in_transaction():
            return await connection.fetch(statement.text, *statement.arguments(values))
        async with self.transaction(connection):
            return await connection.fetch(statement.text, *statement.arguments(values))

    def transaction(self, connection: "Connection") -> Transaction:
        """A transaction on a connection that this database has opened."""
        assert isinstance(connection, OwnConnection)
        return Transaction(connection)

    def connection(self) -> Loan:
        """One of the pool's, for a while."""
        if self._pool is None:
            self._pool = Pool(self.connect, closed, POOL_SIZE, self._statement_timeout)
        return self._pool.connection()

    async def in_time(self, asked: Awaitable[T]) -> T:
        """Awaits it for as long as a statement may take; then raises Unreachable."""
        with self.translated():
            async with asyncio.timeout(self._statement_timeout):
                return await asked

    async def connect(self, settings: Mapping[str, str] | None = None) -> OwnConnection:
        """Opens a connection whose statements have the time limit of this database's settings."""
        return await self.connect_within(self._statement_timeout, settings)

    async def connect_within(self, limit: float | None, settings: Mapping[str, str] | None = None) -> OwnConnection:
        """Opens a connection whose statements may take `limit` seconds each; None: as long as they like."""
        self._require_open()
        with self.translated():
            connection = await self._open(limit, settings or {})
        if self._closed:
            connection.terminate()
        self._require_open()
        return connection

    async def _open(self, limit: float | None, settings: Mapping[str, str]) -> OwnConnection:
        if self._knows_whether_pooled:
            return await self._open_once(limit, settings)
        async with self._finding_out:
            connection = await self._open_once(limit, settings)
            if not self._knows_whether_pooled and not self.pooled and not await self._is_direct(connection):
                self.pooled = True
                await closed(connection)
                connection = await self._open_once(limit, settings)
            self._knows_whether_pooled = True
            return connection

    async def _open_once(self, limit: float | None, settings: Mapping[str, str]) -> OwnConnection:
        """A pooler may refuse settings that it would have to carry from session to session."""
        if not self.pooled:
            try:
                return await self._connected(limit, {**self._session_settings, **settings})
            except asyncpg.ProtocolViolationError:
                self.pooled = True
        connection = await self._connected(limit, {})
        connection.begin = self._begin_within(limit)
        return connection

    async def _connected(self, limit: float | None, settings: Mapping[str, str]) -> OwnConnection:
        options = options_for(self.url, settings, pooled=self.pooled, limit=limit)
        connection = await asyncpg.connect(self.url, **options)
        assert isinstance(connection, OwnConnection)
        return connection

    async def _is_direct(self, connection: OwnConnection) -> bool:
        """Whether we speak to the very session that we opened. Some poolers accept any settings and drop them.

        In one message, without a prepared statement: it may be a pooler. A pooler has process ids of its own.
        """
        pid = {"pid": str(connection.get_server_pid())}
        lift, ask = self.statement("session/without_transaction_timeout"), self.statement("session/is_direct")
        try:
            is_direct = await connection.execute(f"{lift.written(pid)};{ask.written(pid)}") == "SELECT 1"
        except BaseException:
            connection.terminate()
            raise
        if is_direct and connection.get_server_version().major >= FIRST_WITH_TRANSACTION_TIMEOUT:
            self._session_settings = DIRECT_SESSION | {"transaction_timeout": "0"}
        return is_direct

    def _begin_within(self, limit: float | None) -> str:
        limits = self.statement("session/limits").written({"milliseconds": str(milliseconds(limit))})
        return f"{self.statement('session/begin').text};{limits}"

    async def close(self) -> None:
        self._closed = True
        if self.listener is not self:
            await self.listener.close()
        pool, self._pool = self._pool, None
        if pool is not None:
            await self.close_pool(pool)

    async def close_pool(self, pool: "Pool | asyncpg.Pool[asyncpg.Record]") -> None:
        try:
            await asyncio.wait_for(pool.close(), CLOSING)
        except asyncio.CancelledError:
            pool.terminate()
            raise
        except UNREACHABLE:
            pool.terminate()

    async def make_pool(self, **options: Any) -> "asyncpg.Pool[asyncpg.Record]":
        """The driver's own, which resets what was set on a connection before it is lent again.

        A handler's statements may take as long as the handler likes, under the settings of database and role.
        """
        self._require_open()
        if not self._knows_whether_pooled:
            await closed(await self.connect())
        own = options_for(self.url, {}, pooled=self.pooled, limit=None)
        own["server_settings"].pop("statement_timeout", None)
        return await asyncpg.create_pool(self.url, min_size=0, **own, **options)

    def _require_open(self) -> None:
        """What is opened for who comes too late, as a run that outlives its worker's registration, nobody would
        close.
        """
        if self._closed:
            raise Unreachable("the store was closed. Nothing was asked of the database.", fix="Open another.")

    def translated(self) -> "Translated":
        """Driver errors that a caller would act on, in our words; the rest pass through as they are."""
        return self._translated


class Link:
    """One connection of our own: opened when first needed, again after it broke; one user at a time.

    With `tells_of_loss`, whoever comes first after it broke is told so: what was committed asynchronously by it may
    be undone, and has to be looked at before anything is built on it.
    """

    def __init__(self, database: Database, settings: Mapping[str, str], *, tells_of_loss: bool = False) -> None:
        self._database = database
        self._tells_of_loss = tells_of_loss
        self._settings = settings
        self._turn = asyncio.Lock()
        self._connection: OwnConnection | None = None

    async def fetch(self, name: str, /, **values: Any) -> list[asyncpg.Record]:
        async with self.session() as connection:
            return await self._database.fetch_on(connection, name, **values)

    @asynccontextmanager
    async def session(self) -> AsyncIterator[OwnConnection]:
        async with self._turn:
            with self._database.translated():
                if self._connection is not None and self._connection.is_closed():
                    self._connection = None
                    if self._tells_of_loss:
                        raise asyncpg.ConnectionDoesNotExistError("the connection was lost")
                if self._connection is None:
                    self._connection = await self._database.connect_within(LINK_TIMEOUT, self._settings)
                connection = self._connection
                try:
                    yield connection
                except BaseException as error:
                    # Broken, or a statement is under way whose answer may never come. Whoever used it knows by this.
                    if isinstance(error, asyncio.CancelledError | BROKEN) or connection.is_closed():
                        connection.terminate()
                        self._connection = None
                    raise

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[OwnConnection]:
        async with self.session() as connection, self._database.transaction(connection):
            yield connection

    async def close(self) -> None:
        """Waits a moment for whoever uses it, but not for an answer that may never come."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._turn.acquire(), CLOSING)
            self._turn.release()
        connection, self._connection = self._connection, None
        if connection is not None:
            await closed(connection)


async def closed(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    """However it goes: whoever closes is done with it."""
    try:
        await connection.close(timeout=CLOSING)
    except asyncio.CancelledError:
        connection.terminate()
        raise
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError):
        connection.terminate()
