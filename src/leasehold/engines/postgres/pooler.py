"""Opens connections, and finds out whether a pooler in transaction mode stands between.

A pooler gives each transaction another session. Behind one, nothing is set in a session, no prepared statement is
kept, and each statement is sent in a transaction of its own.
"""

import asyncio
from collections.abc import Mapping

import asyncpg

from leasehold.engines.postgres.connections import (
    DIRECT_SESSION,
    FIRST_WITH_TRANSACTION_TIMEOUT,
    OwnConnection,
    close_connection,
    milliseconds,
    options_for,
)
from leasehold.engines.postgres.statements import Statement


class ConnectionOpener:
    """Opens connections to one URL. `pooled` is certain once the first connection is open (`is_certain`)."""

    def __init__(self, url: str, statements: Mapping[str, Statement]) -> None:
        self._url = url
        self._statements = statements
        self._settings = DIRECT_SESSION
        self._turn = asyncio.Lock()
        self.pooled = False
        self.is_certain = False

    async def open(self, limit: float | None, settings: Mapping[str, str]) -> OwnConnection:
        """Opens a connection whose statements may take `limit` seconds each; None: as long as they like."""
        if self.is_certain:
            return await self._open(limit, settings)
        async with self._turn:
            connection = await self._open(limit, settings)
            if not self.is_certain and not self.pooled and not await self._is_direct(connection):
                self.pooled = True
                await close_connection(connection)
                connection = await self._open(limit, settings)
            self.is_certain = True
            return connection

    async def _open(self, limit: float | None, settings: Mapping[str, str]) -> OwnConnection:
        """Opens one connection. A pooler may refuse settings that it would have to carry from session to session."""
        if not self.pooled:
            try:
                return await self._connect(limit, {**self._settings, **settings})
            except asyncpg.ProtocolViolationError:
                self.pooled = True
        connection = await self._connect(limit, {})
        connection.begin = self._begin_within(limit)
        return connection

    async def _connect(self, limit: float | None, settings: Mapping[str, str]) -> OwnConnection:
        options = options_for(self._url, settings, pooled=self.pooled, limit=limit)
        connection = await asyncpg.connect(self._url, **options)
        assert isinstance(connection, OwnConnection)
        return connection

    async def _is_direct(self, connection: OwnConnection) -> bool:
        """Returns whether we speak to the session that we opened. Some poolers accept any settings and drop them.

        Asks in one message, without a prepared statement, since it may be a pooler. A pooler has its own process ids.
        """
        pid = {"pid": str(connection.get_server_pid())}
        lift = self._statements["session/without_transaction_timeout"]
        ask = self._statements["session/is_direct"]
        try:
            is_direct = await connection.execute(f"{lift.fill_in(pid)};{ask.fill_in(pid)}") == "SELECT 1"
        except BaseException:
            connection.terminate()
            raise
        if is_direct and connection.get_server_version().major >= FIRST_WITH_TRANSACTION_TIMEOUT:
            self._settings = DIRECT_SESSION | {"transaction_timeout": "0"}
        return is_direct

    def _begin_within(self, limit: float | None) -> str:
        limits = self._statements["session/limits"].fill_in({"milliseconds": str(milliseconds(limit))})
        return f"{self._statements['session/begin'].text};{limits}"
