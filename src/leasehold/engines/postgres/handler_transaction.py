"""Transactions that handlers write in, and the worker ends: on a connection of ours or of the handler's."""

import asyncio
from typing import TYPE_CHECKING, Any

import asyncpg
import orjson

from leasehold.engines.postgres.database import Database
from leasehold.engines.postgres.drivers import transaction_driver
from leasehold.engines.postgres.drivers.asyncpg import AsyncpgTransaction
from leasehold.engines.postgres.drivers.base import TransactionDriver, then
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
) -> "HandlerTransaction":
    driver = LentTransaction(lent) if given is None else transaction_driver(given)
    return HandlerTransaction(database, claim, driver, given)


class HandlerTransaction:
    """`begin`, then `finish` and `commit`, or `rollback`. Whichever comes last also gives the connection back."""

    def __init__(self, database: Database, claim: Claim, driver: TransactionDriver, given: object | None) -> None:
        self._database = database
        self._given = given
        self._claim = claim
        self._driver = driver
        self._mark = f"{claim.worker}/{claim.batch}/{claim.job}/{claim.attempt}"
        self.blocking = driver.blocking

    @property
    def connection(self) -> Any:
        return self._driver.connection if self._given is None else self._given

    def begin(self) -> Any:
        """On a connection of ours within the time of a statement: its server may be gone without a word."""
        begun = then(self._driver.begin(), lambda _: self._marked())
        return self._database.in_time(begun) if isinstance(self._driver, LentTransaction) else begun

    def finish(self, result: str | None) -> Any:
        asked = self._driver.flush()
        return then(asked, lambda _: then(self._ask("finish", self._verdict(result)), FinishAnswer))

    def commit(self) -> Any:
        return self._driver.commit()

    def rollback(self) -> Any:
        return self._driver.rollback()

    def abandon(self) -> None:
        self._driver.abandon()

    def _marked(self) -> Any:
        """Where each statement commits by itself the mark is gone at once: then so would be every promise."""
        asked = self._ask("mark", self._mark)
        return then(asked, lambda _: then(self._ask("marked", None), self._require_mark))

    def _require_mark(self, mark: str | None) -> None:
        if mark != self._mark:
            raise InvalidInput(
                "job.transaction() got a connection in autocommit: each statement is a transaction of its own there. "
                "Nothing was written.",
                fix="Hand one over that is not in autocommit.",
            )

    def _ask(self, name: str, value: str | None) -> Any:
        return self._driver.ask(self._database.statement(f"effects/{name}").text, value)

    def _verdict(self, result: str | None) -> str:
        claim = self._claim
        keep = claim.definition.retention.keep(Status.SUCCEEDED)
        verdict: dict[str, Any] = {
            "mark": self._mark,
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


class LentConnections:
    """Connections of ours for handlers: nothing is set on them, and what a handler sets is reset before the next."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None
        self._opening = asyncio.Lock()

    async def acquire(self) -> "PoolConnectionProxy[asyncpg.Record]":
        with self._database.translated():
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


class LentTransaction(AsyncpgTransaction):
    """A transaction on a connection of ours, which is lent for as long as the transaction lasts."""

    def __init__(self, lent: LentConnections) -> None:
        super().__init__(None)
        self._lent = lent

    async def begin(self) -> None:
        self.connection = await self._lent.acquire()
        await super().begin()

    async def _close(self) -> None:
        connection, self.connection = self.connection, None
        if connection is not None:
            await self._lent.release(connection)
