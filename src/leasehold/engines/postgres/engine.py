"""PostgresEngine: one database, named by a URL, and one schema in it."""

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import timedelta

from leasehold.engine import DEFAULT_SCHEMA, Finding, Login, MigrationStep, RoleNames, SchemaStatus
from leasehold.engines.postgres import doctor, drivers, grants, migrate, urls
from leasehold.engines.postgres.confined import require_confining
from leasehold.engines.postgres.connections import require_readable
from leasehold.engines.postgres.database import STATEMENT_TIMEOUT, Database
from leasehold.engines.postgres.statements import schema_name
from leasehold.engines.postgres.store import PostgresStore
from leasehold.engines.postgres.test_kit import PostgresTestKit
from leasehold.errors import InvalidInput
from leasehold.store import Caller


class PostgresEngine:
    """The schema is the URL's parameter `schema`, else the one that is passed.

    With the URL's parameter `tenant_role`, handles of tenants send their statements as that role, under row-level
    security.
    """

    abilities = PostgresStore.abilities

    def __init__(self, url: str, schema: str = DEFAULT_SCHEMA, listen_url: str | None = None) -> None:
        require_readable(url)
        self.url, named = urls.split_parameter(url, "schema")
        self.url, self._tenant_role = urls.split_parameter(self.url, "tenant_role")
        if named is not None and schema not in (named, DEFAULT_SCHEMA):
            raise InvalidInput(
                f"the URL of the database says schema={named}, and the schema {schema!r} was asked for.",
                fix="Nothing was opened. Name the schema once: in the URL, by --schema or by LEASEHOLD_SCHEMA.",
            )
        self.schema = schema_name(named or schema)
        self._given_url = url
        self._listen_url = listen_url

    @property
    def address(self) -> str:
        return urls.hide_secrets(self.url)

    def url_of(self, database: str, login: Login | None = None) -> str:
        return urls.replace_database(self._given_url, database) if login is None else urls.make_url(database, login)

    async def open(self, *, statement_timeout: timedelta | None = None) -> PostgresStore:
        limit = STATEMENT_TIMEOUT if statement_timeout is None else statement_timeout.total_seconds()
        database = Database(self.url, self.schema, listen_url=self._listen_url, statement_timeout=limit)
        try:
            (await migrate.status_in_pool(database)).require_usable()
            if self._tenant_role is not None:
                await require_confining(database, self._tenant_role)
        except BaseException:
            await database.close()
            raise
        return PostgresStore(database, tenant_role=self._tenant_role)

    async def schema_status(self) -> SchemaStatus:
        return await migrate.schema_status(self.url, self.schema)

    async def prepare(self, tell: Callable[[str], None] = lambda _text: None) -> Sequence[str]:
        return [migration.title for migration in await migrate.migrate(self.url, self.schema, tell)]

    def examine(self) -> AsyncIterator[Finding]:
        return doctor.examine(self.url, self.schema, self._listen_url)

    def join(self, connection: object) -> Caller:
        return drivers.join(connection)

    def scripts(self) -> "PostgresScripts":
        return PostgresScripts(self.schema)

    def test_kit(self) -> PostgresTestKit:
        return PostgresTestKit(self.url, self.schema)


class PostgresScripts:
    def __init__(self, schema: str) -> None:
        self._schema = schema

    def migration(self) -> str:
        return migrate.script(self._schema)

    def migration_steps(self) -> Sequence[MigrationStep]:
        return migrate.steps(self._schema)

    def grants(self, roles: RoleNames) -> str:
        return grants.grants_script(self._schema, roles)

    def create_roles(self, roles: RoleNames) -> str:
        return grants.create_roles_script(self._schema, roles)
