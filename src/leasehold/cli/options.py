"""Options that several commands share, and their meaning."""

import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TypedDict, TypeVar

import typer

from leasehold import embedded
from leasehold.app import Leasehold
from leasehold.cli.actor import cli_actor
from leasehold.cli.interrupts import run
from leasehold.cli.output import stderr
from leasehold.cli.server_choice import given_options, server_of
from leasehold.config import LogFormat, Settings, read_log_format
from leasehold.control import Control, DatabaseControl, ServerControl
from leasehold.engine import migrate_command
from leasehold.engines import client_for
from leasehold.errors import EmbeddedError, InvalidInput, NoTenant
from leasehold.model.job import TenantId, tenant_id
from leasehold.runtime.log_format import begin_logs
from leasehold.telemetry import Observer

T = TypeVar("T")


class Selection(TypedDict):
    """Which jobs a worker runs, as its settings take it."""

    only: tuple[str, ...]
    exclude: tuple[str, ...]
    tenants: tuple[TenantId, ...] | None


Url = Annotated[str | None, typer.Option(help="The database. Default: LEASEHOLD_URL, else an embedded Postgres.")]
Schema = Annotated[str | None, typer.Option(help="The schema. Default: LEASEHOLD_SCHEMA, else leasehold.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, for machines.")]
ForTenant = Annotated[
    str | None,
    typer.Option("--tenant", "-t", envvar="LEASEHOLD_TENANT", show_envvar=False, help="Default: LEASEHOLD_TENANT."),
]
OfTenant = Annotated[
    str | None,
    typer.Option(
        "--tenant",
        "-t",
        envvar="LEASEHOLD_TENANT",
        show_envvar=False,
        help="Whose. Default: LEASEHOLD_TENANT, else the tenant that has it.",
    ),
]
Commands = Annotated[
    Path | None, typer.Option("--commands", metavar="FILE", help="Commands, in TOML.", show_default=False)
]
LogLines = Annotated[
    LogFormat | None,
    typer.Option("--log-format", metavar="FORMAT", help="Log jobs: json or text.", show_default=False),
]
Only = Annotated[list[str] | None, typer.Option(help="Only these jobs: 'sync-*,report'.", metavar="KEYS")]
Except = Annotated[list[str] | None, typer.Option("--except", help="All jobs but these.", metavar="KEYS")]
Tenants = Annotated[list[str] | None, typer.Option(help="Only these tenants: acme,globex.", metavar="NAMES")]
SomeJobIds = Annotated[
    list[str] | None, typer.Argument(metavar="ID…", help="Whole ids, or their last 4 or more characters.")
]
JobIds = Annotated[list[str], typer.Argument(metavar="ID…", help="Whole ids, or their last 4 or more characters.")]
TheJob = Annotated[str, typer.Argument(metavar="ID", help="The whole id, or its last 4 or more characters.")]


def begin_logs_of_service(chosen: LogFormat | None) -> Observer:
    """Sets up the logs of a service, by its option or LEASEHOLD_LOG_FORMAT. Returns the listener that logs events.

    The variable also tells the processes of handlers.
    """
    if chosen is not None:
        os.environ["LEASEHOLD_LOG_FORMAT"] = chosen.value
    return begin_logs(read_log_format())


def read_selection(
    only: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    tenants: Sequence[str] | None = None,
) -> Selection:
    """Reads --only, --except and --tenants. Raises InvalidInput if one of them names nothing."""
    return {
        "only": _read_list("--only", only),
        "exclude": _read_list("--except", exclude),
        "tenants": tuple(map(tenant_id, _read_list("--tenants", tenants))) if tenants else None,
    }


def _read_list(option: str, given: Sequence[str] | None) -> tuple[str, ...]:
    """Returns the words of an option that takes several, with commas or repeated."""
    words = tuple(word.strip() for text in given or () for word in text.split(",") if word.strip())
    if given and not words:
        raise InvalidInput(f"{option} names nothing. Nothing was started.", fix="Name at least one, or leave it out.")
    return words


def ask(
    url: str | None, schema: str | None, question: Callable[[Control], Awaitable[T]], *, may_create: bool = False
) -> T:
    """Opens the database, or the server of --api, for the length of one question, and returns its answer."""
    server = server_of(url, schema)
    if server is None:
        actor = cli_actor()
        return ask_database(url, schema, lambda app: question(DatabaseControl(app, actor)), may_create=may_create)
    options = given_options()
    client = client_for(server, token_file=options.token_file, plain_http=options.plain_http)

    async def ask_server() -> T:
        async with ServerControl(client) as control:
            answer = await question(control)
        for permission in sorted(set(control.hidden.values())):
            names = ", ".join(name for name, needed in control.hidden.items() if needed is permission)
            stderr.print(f"not shown: {names}. The token has not the permission {permission.value}.", style="dim")
        return answer

    return run(ask_server())


def ask_database(
    url: str | None, schema: str | None, question: Callable[[Leasehold], Awaitable[T]], *, may_create: bool = False
) -> T:
    """Opens the app for the length of one question, and returns its answer."""

    async def ask_store() -> T:
        async with require_database(Leasehold(url, schema=schema), may_create=may_create).open() as app:
            return await question(app)

    return run(ask_store())


def read_tenant(tenant: str | None) -> TenantId | None:
    """Reads a tenant; None means any. Refuses an empty name: --tenant "$T" without a T must not mean all tenants."""
    return None if tenant is None else tenant_id(tenant)


def require_tenant(url: str | None, tenant: str | None, missing: NoTenant) -> TenantId | None:
    """Reads a tenant, and raises `missing` if there is none; a server may know it by the token, so it is asked."""
    owner = read_tenant(tenant)
    if owner is None and server_of(url, None) is None:
        raise missing
    return owner


def require_database(app: Leasehold, *, may_create: bool = False) -> Leasehold:
    """Returns the app if its database exists or may be created; says so if it is an embedded one.

    If LEASEHOLD_URL was forgotten, an empty embedded database must not pass for the real one, or appear by reading.
    """
    settings = app.settings
    if settings.url:
        return app
    settings.require_embedded()
    if not may_create and not settings.home.exists():
        raise EmbeddedError(
            f"No database was found: LEASEHOLD_URL is not set, and {_home(settings)} does not exist.",
            fix="Set LEASEHOLD_URL, go to the folder of your app, or begin one here: "
            f"{migrate_command(settings.schema)}. "
            "Nothing was changed.",
        )
    stderr.print(
        f"database: an embedded Postgres in {settings.home}, for want of LEASEHOLD_URL", style="dim", markup=False
    )
    return app


def _home(settings: Settings) -> str:
    return str(settings.home) if settings.home.is_absolute() else f"{settings.home} in {Path.cwd()}"


@contextmanager
def database(url: str | None, settings: Settings) -> Iterator[str]:
    url = url or settings.url
    if url:
        yield url
        return
    settings.require_embedded()
    home = Path(settings.home)
    with embedded.postgres(home) as server:
        stderr.print(f"✓ database  PostgreSQL {server.version}, started for you, data in {home}")
        yield server.url
