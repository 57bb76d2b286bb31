"""The engine of one database: opens stores, migrates, examines, joins callers' transactions, serves tests.

`leasehold.engines.engine_for(url)` makes one. Everything above this module knows engines by this Protocol only.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Protocol, Self

from leasehold.errors import SchemaMismatch
from leasehold.store import Abilities, Caller, Store

DEFAULT_SCHEMA = "leasehold"


def migrate_command(schema: str) -> str:
    """Returns the command line; the default schema needs no option."""
    return "leasehold migrate" if schema == DEFAULT_SCHEMA else f"leasehold migrate --schema {schema}"


def grants_command(schema: str) -> str:
    """Returns the command line; the default schema needs no option."""
    return "leasehold grants" if schema == DEFAULT_SCHEMA else f"leasehold grants --schema {schema}"


@dataclass(frozen=True, slots=True)
class RoleNames:
    """Names of database roles, one for each way to use the database."""

    migrator: str
    worker: str
    server: str
    producer: str
    reader: str
    tenant: str

    @classmethod
    def of(cls, schema: str, **named: str | None) -> Self:
        """Takes the given names, and `SCHEMA_PART` for the others: all databases of a server share its roles."""
        return cls(**{part.name: named.get(part.name) or f"{schema}_{part.name}" for part in fields(cls)})

    def by_part(self) -> dict[str, str]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class SchemaStatus:
    """The version of a schema, and the versions that this code knows; version 0: the schema does not exist yet."""

    schema: str
    version: int
    needs: int
    known: int

    @property
    def current(self) -> bool:
        return self.version == self.known

    def require_usable(self) -> None:
        """Raises SchemaMismatch unless this code can use the schema. A newer schema is fine if its migrations allow
        this code.
        """
        if self.version < self.known:
            at = f"is at {self.version:04d}" if self.version else "does not exist"
            raise SchemaMismatch(
                f'the schema "{self.schema}" {at}, this version needs {self.known:04d}. Nothing was changed.',
                fix=f"Run: {migrate_command(self.schema)} (workers of the release before keep running meanwhile).",
                code="LH-2001",
            )
        if self.needs > self.known:
            raise SchemaMismatch(
                f'the schema "{self.schema}" is at {self.version:04d} and needs code that knows {self.needs:04d}; '
                f"this version knows up to {self.known:04d}. Nothing was changed.",
                fix="Upgrade leasehold, or point to another schema with LEASEHOLD_SCHEMA.",
                code="LH-2002",
            )


@dataclass(frozen=True, slots=True)
class MigrationStep:
    """One migration as SQL.

    version     its number; a number may be left out
    lock_limit  comes first: limits how long its transaction waits for a lock
    opening     runs before any migration, and changes nothing if it ran before
    applied     returns whether the migration was applied
    script      applies and records it
    """

    version: int
    lock_limit: str
    opening: str
    applied: str
    script: str


class Severity(StrEnum):
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of an examination. A problem breaks the promise or keeps jobs from running; a warning does not."""

    check: str
    verdict: Severity
    text: str
    code: str | None = None
    fix: str | None = None


@dataclass(frozen=True, slots=True)
class Login:
    """A server and an account, as frameworks keep them in their settings; a host that is a path is a socket."""

    user: str = ""
    password: str = ""
    host: str = ""
    port: str = ""
    options: Mapping[str, str] = field(default_factory=dict)


Parameters = Mapping[str, str | Sequence[str]]
"""The parameters of a request; one with several values is repeated."""


class ServerClient(Protocol):
    """Sends requests to a server of the HTTP API, with a token."""

    async def send(
        self,
        method: str,
        path: str,
        document: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        params: Parameters | None = None,
    ) -> Any:
        """Returns the JSON of the answer; raises the error that a database would have raised."""

    def stream(self, path: str) -> AsyncGenerator[Any, None]:
        """Yields the documents of an answer in JSON lines."""

    async def close(self) -> None: ...


