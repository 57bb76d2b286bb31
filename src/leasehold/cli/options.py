"""Options that several commands share, and their meaning."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from leasehold import embedded
from leasehold.app import Leasehold
from leasehold.cli.interrupts import run
from leasehold.cli.output import stderr
from leasehold.config import Settings
from leasehold.engine import migrate_command
from leasehold.errors import EmbeddedError
from leasehold.model.job import TenantId, tenant_id

T = TypeVar("T")

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
JobIds = Annotated[list[str], typer.Argument(metavar="ID…", help="Whole ids, or their last 4 or more characters.")]
TheJob = Annotated[str, typer.Argument(metavar="ID", help="The whole id, or its last 4 or more characters.")]


def ask(
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
