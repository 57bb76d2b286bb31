"""Connections: a pool for whoever asks, and links of our own for the hot statements."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import asyncpg

from leasehold.engines.postgres.pool import Loan, Pool
from leasehold.engines.postgres.sql import Statement, schema_name, statements
from leasehold.errors import InvalidInput, LeaseholdError, SchemaMismatch, TransactionConflict, Unreachable

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

    Connection = asyncpg.Connection[asyncpg.Record] | PoolConnectionProxy[asyncpg.Record]

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
    # Locks first, then a snapshot: above READ COMMITTED the snapshot would be the older of the two.
    "default_transaction_isolation": "read committed",
    # A process that is stopped between two statements of a transaction must not hold its locks for ever.
    "idle_in_transaction_session_timeout": "10s",
}

POOL_SIZE = 10
# The driver would wait a minute for a host that never answers, and so would whoever enqueues.
CONNECTING = 10.0
CLOSING = 0.5
# It may go better in a moment: away, starting, stopping, failed over, full.
_UNREACHABLE = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.InternalClientError,  # asyncpg, when asked between the server's last word and the end of the connection
)
_BROKEN = OSError | asyncpg.PostgresConnectionError | asyncpg.OperatorInterventionError | asyncpg.InternalClientError
# It will not go better until somebody changes something.
_REFUSED = (
    asyncpg.ClientConfigurationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InsufficientPrivilegeError,
)
_NO_SCHEMA = (
    asyncpg.UndefinedTableError,
    asyncpg.UndefinedFunctionError,
    asyncpg.UndefinedColumnError,
    asyncpg.InvalidSchemaNameError,
)


class Database:
    """One schema in one database. Opens nothing until it is asked for something.

    `pooled`: a pooler in transaction mode stands between. It gives each transaction another session, so nothing is
    set, no prepared statement is kept, and each statement is a transaction of its own, said aloud.
    """

    def __init__(self, url: str, schema: str) -> None:
        _require_readable(url)
        self.url = url
        self.schema = schema_name(schema)
        self.pooled = False
        self._statements = statements(self.schema)
        self._pool: Pool | None = None
        self._closed = False
        self._translated = Translated(self.schema)
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
        if not self.pooled:
            return await connection.fetch(statement.text, *statement.arguments(values))
        async with connection.transaction():
            return await connection.fetch(statement.text, *statement.arguments(values))

    def connection(self) -> Loan:
        """One of the pool's, for a while."""
        if self._pool is None:
            self._pool = Pool(self.connect, closed, POOL_SIZE)
        return self._pool.connection()

    async def connect(self, **settings: str) -> "asyncpg.Connection[asyncpg.Record]":
        self._require_open()
        with self.translated():
            connection: asyncpg.Connection[asyncpg.Record] = await asyncpg.connect(
                self.url, **self._options(settings)
            )
        if self._closed:
            connection.terminate()
        self._require_open()
        return connection

    async def find_out_about_a_pooler(self) -> None:
        """A pooler refuses settings that it would have to carry from session to session."""
        with self.translated():
            try:
                connection = await asyncpg.connect(self.url, **self._options(ONE_PLAN))
            except asyncpg.ProtocolViolationError:
                self.pooled = True
            else:
                await closed(connection)

    def _options(self, settings: Mapping[str, str]) -> dict[str, Any]:
        named = {"application_name": "leasehold"}
        if self.pooled:
            return {"server_settings": named, "statement_cache_size": 0, "timeout": CONNECTING}
        return {"server_settings": named | dict(settings), "timeout": CONNECTING}

    async def close(self) -> None:
        self._closed = True
        pool, self._pool = self._pool, None
        if pool is not None:
            await self.close_pool(pool)

    async def close_pool(self, pool: "Pool | asyncpg.Pool[asyncpg.Record]") -> None:
        try:
            await asyncio.wait_for(pool.close(), CLOSING)
        except asyncio.CancelledError:
            pool.terminate()
            raise
        except _UNREACHABLE:
            pool.terminate()

    async def make_pool(self, **options: Any) -> "asyncpg.Pool[asyncpg.Record]":
        """The driver's own, which resets what was set on a connection before it is lent again."""
        self._require_open()
        return await asyncpg.create_pool(self.url, min_size=0, **self._options({}), **options)

    def _require_open(self) -> None:
        """What is opened for who comes too late, as a run that outlives its worker's seat, nobody would close."""
        if self._closed:
            raise Unreachable("the store was closed. Nothing was asked of the database.", fix="Open another.")

    def translated(self) -> "Translated":
        """Driver errors that a caller would act on, in our words; the rest pass through as they are."""
        return self._translated


