"""`leasehold usage`."""

from datetime import datetime, timedelta
from typing import Annotated, Any

import typer

from leasehold.cli.options import Json, Schema, Url, ask, read_tenant
from leasehold.cli.output import explain_errors, print_json, print_text, stderr, stdout
from leasehold.cli.tables import Cell, show_table
from leasehold.control.protocol import Document
from leasehold.errors import InvalidInput
from leasehold.model.duration import span
from leasehold.model.usage import DEFAULT_LENGTH
from leasehold.operations.usage import as_csv, columns_of
from leasehold.operations.views import format_count

TITLES = {
    "at": "FROM",
    "tenant_id": "TENANT",
    "definition_key": "DEFINITION",
    "attempts": "ATTEMPTS",
    "run_seconds": "RUN TIME",
    "cpu_seconds": "CPU TIME",
    "cpu_unknown_attempts": "CPU UNKNOWN",
}


def usage(
    tenant: Annotated[str | None, typer.Option("--tenant", "-t", help="Default: all tenants.")] = None,
    definition: Annotated[str | None, typer.Option(help="Default: all definitions.")] = None,
    since: Annotated[str, typer.Option(help="So long before now, or a time: 7d, 2030-01-31.")] = DEFAULT_LENGTH,
    until: Annotated[str | None, typer.Option(help="Default: now.")] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            help="A row for each tenant, definition, hour or day; repeated, or with commas.", metavar="WHAT"
        ),
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Lines with commas on stdout, for spreadsheets.")] = False,
    url: Url = None,
    schema: Schema = None,
    json: Json = False,
) -> None:
    """Show attempts, their run time and CPU time.

    Attempts that ended are counted. Times are widened to whole hours of UTC. CPU time is known of commands and of
    handlers with isolation="process"; CPU UNKNOWN counts the other attempts, and those whose worker was killed.
    """
    with explain_errors(json):
        if csv and json:
            raise InvalidInput("--csv and --json can't both be printed. Nothing was read.", fix="Leave one out.")
        whose, divided = read_tenant(tenant), ",".join(by or ())
        found = ask(url, schema, lambda control: control.usage(whose, since, until, divided, definition))
        if json:
            print_json(found)
        elif csv:
            print_text(as_csv(found))
        elif found["rows"]:
            columns = columns_of(found)
            show_table(stdout, [TITLES[name] for name in columns], [_cells(row, columns) for row in found["rows"]])
        if not json and not csv:
            _show_total(found)


def _show_total(found: Document) -> None:
    total = found["total"]
    cpu = "unknown CPU time" if total["cpu_seconds"] is None else f"{_length(total['cpu_seconds'])} of CPU time"
    stderr.print(
        f"{format_count(total['attempts'], 'attempt')}, {_length(total['run_seconds'])} of run time, {cpu}; "
        f"{_shown(found['since'])} to {_shown(found['until'])} UTC",
        markup=False,
        highlight=False,
    )


def _cells(row: Document, columns: Any) -> list[Cell]:
    shown = {
        **row,
        "at": row["at"] and _shown(row["at"]),
        "attempts": f"{row['attempts']:,}",
        "run_seconds": _length(row["run_seconds"]),
        "cpu_seconds": "–" if row["cpu_seconds"] is None else _length(row["cpu_seconds"]),
        "cpu_unknown_attempts": f"{row['cpu_unknown_attempts']:,}",
    }
    return [shown[name] for name in columns]


def _length(seconds: float) -> str:
    return span(timedelta(seconds=seconds))


def _shown(moment: str) -> str:
    return f"{datetime.fromisoformat(moment):%Y-%m-%d %H:%M}"