class LocalServer(Protocol):
    """A server of an engine on this machine, for development. It runs while any process holds a reference."""

    @property
    def url(self) -> str: ...

    @property
    def description(self) -> str:
        """One line for people: the server, its address, and where its data is."""

    def stop(self) -> None:
        """Releases the reference; a second call does nothing."""


class SqlScripts(Protocol):
    """SQL for tools and people that change a database themselves."""

    def migration(self) -> str:
        """Returns one script that brings an empty database up to date."""

    def migration_steps(self) -> Sequence[MigrationStep]:
        """Returns the migrations one by one, for a framework that has its own ledger."""

    def grants(self, roles: RoleNames) -> str:
        """Returns grants of only the rights that each role needs. The owner of the schema runs them."""

    def create_roles(self, roles: RoleNames) -> str:
        """Creates the roles and an empty schema. A superuser runs it before the first migration."""


class ClonedDatabases(Protocol):
    """Databases for tests: clones of one template that has the schema and a movable clock."""

    def url_for(self, name: str) -> str: ...

    async def make_template(self, more: Callable[[str], Awaitable[None]] = ...) -> None:
        """Makes the template unless it exists; `more` adds the user's own tables to it, by its URL."""

    async def drop_template(self) -> None: ...

    async def clone(self) -> str:
        """Makes a database and returns its name."""

    async def drop(self, name: str, patience: timedelta = ...) -> list[str]:
        """Drops a database; returns the connections that were still open after `patience`."""


class MovableClock(Protocol):
    """The clock of a database that was made for a test."""

    async def now(self) -> datetime: ...

    async def move(self, by: timedelta) -> None: ...

    async def freeze(self, at: datetime | None) -> None:
        """Stops the clock at that moment; None lets it run again."""


class TestKit(Protocol):
    """An engine's services for tests, ours and the users'."""

    def databases(self, run: str, url_of: Callable[[str], str] | None = None) -> ClonedDatabases:
        """Returns the databases of one test run on this engine's server; `url_of` maps a name to its URL."""

    def clock(self) -> MovableClock: ...

    async def open(self) -> Store:
        """Opens a store whose own timers go forward with this kit's clock, and whose statements this kit counts."""

    async def crash(self) -> None:
        """Ends all connections to this database at once, as a crash of the server does. Committed data stays."""

    def statements(self) -> Sequence[str]:
        """Returns the names of the statements that stores of this kit have sent so far."""

    async def is_stuck(self) -> bool:
        """Returns whether a session of this database waits for a lock."""


class Engine(Protocol):
    """The engine of one database. Making one validates its URL and opens nothing."""

    @property
    def url(self) -> str:
        """The URL as other tools take it, without parameters of ours."""

    @property
    def address(self) -> str:
        """The URL for people to read: host, port and database, without user and password."""

    @property
    def schema(self) -> str: ...

    @property
    def abilities(self) -> Abilities: ...

    def url_of(self, database: str, login: Login | None = None) -> str:
        """Returns the URL of another database: with all else that this URL says, or on the server of `login`."""

    async def open(self, *, statement_timeout: timedelta | None = None) -> Store:
        """Opens a store, after checking that the schema fits this code. Close it when done.

        `statement_timeout` is how long one statement may take before a call raises Unreachable; None: 30 s.
        """

    async def schema_status(self) -> SchemaStatus: ...

    async def prepare(self, tell: Callable[[str], None] = ...) -> Sequence[str]:
        """Brings the database up to date for this code; returns the titles of the migrations that it applied.

        Calls `tell` with the reason for which a migration waits.
        """

    def examine(self) -> AsyncIterator[Finding]:
        """Yields the findings of `leasehold doctor`, one by one. Changes nothing."""

    def join(self, connection: object) -> Caller:
        """Wraps a caller's connection or session, to enqueue within its transaction.

        Only where `abilities.caller_transaction`. Raises InvalidInput for any other object.
        """

    def scripts(self) -> SqlScripts:
        """Raises InvalidInput if the engine has no SQL."""

    def test_kit(self) -> TestKit: ...
