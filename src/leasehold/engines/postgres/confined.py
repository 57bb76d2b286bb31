"""The database as the handle of one tenant uses it, and the same in transactions of a role that sees one tenant.

Row-level security stands beside the tenant in each statement: a statement that forgot its tenant, or has another one,
finds no row of others and writes none. The role and the tenant are set for one transaction, so that a connection that
goes back to the pool, or a session behind a pooler, carries neither to the next caller.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

import asyncpg

from leasehold.engines.postgres.connections import OwnConnection, Transaction
from leasehold.engines.postgres.database import Database
from leasehold.engines.postgres.errors import ErrorTranslator
from leasehold.engines.postgres.grants import quote_literal
from leasehold.engines.postgres.pool import Loan
from leasehold.engines.postgres.statements import Statement
from leasehold.errors import InvalidInput

if TYPE_CHECKING:
    from leasehold.engines.postgres.database import Connection
    from leasehold.engines.postgres.pool import Session

# Statements that call a function of the owner. No policy holds there, so these call one that checks the tenant.
_CHECKED = {
    "tenant/enqueue_jobs": "own/enqueue_jobs",
    "events/write": "own/write",
    "events/place": "own/place",
}
# Statements by error group. Its function is not leakproof, so for a role under policies no index would serve it:
# these keep the rights of the login, and are refused for another tenant (docs/decisions/0044).
_OF_THE_LOGIN = ("tenant/error_groups", "tenant/find_in_error_group", "tenant/look_in_error_group")


class TenantDatabase(Protocol):
    """A database as a tenant's handle uses it: `Database` is one, and `ConfinedDatabase` another."""

    @property
    def schema(self) -> str: ...
    @property
    def long_loans(self) -> asyncio.Semaphore: ...

    def statement(self, name: str) -> Statement: ...
    async def fetch(self, name: str, /, **values: Any) -> list[asyncpg.Record]: ...
    async def fetch_on(self, connection: "Connection", name: str, /, **values: Any) -> list[asyncpg.Record]: ...
    def connection(self) -> "AbstractAsyncContextManager[Session]": ...
    def transaction(self, connection: "Connection") -> AbstractAsyncContextManager[None]: ...
    def translate_errors(self) -> ErrorTranslator: ...


class TenantDatabases:
    """Hands out the database for a tenant: a confined one if the store has a `role` for it, else the whole one."""

    def __init__(self, whole: Database, role: str | None = None) -> None:
        self.whole = whole
        self._role = role

    def of(self, tenant: str) -> TenantDatabase:
        return self.whole if self._role is None else ConfinedDatabase(self.whole, self._role, tenant)

    def confining(
        self, tenant: str, connection: "Session", *, by_group: bool = False
    ) -> AbstractAsyncContextManager[None]:
        """Confines a connection that was lent elsewhere to a tenant, for the length of an `async with` block.

        With `by_group`, for a statement by error group: it keeps the rights of the login.
        """
        found = self.of(tenant)
        return found.confine(connection, by_group) if isinstance(found, ConfinedDatabase) else nullcontext()

    def of_one_or_all(self, tenant: str | None) -> TenantDatabase:
        """Returns the database for a call about one tenant, or about all."""
        return self.whole if tenant is None else self.of(tenant)


class ConfinedDatabase:
    """Sends each statement in a transaction of one tenant. A connection is lent with its transaction open."""

    def __init__(self, database: Database, role: str, tenant: str) -> None:
        self._database = database
        self._tenant = tenant
        self._name = database.statement("session/name_tenant").fill_in({"tenant": quote_literal(tenant)})
        enter = database.statement("session/enter_tenant")
        self._enter = enter.fill_in({"role": quote_literal(role), "tenant": quote_literal(tenant)})

    @property
    def schema(self) -> str:
        return self._database.schema

    @property
    def long_loans(self) -> asyncio.Semaphore:
        return self._database.long_loans

    def statement(self, name: str) -> Statement:
        """Returns the statement as a caller's own connection sends it."""
        return self._database.statement(name)

    async def fetch(self, name: str, /, **values: Any) -> list[asyncpg.Record]:
        name = _CHECKED.get(name, name)
        with self.translate_errors():
            async with self._lend(self._first_of(name, values)) as connection:
                return await self._database.fetch_planned_on(connection, name, **values)

    async def fetch_on(self, connection: "Connection", name: str, /, **values: Any) -> list[asyncpg.Record]:
        return await self._database.fetch_on(connection, _CHECKED.get(name, name), **values)

    def connection(self) -> "AbstractAsyncContextManager[Session]":
        """Lends a connection in a transaction of the tenant; within `together`, in that transaction."""
        return self._lend(self._enter)

    def _first_of(self, name: str, values: Mapping[str, Any]) -> str:
        """Returns the statement that a transaction of this one begins with."""
        if name not in _OF_THE_LOGIN:
            return self._enter
        if values["tenant"] != self._tenant:
            raise InvalidInput(
                f"the statement {name} names another tenant than {self._tenant!r}, for which it was asked. "
                "Nothing was read.",
                fix="This is a fault of Leasehold: please report it.",
            )
        return self._name

    def _lend(self, first: str) -> "AbstractAsyncContextManager[Session]":
        if (shared := self._database.shared_connection()) is not None:
            return self._within(shared, first)
        return ConfinedLoan(self._database.loan(), first)

    @asynccontextmanager
    async def _within(self, connection: "Session", first: str) -> "AsyncIterator[Session]":
        """Confines a part of a transaction. An error ends the whole transaction, and with it the role."""
        ((before,),) = await self._database.fetch_on(connection, "session/role")
        await connection.execute(first)
        yield connection
        await self._database.fetch_on(connection, "session/leave_tenant", role=before)

    @asynccontextmanager
    async def confine(self, connection: "Session", by_group: bool = False) -> "AsyncIterator[None]":
        """Gives a connection of the caller's a transaction of the tenant."""
        assert isinstance(connection, OwnConnection)
        async with Transaction(connection, self._name if by_group else self._enter):
            yield

    def transaction(self, connection: "Connection") -> AbstractAsyncContextManager[None]:
        """Returns an empty one: the connection's transaction ends when the connection goes back."""
        return nullcontext()

    def translate_errors(self) -> ErrorTranslator:
        return self._database.translate_errors()


class ConfinedLoan:
    """A connection and a transaction of a tenant on it, for the length of an `async with` block."""

    __slots__ = ("_enter", "_loan", "_transaction")

    def __init__(self, loan: Loan, enter: str) -> None:
        self._loan = loan
        self._enter = enter

    async def __aenter__(self) -> "Session":
        connection = await self._loan.__aenter__()
        assert isinstance(connection, OwnConnection)
        self._transaction = Transaction(connection, self._enter)
        try:
            await self._transaction.__aenter__()
        except BaseException:
            await self._loan.__aexit__(*sys.exc_info())
            raise
        return connection

    async def __aexit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._transaction.__aexit__(kind, failure, trace)
        except BaseException:
            await self._loan.__aexit__(*sys.exc_info())
            raise
        await self._loan.__aexit__(kind, failure, trace)


async def require_confining(database: Database, role: str) -> None:
    """Raises InvalidInput unless policies hold for the role in every table that has a tenant."""
    if why := [row["why"] for row in await database.fetch("session/unconfined", role=role)]:
        raise InvalidInput(
            f"the role {role!r} can't confine tenants: {'; '.join(why[:5])}. Nothing was opened.",
            fix="Let the owner of the schema run what `leasehold grants` prints, and name its role of tenants as "
            "tenant_role in LEASEHOLD_URL. See docs/how-to/roles.md.",
        )
