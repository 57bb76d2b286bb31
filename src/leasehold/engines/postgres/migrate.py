"""Forward-only migrations, under a lock. The release before keeps working on the new schema."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import TYPE_CHECKING

from leasehold.engines.postgres.database import Database, closed
from leasehold.engines.postgres.sql import Statement, render
from leasehold.engines.report import MigrationStep, Standing

if TYPE_CHECKING:
    from leasehold.engines.postgres.database import Connection

_FILE = re.compile(r"(\d{4})_(\w+)\.sql")
_NEEDS = re.compile(r"^-- needs: (\d{4})$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Migration:
    version: int
    name: str
    needs: int
    text: str = field(repr=False)

    @property
    def title(self) -> str:
        return f"{self.version:04d}_{self.name}"


def migrations(schema: str) -> Sequence[Migration]:
    found = []
    for file in (files(__package__) / "migrations").iterdir():
        if match := _FILE.fullmatch(file.name):
            version, text = int(match[1]), file.read_text()
            needs = _NEEDS.search(text)
            found.append(Migration(version, match[2], int(needs[1]) if needs else version, render(text, schema)))
    return sorted(found, key=lambda migration: migration.version)


async def standing(url: str, schema: str = "leasehold") -> Standing:
    return await standing_of(Database(url, schema))


async def standing_of(database: Database) -> Standing:
    connection = await database.connect()
    try:
        with database.translated():
            return await _standing(database, connection)
    finally:
        await closed(connection)


async def migrate(url: str, schema: str = "leasehold") -> list[Migration]:
    """Applies what is missing, each in a transaction of its own, and returns it. Safe to call from many at once."""
    database = Database(url, schema)
    connection = await database.connect()
    try:
        async with connection.transaction():
            await connection.execute(_opening(database))
        known = migrations(database.schema)
        return [migration for migration in known if await _applied(database, connection, migration)]
    finally:
        await closed(connection)


def script(schema: str = "leasehold") -> str:
    """All of it as one SQL script, for those who apply migrations by their own tools, to an empty database."""
    each = [step.script.rstrip() for step in steps(schema)]
    return "\n\n".join(["begin;", _opening(Database("", schema)), *each, "commit;"]) + "\n"


def steps(schema: str = "leasehold") -> list[MigrationStep]:
    """Each by itself, for tools that keep a ledger of their own beside ours."""
    database = Database("", schema)
    record, applied = database.statement("ledger/record"), database.statement("ledger/applied")
    found = []
    for migration in migrations(schema):
        values = {"version": str(migration.version), "name": f"'{migration.name}'", "needs": str(migration.needs)}
        found.append(
            MigrationStep(
                opening=_opening(database),
                applied=_written(applied, {"version": values["version"]}),
                script=f"{migration.text.rstrip()}\n\n{_written(record, values)};\n",
            )
        )
    return found


def _opening(database: Database) -> str:
    """What comes before any migration, and changes nothing when it was done before."""
    parts = [database.statement(f"ledger/{name}").text for name in ("lock", "create_schema", "create")]
    return "\n\n".join(f"{part.removesuffix(';')};" for part in parts)


def _written(statement: Statement, values: Mapping[str, str]) -> str:
    """The statement with its values written out."""
    text = statement.text
    for number, value in enumerate(statement.arguments(values), 1):
        text = text.replace(f"${number}", value)
    return text


async def _applied(database: Database, connection: "Connection", migration: Migration) -> bool:
    async with connection.transaction():
        await database.fetch_on(connection, "ledger/lock")
        if migration.version <= (await _standing(database, connection)).version:
            return False
        await connection.execute(migration.text)
        await database.fetch_on(
            connection, "ledger/record", version=migration.version, name=migration.name, needs=migration.needs
        )
        return True


async def _standing(database: Database, connection: "Connection") -> Standing:
    known = migrations(database.schema)[-1].version
    ((exists,),) = await database.fetch_on(connection, "ledger/exists")
    newest = await database.fetch_on(connection, "ledger/standing") if exists else []
    version, needs = newest[0] if newest else (0, 0)
    return Standing(database.schema, version, needs, known)
