"""A Postgres store that a test puts together itself, so that it has the parts in hand: database, links and clock.

store = await open_parts(url)
store.database.texts["fleet/finish"] = ...   replaces the text of one statement, in this store alone
store.links.claim.after = ...                is awaited with the name of each statement of the claiming link
store.monotonic = lambda: 1000.0             the clock by which the store measures and waits
"""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import asyncpg
from tests.store.bench import EngineUnderTest

from leasehold.engines import engine_for
from leasehold.engines.postgres import migrate
from leasehold.engines.postgres.database import ONE_PLAN, STATEMENT_TIMEOUT, Database, Link
from leasehold.engines.postgres.links import Links
from leasehold.engines.postgres.statements import Statement
from leasehold.engines.postgres.store import PostgresStore
from leasehold.engines.postgres.test_databases import DatabaseClock
from leasehold.store import Store


async def _go_on(_statement: str) -> None: ...


class SteppedLink(Link):
    """Awaits `after` with the name of each statement that has just been answered."""

    after: Callable[[str], Awaitable[object]] = staticmethod(_go_on)

    async def fetch(self, name: str, /, **values: Any) -> list[asyncpg.Record]:
        answer = await super().fetch(name, **values)
        await self.after(name)
        return answer


@dataclass
class SteppedLinks(Links):
    claim: SteppedLink

    @classmethod
    def of(cls, database: Database) -> "SteppedLinks":
        links = Links.of(database)
        claim = SteppedLink(database, ONE_PLAN | {"synchronous_commit": "off"}, tells_of_loss=True)
        return cls(claim, links.finish, links.heartbeat, links.upkeep)


class ReplacedStatements(Database):
    """A database some of whose statements have another text: `texts`, by name."""

    def __init__(self, url: str, schema: str = "leasehold", **options: Any) -> None:
        super().__init__(url, schema, **options)
        self.texts: dict[str, str] = {}

    def statement(self, name: str) -> Statement:
        statement = super().statement(name)
        return replace(statement, text=self.texts[name]) if name in self.texts else statement


class StoreInParts(PostgresStore):
    def __init__(self, database: ReplacedStatements) -> None:
        self.database = database
        self.links = SteppedLinks.of(database)
        self.monotonic: Callable[[], float] = time.monotonic
        super().__init__(database, links=self.links, monotonic=lambda: self.monotonic())


async def open_parts(url: str, statement_timeout: timedelta | None = None) -> StoreInParts:
    """Opens a store as PostgresEngine does."""
    limit = STATEMENT_TIMEOUT if statement_timeout is None else statement_timeout.total_seconds()
    database = ReplacedStatements(url, statement_timeout=limit)
    try:
        (await migrate.status_in_pool(database)).require_usable()
    except BaseException:
        await database.close()
        raise
    return StoreInParts(database)


def engine_on(store: Store, url: str, clock: DatabaseClock) -> EngineUnderTest:
    """A store on Postgres, and further ones on the same URL."""

    async def open_again() -> Store:
        return await engine_for(url).open()

    return EngineUnderTest(store, open_again, clock.move)