class Translated:
    """A class, since a generator would cost each enqueue a few µs."""

    def __init__(self, schema: str) -> None:
        self._schema = schema

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception) and (told := self._in_our_words(error)) is not None:
            raise told from error

    def _in_our_words(self, error: Exception) -> LeaseholdError | None:
        if isinstance(error, _NO_SCHEMA):
            return SchemaMismatch(
                f'the schema "{self._schema}" is missing or of another version ({error}). Nothing was changed.',
                fix="Run: leasehold migrate",
            )
        if isinstance(error, asyncpg.SerializationError | asyncpg.DeadlockDetectedError):
            return TransactionConflict(
                f"the transaction lost a race ({error}). It must be rolled back, nothing of it was kept.",
                fix="Run the whole transaction again.",
            )
        if isinstance(error, _REFUSED):
            return InvalidInput(
                f"the database refuses ({type(error).__name__}: {error}). Nothing was changed.",
                fix="Check the user, the password, the database and the privileges that LEASEHOLD_URL stands for.",
            )
        if isinstance(error, asyncpg.QueryCanceledError):
            return None
        if isinstance(error, _UNREACHABLE) or (isinstance(error, asyncpg.InterfaceError) and "closed" in str(error)):
            return _unreachable(error)
        return None


def _unreachable(error: Exception) -> Unreachable:
    return Unreachable(
        f"the database can't be reached ({type(error).__name__}: {error}). "
        "What was under way is either wholly done or not at all.",
        fix="Check LEASEHOLD_URL and that Postgres runs.",
    )


def _require_readable(url: str) -> None:
    """The driver's own complaint about a bad port would be a bare ValueError, and 99999 would be taken for 34463."""
    try:
        _ = urlsplit(url).port
    except ValueError as error:
        raise InvalidInput(
            f"the URL of the database can't be read ({str(error).partition(' as ')[0]}). Nothing was opened.",
            fix="Write LEASEHOLD_URL as postgresql://user:password@host:port/database, with what is special in it "
            "percent-encoded.",
        ) from error


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
        self._connection: asyncpg.Connection[asyncpg.Record] | None = None

    async def fetch(self, name: str, /, **values: Any) -> list[asyncpg.Record]:
        async with self.session() as connection:
            return await self._database.fetch_on(connection, name, **values)

    @asynccontextmanager
    async def session(self) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
        async with self._turn:
            with self._database.translated():
                if self._connection is not None and self._connection.is_closed():
                    self._connection = None
                    if self._tells_of_loss:
                        raise asyncpg.ConnectionDoesNotExistError("the connection was lost")
                if self._connection is None:
                    self._connection = await self._database.connect(**self._settings)
                connection = self._connection
                try:
                    yield connection
                except BaseException as error:
                    # Broken, or a statement is under way whose answer may never come. Whoever used it knows by this.
                    if isinstance(error, asyncio.CancelledError | _BROKEN) or connection.is_closed():
                        connection.terminate()
                        self._connection = None
                    raise

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
        """Like connection.transaction(), but who gives up sends no ROLLBACK to a server that may never answer."""
        async with self.session() as connection:
            transaction = connection.transaction()
            await transaction.start()
            try:
                yield connection
            except (asyncio.CancelledError, TimeoutError):
                connection.terminate()
                raise
            except BaseException:
                await transaction.rollback()
                raise
            await transaction.commit()

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
