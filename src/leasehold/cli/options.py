"""Options that several commands share, and what they stand for."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from leasehold import embedded
from leasehold.app import Leasehold
from leasehold.cli.interrupts import run
from leasehold.cli.output import said
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
        help="Whose. Default: LEASEHOLD_TENANT, else whoever has it.",
    ),
]
JobIds = Annotated[list[str], typer.Argument(metavar="ID…", help="Whole ids, or their last 4 or more characters.")]
TheJob = Annotated[str, typer.Argument(metavar="ID", help="The whole id, or its last 4 or more characters.")]


def ask(
    url: str | None, schema: str | None, question: Callable[[Leasehold], Awaitable[T]], *, may_create: bool = False
) -> T:
    """Opens the database for as long as the question takes."""

    async def asked() -> T:
        async with reached(Leasehold(url, schema=schema), may_create=may_create).open() as app:
            return await question(app)

    return run(asked())


def named(tenant: str | None) -> TenantId | None:
    """None means any. An empty name is refused: who writes --tenant "$T" does not mean all of them."""
    return None if tenant is None else tenant_id(tenant)


def reached(app: Leasehold, *, may_create: bool = False) -> Leasehold:
    """Who forgot LEASEHOLD_URL shall not take an empty database of our own for theirs, nor get one by looking."""
    settings = app.settings
    if settings.url:
        return app
    settings.require_embedded()
    if not may_create and not settings.home.exists():
        raise EmbeddedError(
            f"There is no database here: LEASEHOLD_URL is not set, and there is no {_home(settings)}.",
            fix="Set LEASEHOLD_URL, go to the folder of your app, or begin one here: "
            f"{migrate_command(settings.schema)}. "
            "Nothing was changed.",
        )
    said.print(
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
        said.print(f"✓ database  PostgreSQL {server.version}, started for you, data in {home}")
        yield server.url
