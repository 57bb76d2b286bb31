"""One schema in one database: its statements, its pool of connections, its errors in our words; and links.

A link is a connection of our own for hot statements, each for one purpose.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

import asyncpg

from leasehold.engines.postgres.connections import (
    CLOSING,
    OwnConnection,
    Transaction,
    close_connection,
    options_for,
    require_readable,
)
from leasehold.engines.postgres.errors import BROKEN, UNREACHABLE, ErrorTranslator, connection_was_lost
from leasehold.engines.postgres.pool import Loan, Pool
from leasehold.engines.postgres.pooler import ConnectionOpener
from leasehold.engines.postgres.statements import Statement, schema_name, statements
from leasehold.errors import Unreachable

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

    from leasehold.engines.postgres.pool import Session

    Connection = asyncpg.Connection[asyncpg.Record] | PoolConnectionProxy[asyncpg.Record]

T = TypeVar("T")

POOL_SIZE = 10
# Seconds that a producer waits for the answer to one statement, unless its settings say otherwise.
STATEMENT_TIMEOUT = 30.0

# Hot tables are analysed when empty as often as when full. With these settings each hot statement has one plan, by
# index, whatever the statistics say; tests pin the plans. No handler ever gets such a connection.
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
# Seconds that a worker's link waits for an answer: after that the default lease has ended anyway.
LINK_TIMEOUT = 60.0


class SharedLoan:
    """A connection that its first borrower gives back."""

    __slots__ = ("_connection",)

    def __init__(self, connection: "Session") -> None:
        self._connection = connection

    async def __aenter__(self) -> "Session":
        return self._connection

    async def __aexit__(self, *failure: object) -> None:
        pass


# The database and the connection whose transaction the current task is in.
_shared: "ContextVar[tuple[Database, Session] | None]" = ContextVar("leasehold_shared", default=None)


class Database:
    """One schema in one database. Opens nothing until it is asked for something.

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
        self.listener = Database(listen_url, schema) if listen_url else self
        self._statement_timeout = statement_timeout
        self._statements = statements(self.schema)
        self._opener = ConnectionOpener(url, self._statements)
        self._pool: Pool | None = None
        self._closed = False
        self._translated = ErrorTranslator(self)
        # A bulk transaction may need a second connection meanwhile. If bulk transactions had all connections, each
        # would wait for the others.
        self.long_loans = asyncio.Semaphore(POOL_SIZE - 2)

    @property
    def pooled(self) -> bool:
        """Whether a pooler in transaction mode stands between; certain once a connection was opened."""
        return self._opener.pooled

    def note_pooler(self) -> None:
        """Notes that an error showed a pooler in transaction mode."""
        self._opener.pooled = True

    def statement(self, name: str) -> Statement:
        return self._statements[name]

    async def fetch(self, name: str, /, **values: Any) -> list[asyncpg.Record]:
        with self.translate_errors():
            async with self.connection() as connection:
                return await self.fetch_planned_on(connection, name, **values)

    async def fetch_planned_on(self, connection: "Connection", name: str, /, **values: Any) -> list[asyncpg.Record]:
        """Plans the statement for this one run: a plan that was made while tables were empty would be kept."""
        if self.pooled:
            return await self.fetch_on(connection, name, **values)
        statement = self.statement(name)
        prepared = await connection.prepare(statement.text)
        return await prepared.fetch(*statement.arguments(values))

    async def fetch_on(self, connection: "Connection", name: str, /, **values: Any) -> list[asyncpg.Record]:
        """Plans the statement once for each connection: its plan is good whenever it was made."""
        statement = self.statement(name)
        if not self._opener.pooled or connection.is_in_transaction():
            return await connection.fetch(statement.text, *statement.arguments(values))
        async with self.transaction(connection):
            return await connection.fetch(statement.text, *statement.arguments(values))

    def transaction(self, connection: "Connection") -> Transaction:
        """Returns a transaction on a connection that this database has opened."""
        assert isinstance(connection, OwnConnection)
        return Transaction(connection)

    @asynccontextmanager
    async def together(self) -> AsyncIterator[None]:
        """Lets all statements that this task sends to the pool be one transaction."""
        with self.translate_errors():
            async with self.connection() as connection, connection.transaction(isolation="read_committed"):
                token = _shared.set((self, connection))
                try:
                    yield
                finally:
                    _shared.reset(token)

    def connection(self) -> Loan | SharedLoan:
        """Lends a connection of the pool; within `together`, the one of its transaction."""
        shared = self.shared_connection()
        return self.loan() if shared is None else SharedLoan(shared)

    def shared_connection(self) -> "Session | None":
        """Returns the connection of `together`, if this task is within it."""
        shared = _shared.get()
        return shared[1] if shared is not None and shared[0] is self else None

    def loan(self) -> Loan:
        """Lends a connection of the pool that is in no transaction."""
        if self._pool is None:
            self._pool = Pool(self.connect, close_connection, POOL_SIZE, self._statement_timeout)
        return self._pool.connection()

    def end_suspects(self, asked: float) -> None:
        """Ends idle connections of the pool after something that was asked elsewhere got no answer."""
        if self._pool is not None:
            self._pool.end_suspects(asked)

    async def in_time(self, asked: Awaitable[T]) -> T:
        """Awaits the answer for as long as a statement may take; then raises Unreachable."""
        with self.translate_errors():
            async with asyncio.timeout(self._statement_timeout):
                return await asked

    async def connect(self, settings: Mapping[str, str] | None = None) -> OwnConnection:
        """Opens a connection whose statements have the time limit of this database's settings."""
        return await self.connect_within(self._statement_timeout, settings)

    async def connect_within(self, limit: float | None, settings: Mapping[str, str] | None = None) -> OwnConnection:
        """Opens a connection whose statements may take `limit` seconds each; None: as long as they like."""
        self._require_open()
        with self.translate_errors():
            connection = await self._opener.open(limit, settings or {})
        if self._closed:
            connection.terminate()
        self._require_open()
        return connection

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
        """Makes a pool of the driver, which resets a connection's settings before it lends the connection again.

        A handler's statements may take as long as the handler likes, under the settings of database and role.
        """
        self._require_open()
        if not self._opener.is_certain:
            await close_connection(await self.connect())
        own = options_for(self.url, {}, pooled=self.pooled, limit=None)
        own["server_settings"].pop("statement_timeout", None)
        return await asyncpg.create_pool(self.url, min_size=0, **own, **options)

    def _require_open(self) -> None:
        """Raises Unreachable after `close`: no code would close a connection that is opened later, as by a run that
        outlives its worker's registration.
        """
        if self._closed:
            raise Unreachable("the store was closed. Nothing was asked of the database.", fix="Open another.")

    def translate_errors(self) -> "ErrorTranslator":
        """Translates driver errors that a caller would act on; other errors pass through."""
        return self._translated


