"""Database roles with few rights, as `leasehold grants` makes them, in a schema of their own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import quote, urlsplit
from uuid import uuid4

import asyncpg
from tests.cli.terminal import Answer, run
from tests.conftest import Raw

from leasehold import Leasehold
from leasehold.engine import RoleNames
from leasehold.engines import engine_for

SCHEMA = "rented"
PARTS = ("migrator", "worker", "server", "producer", "reader", "tenant")


@dataclass(frozen=True)
class Roles:
    """The roles of one test, and the way to its database for each of them."""

    names: RoleNames
    database_url: str
    superuser: Raw

    def url(self, part: str) -> str:
        parts = urlsplit(self.database_url)
        host = parts.netloc.rpartition("@")[2]
        return parts._replace(netloc=f"{quote(self.names.by_part()[part])}:secret@{host}").geturl()

    def quoted(self, part: str) -> str:
        return '"' + self.names.by_part()[part].replace('"', '""') + '"'

    def app(self, part: str) -> Leasehold:
        return Leasehold(self.url(part), schema=SCHEMA)

    @asynccontextmanager
    async def connection(self, part: str) -> AsyncIterator[Raw]:
        connection: Raw = await asyncpg.connect(self.url(part))
        try:
            yield connection
        finally:
            await connection.close(timeout=5)

    async def grant(self) -> None:
        async with self.connection("migrator") as owner:
            await owner.execute(engine_for(self.url("migrator"), SCHEMA).scripts().grants(self.names))

    async def command(self, part: str, *words: str) -> Answer:
        return await asyncio.to_thread(run, [*words, "--url", self.url(part), "--schema", SCHEMA])


@asynccontextmanager
async def granted_roles(database_url: str, superuser: Raw) -> AsyncIterator[Roles]:
    """Creates roles whose names need quotes, migrates as one of them, and grants; drops all of it afterwards."""
    unique = uuid4().hex[:8]
    names = RoleNames.of(SCHEMA, **{part: f"{part} '\"\\{unique}" for part in PARTS})
    made = Roles(names, database_url, superuser)
    quoted = [made.quoted(part) for part in PARTS]
    await superuser.execute(engine_for(database_url, SCHEMA).scripts().create_roles(names))
    try:
        for name in quoted:
            await superuser.execute(f"alter role {name} login password 'secret'")
        await engine_for(made.url("migrator"), SCHEMA).prepare()
        await made.grant()
        yield made
    finally:
        everyone = ", ".join(quoted)
        await superuser.execute(f"drop owned by {everyone} cascade; drop role {everyone}")
