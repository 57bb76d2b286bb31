"""The command line: one module for each group of commands, put together here."""

import typer

from leasehold.cli.migrate import migrate
from leasehold.cli.worker import worker

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)
app.command()(migrate)
app.command()(worker)


@app.callback()
def leasehold() -> None:
    """Durable background jobs for multi-tenant Python apps, in the Postgres you already run."""


def main() -> None:
    app(prog_name="leasehold")