class Link:
    """One connection of our own: opened when first needed, again after it broke; one user at a time.

    With `tells_of_loss`, the first call after it broke raises: its asynchronous commits may be undone, and the caller
    has to look at them before it goes on.
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
            with self._database.translate_errors():
                if self._connection is not None and self._connection.is_closed():
                    self._connection = None
                    if self._tells_of_loss:
                        raise connection_was_lost()
                if self._connection is None:
                    self._connection = await self._database.connect_within(LINK_TIMEOUT, self._settings)
                connection, asked = self._connection, monotonic()
                try:
                    yield connection
                except BaseException as error:
                    # Broken, or a statement is under way whose answer may never come.
                    if isinstance(error, asyncio.CancelledError | BROKEN) or connection.is_closed():
                        connection.terminate()
                        self._connection = None
                        if isinstance(error, asyncio.CancelledError | TimeoutError):
                            self._database.end_suspects(asked)
                    raise

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[OwnConnection]:
        async with self.session() as connection, self._database.transaction(connection):
            yield connection

    async def close(self) -> None:
        """Waits a moment for the current user, but not for an answer that may never come."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._turn.acquire(), CLOSING)
            self._turn.release()
        connection, self._connection = self._connection, None
        if connection is not None:
            await close_connection(connection)


class IdleLink(Link):
    """A link with one plan for each statement that closes its connection after some idle seconds."""

    def __init__(self, database: Database, idle: float) -> None:
        super().__init__(database, ONE_PLAN)
        self._seconds = idle
        self._idle: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def session(self) -> AsyncIterator[OwnConnection]:
        async with super().session() as connection:
            self._stop_timer()
            yield connection
            self._idle = asyncio.get_running_loop().call_later(self._seconds, self._end_idle_connection)

    async def close(self) -> None:
        self._stop_timer()
        await super().close()

    def _stop_timer(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def _end_idle_connection(self) -> None:
        if self._connection is not None and not self._turn.locked():
            self._connection.terminate()
            self._connection = None
