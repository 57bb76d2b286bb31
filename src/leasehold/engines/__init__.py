"""Engines by the scheme of their URL. No other module looks at a scheme."""

from collections.abc import Callable
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from leasehold.engine import DEFAULT_SCHEMA, Engine, LocalServer, ServerClient
from leasehold.errors import InvalidInput

EngineFactory = Callable[[str, str, str | None], Engine]
"""Makes an engine of a URL, a schema and, where wakes take another way, the URL for the listener."""

# By name: the driver is imported when its engine is first asked for.
_ENGINES: dict[str, str | EngineFactory] = {
    "dynamodb": "leasehold.engines.dynamodb.engine:DynamoEngine",
    "http": "leasehold.engines.http.engine:HttpEngine",
    "https": "leasehold.engines.http.engine:HttpEngine",
    "postgres": "leasehold.engines.postgres.engine:PostgresEngine",
    "postgresql": "leasehold.engines.postgres.engine:PostgresEngine",
}
_EXTRAS = {"aiobotocore": "dynamodb", "httpx": "http"}
# Servers for development. That of Postgres is leasehold.embedded, which is more than a tool for development.
_LOCAL_SERVERS: dict[str, str] = {"dynamodb": "leasehold.engines.dynamodb.emulator:start_in"}
_SERVERS = ("http", "https")
_CLIENT = "leasehold.engines.http.client:make_client"
DEFAULT_URL = "postgresql://"
"""Stands for the embedded Postgres where its real URL is not needed, as for SQL scripts."""


def engine_for(url: str, schema: str = DEFAULT_SCHEMA, listen_url: str | None = None) -> Engine:
    """Returns the engine that the URL names. Raises InvalidInput for a URL that none can open; opens nothing.

    `listen_url` leads to the same database past a pooler, for wakes.
    """
    factory = _ENGINES.get(_scheme_of(url))
    if factory is None:
        raise _unknown_scheme(url)
    make: EngineFactory = _load(factory) if isinstance(factory, str) else factory
    return make(url, schema, listen_url)


def is_server(url: str) -> bool:
    """Returns whether a URL names a server of the HTTP API, and not a database."""
    return _scheme_of(url) in _SERVERS


def client_for(url: str, *, token_file: Path | None = None, plain_http: bool = False) -> ServerClient:
    """Returns a client of the server that the URL names; sends nothing. Raises InvalidInput.

    Without `token_file`, the token is that of LEASEHOLD_TOKEN_FILE or LEASEHOLD_TOKEN.
    """
    if not is_server(url):
        raise InvalidInput(
            "the URL of the API begins with neither https:// nor http://. Nothing was opened.",
            fix="Use a URL such as https://jobs.example.com; --url names a database.",
        )
    make: Callable[[str, Path | None, bool], ServerClient] = _load(_CLIENT)
    return make(url, token_file, plain_http)


def _load(factory: str) -> Any:
    """Imports an engine. Raises InvalidInput if the package that it needs is not installed."""
    try:
        make = resolve_name(factory)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _EXTRAS:
            raise
        raise InvalidInput(
            f"URLs of this kind need the package {package}, which is not installed. Nothing was opened.",
            fix=f"Run: pip install 'leasehold[{_EXTRAS[package]}]'",
        ) from error
    return make


def start_local(engine: str, home: Path) -> LocalServer:
    """Starts a server of this engine on this machine, with its data in a folder of `home`; joins one that runs."""
    if engine not in _LOCAL_SERVERS:
        raise InvalidInput(
            f"{engine!r:.40} is not an engine with a server for development: those are postgres, "
            f"{', '.join(_LOCAL_SERVERS)}.",
            fix="Nothing was started. Name one of them.",
        )
    start: Callable[[Path], LocalServer] = resolve_name(_LOCAL_SERVERS[engine])
    return start(home)


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
        fix="Nothing was opened. Use a URL such as postgresql://user@host/database or dynamodb://table?region=eu-west-1.",
    )
