"""Engines. `open_store` takes a URL and names the engine, so that nobody else has to."""

from collections.abc import Sequence
from urllib.parse import urlsplit

from leasehold.errors import InvalidInput
from leasehold.store import Store


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


def _require_postgres(url: str) -> None:
    scheme = urlsplit(url).scheme
    if scheme not in ("postgres", "postgresql"):
        has = f"the scheme {scheme!r}" if scheme else "no scheme"
        raise InvalidInput(
            f"the URL of the database has {has}, which names no engine.",
            fix="Nothing was opened. Use a URL such as postgresql://user@host/database.",
        )
