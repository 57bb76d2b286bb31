"""Options that several commands share, and what they stand for."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from leasehold import embedded
from leasehold.cli.output import said
from leasehold.config import Settings

Url = Annotated[str | None, typer.Option(help="The database. Default: LEASEHOLD_URL, else an embedded Postgres.")]
Schema = Annotated[str | None, typer.Option(help="The schema. Default: LEASEHOLD_SCHEMA, else leasehold.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, for machines.")]


@contextmanager
def database(url: str | None, settings: Settings) -> Iterator[str]:
    url = url or settings.url
    if url:
        yield url
        return
    home = Path(settings.home)
    with embedded.postgres(home) as server:
        said.print(f"✓ database  PostgreSQL {server.version}, started for you, data in {home}")
        yield server.url
