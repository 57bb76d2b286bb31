"""Transactions that handlers write in, and the worker ends: on a connection of ours or of the handler's."""

import asyncio
from typing import TYPE_CHECKING, Any, Literal

import asyncpg
import orjson

from leasehold.engines.postgres.database import Database
from leasehold.engines.postgres.drivers import transaction_driver
from leasehold.engines.postgres.drivers.asyncpg import AsyncpgDriver
from leasehold.engines.postgres.drivers.base import AsyncDriver, BlockingDriver
from leasehold.errors import InvalidInput
from leasehold.model.job import Claim
from leasehold.model.status import Status
from leasehold.store import FinishAnswer

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

POOL_SIZE = 100
IDLE = 60.0


def handler_transaction(
    database: Database, lent: "LentConnections", claim: Claim, given: object | None
) -> "BlockingHandlerTransaction | AsyncHandlerTransaction":
    if given is None:
        return LentHandlerTransaction(database, claim, LentDriver(lent))
    driver = transaction_driver(given)
    if isinstance(driver, BlockingDriver):
        return BlockingHandlerTransaction(database, claim, driver, given)
    return AsyncHandlerTransaction(database, claim, driver, given)


class _Statements:
    """The statements for one claim: they mark its transaction, and finish the claim in it."""

    def __init__(self, database: Database, claim: Claim) -> None:
        self._database = database
        self._claim = claim
        self.mark = f"{claim.worker}/{claim.batch}/{claim.job}/{claim.attempt}"

    def text(self, name: str) -> str:
        return self._database.statement(f"effects/{name}").text

    def require_mark(self, mark: str | None) -> None:
        """Raises InvalidInput if the mark is gone: in autocommit it ended with the statement that set it."""
        if mark != self.mark:
            raise InvalidInput(
                "job.transaction() got a connection in autocommit: each statement is a transaction of its own there. "
                "Nothing was written.",
                fix="Hand one over that is not in autocommit.",
            )

    def verdict(self, result: str | None) -> str:
        claim = self._claim
        keep = claim.definition.retention.keep(Status.SUCCEEDED)
        verdict: dict[str, Any] = {
            "mark": self.mark,
            "tenant": claim.tenant,
            "job": claim.job,
            "attempt": claim.attempt,
            "worker": claim.worker,
            "batch": claim.batch,
            "keep": None if keep is None else keep.total_seconds(),
        }
        if result is not None:
            verdict["result"] = orjson.Fragment(result)
        return orjson.dumps(verdict).decode()


class BlockingHandlerTransaction:
    """Begins, then finishes and commits, or rolls back, in the handler's thread. The last step also closes."""

    blocking: Literal[True] = True

    def __init__(self, database: Database, claim: Claim, driver: BlockingDriver, given: object) -> None:
        self._statements = _Statements(database, claim)
        self._driver = driver
        self.connection: Any = given

    def begin(self) -> None:
        self._driver.begin()
        self._driver.ask(self._statements.text("mark"), self._statements.mark)
        self._statements.require_mark(self._driver.ask(self._statements.text("marked"), None))

    def finish(self, result: str | None) -> FinishAnswer:
        self._driver.flush()
        return FinishAnswer(self._driver.ask(self._statements.text("finish"), self._statements.verdict(result)))

    def commit(self) -> None:
        self._driver.commit()

    def rollback(self) -> None:
        self._driver.rollback()

    def abandon(self) -> None:
        self._driver.abandon()


class AsyncHandlerTransaction:
    """Begins, then finishes and commits, or rolls back, on the handler's loop. The last step also closes."""

    blocking: Literal[False] = False

    def __init__(self, database: Database, claim: Claim, driver: AsyncDriver, given: object | None) -> None:
        self._database = database
        self._statements = _Statements(database, claim)
        self._driver = driver
        self._given = given

    @property
    def connection(self) -> Any:
        return self._given

    async def begin(self) -> None:
        await self._driver.begin()
        await self._driver.ask(self._statements.text("mark"), self._statements.mark)
        self._statements.require_mark(await self._driver.ask(self._statements.text("marked"), None))

    async def finish(self, result: str | None) -> FinishAnswer:
        await self._driver.flush()
        answer = await self._driver.ask(self._statements.text("finish"), self._statements.verdict(result))
        return FinishAnswer(answer)

    async def commit(self) -> None:
        await self._driver.commit()

    async def rollback(self) -> None:
        await self._driver.rollback()

    def abandon(self) -> None:
        self._driver.abandon()


class LentHandlerTransaction(AsyncHandlerTransaction):
    """A handler's transaction on a connection of ours."""

    def __init__(self, database: Database, claim: Claim, driver: "LentDriver") -> None:
        super().__init__(database, claim, driver, None)

    @property
    def connection(self) -> Any:
        return self._driver.connection

    async def begin(self) -> None:
        """Begins within the time limit of a statement: the server may be gone without a word."""
        await self._database.in_time(super().begin())


class LentConnections:
    """Connections of ours for handlers. Nothing is set on them; settings of one handler are reset before the next."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None
        self._opening = asyncio.Lock()

    async def acquire(self) -> "PoolConnectionProxy[asyncpg.Record]":
        with self._database.translate_errors():
            async with self._opening:
                if self._pool is None:
                    self._pool = await self._database.make_pool(
                        max_size=POOL_SIZE, max_inactive_connection_lifetime=IDLE
                    )
            return await self._pool.acquire()

    async def release(self, connection: "PoolConnectionProxy[asyncpg.Record]") -> None:
        pool = self._pool
        if pool is not None:
            await pool.release(connection)

    async def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            await self._database.close_pool(pool)


class LentDriver(AsyncpgDriver):
    """A connection of ours, lent for as long as the transaction lasts."""

    def __init__(self, lent: LentConnections) -> None:
        super().__init__(None)
        self._lent = lent

    async def begin(self) -> None:
        self.connection = await self._lent.acquire()
        await super().begin()

    async def close(self) -> None:
        connection, self.connection = self.connection, None
        if connection is not None:
            await self._lent.release(connection)
