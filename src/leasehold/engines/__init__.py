"""Engines by the scheme of their URL. No other module looks at a scheme."""

from collections.abc import Callable
from pkgutil import resolve_name

from leasehold.engine import DEFAULT_SCHEMA, Engine
from leasehold.errors import InvalidInput

EngineFactory = Callable[[str, str, str | None], Engine]
"""Makes an engine of a URL, a schema and, where wakes take another way, the URL for the listener."""

# By name: the driver is imported when its engine is first asked for.
_ENGINES: dict[str, str | EngineFactory] = {
    "postgres": "leasehold.engines.postgres.engine:PostgresEngine",
    "postgresql": "leasehold.engines.postgres.engine:PostgresEngine",
}
DEFAULT_URL = "postgresql://"
"""Stands for the embedded Postgres where its real URL is not needed, as for SQL scripts."""


def engine_for(url: str, schema: str = DEFAULT_SCHEMA, listen_url: str | None = None) -> Engine:
    """Returns the engine that the URL names. Raises InvalidInput for a URL that none can open; opens nothing.

    `listen_url` leads to the same database past a pooler, for wakes.
    """
    factory = _ENGINES.get(_scheme_of(url))
    if factory is None:
        raise _unknown_scheme(url)
    make: EngineFactory = resolve_name(factory) if isinstance(factory, str) else factory
    return make(url, schema, listen_url)


def register_engine(scheme: str, factory: EngineFactory) -> None:
    """Makes `engine_for` open URLs of this scheme by another engine."""
    _ENGINES[scheme] = factory


def _scheme_of(url: str) -> str:
    return url.partition("://")[0].lower() if "://" in url else ""


def _unknown_scheme(url: str) -> InvalidInput:
    scheme = _scheme_of(url)
    dialect, _, driver = scheme.partition("+")
    if driver and dialect in _ENGINES:
        return InvalidInput(
            f"the URL of the database begins with {scheme}://, which names a driver as SQLAlchemy writes it.",
            fix=f"Nothing was opened. Leave +{driver} out: Leasehold brings its own driver.",
        )
    has = f"the scheme {scheme!r}" if scheme else "no scheme"
    return InvalidInput(
        f"the URL of the database has {has}, which names no engine.",
        fix="Nothing was opened. Use a URL such as postgresql://user@host/database.",
    )
