"""`leasehold doctor`."""

from collections import Counter
from collections.abc import AsyncIterator, Sequence

import typer
from rich.text import Text

from leasehold.app import Leasehold
from leasehold.cli.interrupts import run
from leasehold.cli.options import Json, Schema, Url, require_database
from leasehold.cli.output import explain_errors, print_json, stdout
from leasehold.cli.tables import show_line
from leasehold.commands import missing_here
from leasehold.engine import Finding, Severity
from leasehold.engines import engine_for
from leasehold.operations import views
from leasehold.operations.statuses import FAILED, OK
from leasehold.operations.views import format_count, printable


def doctor(url: Url = None, schema: Schema = None, json: Json = False) -> None:
    """Check the set-up: database, schema, wakes, clocks, workers.

    Changes nothing. Exit 1 if there is a problem, 7 if the database is away.
    """
    with explain_errors(json):
        app = require_database(Leasehold(url, schema=schema))
        with app.database() as where:
            findings = run(_examine(app, where, json))
        verdicts = Counter(finding.verdict for finding in findings)
        problems, warnings = verdicts[Severity.PROBLEM], verdicts[Severity.WARNING]
        if json:
            listed = [views.fields_of(finding) for finding in findings]
            print_json({"findings": listed, "problems": problems, "warnings": warnings})
        else:
            show_line(stdout, f"{format_count(problems, 'problem')}, {format_count(warnings, 'warning')}")
    raise typer.Exit(FAILED if problems else OK)


async def _examine(app: Leasehold, url: str, json: bool) -> list[Finding]:
    """Shows findings as they come: some take a while."""
    findings = []
    async for finding in _find(app, url):
        findings.append(finding)
        if not json:
            _show_finding(finding)
    return findings


async def _find(app: Leasehold, url: str) -> AsyncIterator[Finding]:
    if not app.settings.url:
        yield Finding(
            "url",
            Severity.WARNING,
            f"LEASEHOLD_URL is not set: this is the embedded Postgres in {app.settings.home}, for development",
            fix="Set LEASEHOLD_URL to use a server of yours.",
        )
    async for finding in engine_for(url, app.settings.schema, app.settings.listen_url).examine():
        yield finding
    if missing := missing_here():
        yield _commands(missing)


def _commands(missing: Sequence[str]) -> Finding:
    return Finding(
        "commands",
        Severity.WARNING,
        f"commands can't be ended completely on this machine: {'; '.join(missing)}",
        fix="Run workers with commands on Linux 5.3 or newer, with /proc.",
    )


def _show_finding(finding: Finding) -> None:
    symbol, style = _MARKS[finding.verdict]
    code = f"   {finding.code}" if finding.code else ""
    line = printable(f" {finding.check:<15} {finding.text}")
    show_line(stdout, Text.assemble((symbol, style), line, (code, "dim")))
    if finding.fix:
        show_line(stdout, f"  {'':<15} {finding.fix}")


_MARKS = {Severity.OK: ("✓", "green"), Severity.WARNING: ("!", "yellow"), Severity.PROBLEM: ("✕", "red")}
