"""`leasehold psql`."""

import shlex
import signal
import subprocess
from typing import Annotated

import typer

from leasehold import embedded
from leasehold.app import Leasehold
from leasehold.cli.options import Json, Url, require_database
from leasehold.cli.output import explain_errors, print_json, stdout
from leasehold.engines import engine_for

Arguments = Annotated[list[str] | None, typer.Argument(metavar="[-- ARGUMENT…]", help="Passed on to psql.")]
Print = Annotated[bool, typer.Option("--print", help="Only print the command that reaches the database.")]


def psql(arguments: Arguments = None, print_only: Print = False, url: Url = None, json: Json = False) -> None:
    """Open psql on the database.

    The embedded Postgres runs until psql ends. With --print or --json: only say how to reach it; an embedded Postgres
    answers there while something uses it, for example leasehold dev. Exits with psql's own code.
    """
    with explain_errors(json), require_database(Leasehold(url)).database() as found:
        where = engine_for(found).url
        words = [where, *(arguments or [])]
        if json:
            print_json({"url": where, "command": ["psql", *words]})
        elif print_only:
            stdout.print(shlex.join(["psql", *words]), soft_wrap=True, markup=False)
        else:
            raise typer.Exit(_run([embedded.psql(), *words]))


def _run(command: list[str]) -> int:
    """Leaves Ctrl-C to psql, which cancels a query by it."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        return subprocess.run(command).returncode
    finally:
        signal.signal(signal.SIGINT, before)
