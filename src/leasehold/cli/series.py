"""`leasehold series`."""

from datetime import datetime
from typing import Annotated

import typer

from leasehold.cli.format import time_of_day
from leasehold.cli.options import Json, Schema, Url, ask
from leasehold.cli.output import explain_errors, print_json, stderr, stdout
from leasehold.cli.tables import Cell, show_table
from leasehold.control.protocol import Document
from leasehold.model.job import tenant_id
from leasehold.model.series import COUNTS, By

COLUMNS = ["AT", "ENQUEUED", "STARTED", "SUCCEEDED", "RETRIED", "DEAD", "WAIT P50", "P95", "RUN P50", "P95", "READY"]


def series(
    window: Annotated[str, typer.Option(help="How far to look back: 15m, 1h, 6h, 24h, 7d, 30d.")] = "1h",
    tenant: Annotated[str | None, typer.Option(help="Default: all tenants.")] = None,
    definition: Annotated[str | None, typer.Option(help="Default: all definitions.")] = None,
    by: Annotated[By, typer.Option(help="One series for each of these.")] = By.ALL,
    url: Url = None,
    schema: Schema = None,
    json: Json = False,
) -> None:
    """Show figures of jobs over time.

    How many were enqueued, started and ended, and how long they waited and ran. A worker adds up each minute after
    its end. Steps without jobs are left out of the table.
    """
    with explain_errors(json):
        whose = None if tenant is None else tenant_id(tenant)
        chart = ask(url, schema, lambda control: control.series(whose, window, by, definition))
        if json:
            print_json(chart)
        else:
            _show(chart)
        stderr.print(f"added up until {time_of_day(datetime.fromisoformat(chart['rolled_to']))} UTC")


def _show(chart: Document) -> None:
    divided = chart["by"] != By.ALL
    others = [chart["others"]] if chart["others"] else []
    named = [(each["key"] or "all", each) for each in chart["series"]] + [("others", each) for each in others]
    rows = [
        ([name] if divided else []) + _point(point)
        for name, each in named
        for point in each["points"]
        if any(point[count] for count in COUNTS) or any(point["depth"].values())
    ]
    if rows:
        show_table(stdout, ([chart["by"].upper()] if divided else []) + COLUMNS, rows)


def _point(point: Document) -> list[Cell]:
    shown = [str(point[name]) for name in ("enqueued", "started", "succeeded", "retried", "dead_letter")]
    times = [_time(point[of][share]) for of in ("wait", "run") for share in ("p50", "p95")]
    begin = datetime.fromisoformat(point["at"])
    return [f"{begin:%m-%d %H:%M}", *shown, *times, str(point["depth"]["ready"])]


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
