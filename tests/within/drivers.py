"""Every driver that a caller's transaction may come from, as one thing that tests can begin, commit and roll back.

Those that block do so in a thread of their own, as in an app: the loop of the test goes on.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, ClassVar, TypeVar

import asyncpg
import psycopg
from django.conf import settings as django_settings
from django.db.utils import ConnectionHandler
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlalchemy.pool import NullPool

import django
from leasehold import Emitted, Enqueued, NewJob, Tenant

T = TypeVar("T")


def failing(job: NewJob, at: int) -> Iterator[NewJob]:
    yield from [job] * at
    raise LookupError(at)


class Driver(ABC):
    """`passed` is what a user hands to `within(…)`."""

    name: ClassVar[str]
    blocking: ClassVar[bool] = False
    passed: Any

    def __init__(self, url: str) -> None:
        self.url = url

    @abstractmethod
    async def open(self, *, autocommit: bool = False) -> None: ...

    @abstractmethod
    async def close(self) -> None: ...

    @abstractmethod
    async def begin(self) -> None:
        """Where the driver does not begin by itself."""

    @abstractmethod
    async def commit(self) -> None: ...

    @abstractmethod
    async def rollback(self) -> None: ...

    @abstractmethod
    async def execute(self, statement: str) -> None: ...

    async def enqueue(self, handle: Tenant, *jobs: NewJob, **how: Any) -> list[Enqueued[Any]]:
        return list(await handle.within(self.passed, **how).aenqueue_many(jobs))

    async def emit(self, handle: Tenant, name: str, data: dict[str, Any]) -> Emitted:
        return await handle.within(self.passed).aemit(name, data)

    async def enqueue_until(self, handle: Tenant, job: NewJob, *, fails_at: int, chunk: int) -> None:
        await handle.within(self.passed, atomic=False).aenqueue_many(failing(job, fails_at), chunk=chunk)


class Asyncpg(Driver):
    name = "asyncpg"

    async def open(self, *, autocommit: bool = False) -> None:
        self.passed = await asyncpg.connect(self.url)

    async def close(self) -> None:
        await self.passed.close()

    async def begin(self) -> None:
        self._transaction = self.passed.transaction()
        await self._transaction.start()

    async def commit(self) -> None:
        await self._transaction.commit()

    async def rollback(self) -> None:
        await self._transaction.rollback()

    async def execute(self, statement: str) -> None:
        await self.passed.execute(statement)


class AsyncpgPool(Asyncpg):
    name = "asyncpg of a pool"

    async def open(self, *, autocommit: bool = False) -> None:
        self._pool = await asyncpg.create_pool(self.url, min_size=0, max_size=1)
        self.passed = await self._pool.acquire()

    async def close(self) -> None:
        await self._pool.release(self.passed)
        await self._pool.close()


class AsyncPsycopg(Driver):
    name = "psycopg async"

    async def open(self, *, autocommit: bool = False) -> None:
        self.passed = await psycopg.AsyncConnection.connect(self.url, autocommit=autocommit)

    async def close(self) -> None:
        await self.passed.close()

    async def begin(self) -> None:
        pass

    async def commit(self) -> None:
        await self.passed.commit()

    async def rollback(self) -> None:
        await self.passed.rollback()

    async def execute(self, statement: str) -> None:
        await self.passed.execute(statement)


class _AsyncAlchemy(Driver):
    dialect: ClassVar[str]
    passed: AsyncSession | AsyncConnection

    async def open(self, *, autocommit: bool = False) -> None:
        connect: Callable[[], Awaitable[Any]] = partial(asyncpg.connect, self.url)
        if self.dialect == "psycopg":
            connect = partial(psycopg.AsyncConnection.connect, self.url)
        level: Any = {"isolation_level": "AUTOCOMMIT"} if autocommit else {}
        self._engine = create_async_engine(
            f"postgresql+{self.dialect}://", async_creator=connect, poolclass=NullPool, **level
        )
        await self._make()

    @abstractmethod
    async def _make(self) -> None: ...

    async def close(self) -> None:
        await self.passed.close()
        await self._engine.dispose()

    async def begin(self) -> None:
        pass

    async def commit(self) -> None:
        await self.passed.commit()

    async def rollback(self) -> None:
        await self.passed.rollback()

    async def execute(self, statement: str) -> None:
        await self.passed.execute(text(statement))


class _AsyncAlchemySession(_AsyncAlchemy):
    async def _make(self) -> None:
        self.passed = AsyncSession(self._engine)


class _AsyncAlchemyConnection(_AsyncAlchemy):
    async def _make(self) -> None:
        self.passed = await self._engine.connect()


class AlchemySessionAsyncpg(_AsyncAlchemySession):
    name = "AsyncSession on asyncpg"
    dialect = "asyncpg"


class AlchemySessionPsycopg(_AsyncAlchemySession):
    name = "AsyncSession on psycopg"
    dialect = "psycopg"


class AlchemyConnectionAsyncpg(_AsyncAlchemyConnection):
    name = "AsyncConnection on asyncpg"
    dialect = "asyncpg"


class AlchemyConnectionPsycopg(_AsyncAlchemyConnection):
    name = "AsyncConnection on psycopg"
    dialect = "psycopg"


class _Blocking(Driver):
    blocking = True

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._thread = ThreadPoolExecutor(max_workers=1)

    async def call(self, call: Callable[..., T], *arguments: Any, **named: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, partial(call, *arguments, **named))

    async def open(self, *, autocommit: bool = False) -> None:
        await self.call(self._open, autocommit)

    @abstractmethod
    def _open(self, autocommit: bool) -> None: ...

    async def close(self) -> None:
        await self.call(self._close)
        self._thread.shutdown()

    def _close(self) -> None:
        self.passed.close()

    async def begin(self) -> None:
        pass

    async def commit(self) -> None:
        await self.call(self.passed.commit)

    async def rollback(self) -> None:
        await self.call(self.passed.rollback)

    async def execute(self, statement: str) -> None:
        await self.call(self._execute, statement)

    @abstractmethod
    def _execute(self, statement: str) -> None: ...

    async def enqueue(self, handle: Tenant, *jobs: NewJob, **how: Any) -> list[Enqueued[Any]]:
        return list(await self.call(self._enqueue, handle, jobs, how))

    def _enqueue(self, handle: Tenant, jobs: tuple[NewJob, ...], how: dict[str, Any]) -> list[Enqueued[Any]]:
        return list(handle.within(self.passed, **how).enqueue_many(jobs))

    async def emit(self, handle: Tenant, name: str, data: dict[str, Any]) -> Emitted:
        return await self.call(lambda: handle.within(self.passed).emit(name, data))

    async def enqueue_until(self, handle: Tenant, job: NewJob, *, fails_at: int, chunk: int) -> None:
        await self.call(handle.within(self.passed, atomic=False).enqueue_many, failing(job, fails_at), chunk=chunk)


class Psycopg(_Blocking):
    name = "psycopg"

    def _open(self, autocommit: bool) -> None:
        self.passed = psycopg.connect(self.url, autocommit=autocommit)

    def _execute(self, statement: str) -> None:
        self.passed.execute(statement)


class _Alchemy(_Blocking):
    def _open(self, autocommit: bool) -> None:
        connect = partial(psycopg.connect, self.url)
        level: Any = {"isolation_level": "AUTOCOMMIT"} if autocommit else {}
        self._engine = create_engine("postgresql+psycopg://", creator=connect, poolclass=NullPool, **level)
        self._make()

    @abstractmethod
    def _make(self) -> None: ...

    def _close(self) -> None:
        self.passed.close()
        self._engine.dispose()

    def _execute(self, statement: str) -> None:
        self.passed.execute(text(statement))


class AlchemySession(_Alchemy):
    name = "Session"

    def _make(self) -> None:
        self.passed = Session(self._engine)


class AlchemyScopedSession(_Alchemy):
    name = "scoped_session"

    def _make(self) -> None:
        self.passed = scoped_session(sessionmaker(self._engine))


class AlchemyConnection(_Alchemy):
    name = "Connection"

    def _make(self) -> None:
        self.passed = self._engine.connect()


class Django(_Blocking):
    name = "Django"

    def _open(self, autocommit: bool) -> None:
        if not django_settings.configured:
            django_settings.configure(USE_TZ=True)
            django.setup()
        given = conninfo_to_dict(self.url)
        names = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}
        database: dict[str, Any] = {names[key]: value for key, value in given.items() if key in names}
        database["ENGINE"] = "django.db.backends.postgresql"
        self.passed = ConnectionHandler({"default": database})["default"]

    async def begin(self) -> None:
        await self.call(self.passed.set_autocommit, False)

    def _execute(self, statement: str) -> None:
        with self.passed.cursor() as cursor:
            cursor.execute(statement)


DRIVERS: tuple[type[Driver], ...] = (
    Asyncpg,
    AsyncpgPool,
    AsyncPsycopg,
    AlchemySessionAsyncpg,
    AlchemySessionPsycopg,
    AlchemyConnectionAsyncpg,
    AlchemyConnectionPsycopg,
    Psycopg,
    AlchemySession,
    AlchemyScopedSession,
    AlchemyConnection,
    Django,
)
