"""Engines. `open_store` takes a URL and names the engine, so that nobody else has to."""

from urllib.parse import urlsplit

from leasehold.errors import InvalidInput
from leasehold.store import Store


async def open_store(url: str, schema: str = "leasehold", *, strict_tenants: bool = False) -> Store:
    """Opens the engine that the URL names, after checking that its schema fits this code. Close it when done."""
    scheme = urlsplit(url).scheme
    if scheme in ("postgres", "postgresql"):
        from leasehold.engines.postgres import open_postgres

        return await open_postgres(url, schema, strict_tenants=strict_tenants)
    raise InvalidInput(
        f"{scheme or 'nothing'!r} names no engine.",
        fix="Nothing was opened. Use a URL such as postgresql://user@host/database.",
    )
