"""Engines. `open_store` takes a URL and names the engine, so that nobody else has to."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING

from leasehold.engines.report import Finding, MigrationStep, Standing
from leasehold.errors import InvalidInput
from leasehold.store import Caller, Store

if TYPE_CHECKING:
    from leasehold.engines.postgres.scratch import ScratchClock as ScratchClock
    from leasehold.engines.postgres.scratch import ScratchDatabases as ScratchDatabases


async def open_store(url: str, schema: str = "leasehold", *, strict_tenants: bool = False) -> Store:
    """Opens the engine that the URL names, after checking that its schema fits this code. Close it when done."""
    _require_postgres(url)
    from leasehold.engines.postgres import open_postgres

    return await open_postgres(url, schema, strict_tenants=strict_tenants)


async def prepare_store(url: str, schema: str = "leasehold") -> Sequence[str]:
    """Brings what the URL names up to date for this code; returns the titles of what was applied."""
    _require_postgres(url)
    from leasehold.engines.postgres.migrate import migrate

    return [migration.title for migration in await migrate(url, schema)]


async def standing(url: str, schema: str = "leasehold") -> Standing:
    """How far what the URL names is. Changes nothing."""
    _require_postgres(url)
    from leasehold.engines.postgres import migrate

    return await migrate.standing(url, schema)


def migration_script(url: str | None, schema: str = "leasehold") -> str:
    """All that `prepare_store` would do to an empty database, as a script for its own tools. Without a URL: SQL."""
    if url:
        _require_postgres(url)
    from leasehold.engines.postgres.migrate import script

    return script(schema)


def migration_steps(schema: str = "leasehold") -> Sequence[MigrationStep]:
    """The same, one by one, for a framework that applies migrations itself. Only an engine with SQL has them."""
    from leasehold.engines.postgres.migrate import steps

    return steps(schema)


def examine(url: str, schema: str = "leasehold") -> AsyncIterator[Finding]:
    """What `leasehold doctor` shows, as it is found out. Changes nothing."""
    _require_postgres(url)
    from leasehold.engines.postgres import checkup

    return checkup.examine(url, schema)


def scratch_databases(
    url: str, run: str, schema: str = "leasehold", url_of: Callable[[str], str] | None = None
) -> "ScratchDatabases":
    """Databases for tests, on the server that the URL names. `url_of` says where one is, if not beside that one."""
    _require_postgres(url)
    from leasehold.engines.postgres.scratch import ScratchDatabases

    return ScratchDatabases(url, run, schema, url_of)


def scratch_clock(url: str, schema: str = "leasehold") -> "ScratchClock":
    """The clock of such a database, which can be moved."""
    _require_postgres(url)
    from leasehold.engines.postgres.scratch import ScratchClock

    return ScratchClock(url, schema)


async def scratch_is_stuck(url: str, schema: str = "leasehold") -> bool:
    """Whether somebody in such a database waits for a lock."""
    _require_postgres(url)
    from leasehold.engines.postgres.scratch import is_stuck

    return await is_stuck(url, schema)


def caller(passed: object) -> Caller:
    """A caller's connection or session, as something to enqueue within. Raises InvalidInput for what is none."""
    from leasehold.engines.postgres import callers

    return callers.caller(passed)


def require_usable_url(url: str) -> None:
    """Raises InvalidInput for a URL that no engine can open. Opens nothing."""
    _require_postgres(url)
    from leasehold.engines.postgres.database import Database

    Database(url, "leasehold")


def _require_postgres(url: str) -> None:
    scheme = url.partition("://")[0].lower() if "://" in url else ""
    if scheme not in ("postgres", "postgresql"):
        has = f"the scheme {scheme!r}" if scheme else "no scheme"
        raise InvalidInput(
            f"the URL of the database has {has}, which names no engine.",
            fix="Nothing was opened. Use a URL such as postgresql://user@host/database.",
        )
