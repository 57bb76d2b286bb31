"""`leasehold logs`."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from leasehold.cli.format import time_of_day
from leasehold.cli.options import Json, OfTenant, Schema, TheJob, Url, ask, read_tenant
from leasehold.cli.output import explain_errors, print_json, stderr, stdout
from leasehold.cli.tables import show_line
from leasehold.control import Control
from leasehold.errors import InvalidInput
from leasehold.model.job import LineKind, LogLine, TenantId
from leasehold.operations import views
from leasehold.operations.jobs import NumberedLine
from leasehold.operations.views import printable


def logs(
    job: TheJob,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job has ended.")] = False,
    number: Annotated[int | None, typer.Option("--try", help="Of this try only. Default: of all.", min=1)] = None,
    tenant: OfTenant = None,
    url: Url = None,
    schema: Schema = None,
    json: Json = False,
) -> None:
    """Print the log of a job.

    Lines of all tries come one after the other. With -f --json each line is a JSON object of its own.
    """
    with explain_errors(json):
        owner = read_tenant(tenant)
        ask(url, schema, lambda control: _print_lines(control, job, owner, number, follow, json))


async def _print_lines(
    control: Control, text: str, tenant: TenantId | None, number: int | None, follow: bool, json: bool
) -> None:
    address = await control.jobs.find(text, tenant)
    record, known = await control.jobs.tries(address)
    if number and number not in known and not (follow and not record.status.final):
        raise InvalidInput(
            f"job {record.id} has no try {number}: it is {record.display}, after {max(known, default=0)} of them.",
            fix="Nothing was printed. Leave --try out to see all of them.",
        )
    lines = control.jobs.lines(replace(address, record=record), number, follow=follow)
    if json and not follow:
        print_json([views.line(*each) async for each in lines])
    elif json:
        await print_lines(lines)
    else:
        await show_lines(lines, stdout)


async def show_lines(lines: AsyncGenerator[NumberedLine, None], console: Console) -> None:
    """Shows lines; names their try on stderr, so that a pipe gets only lines."""
    current = 0
    async with aclosing(lines):
        async for attempt, tries, line in lines:
            if attempt != current:
                stderr.print(f"try {tries}", style="dim")
                current = attempt
            show_line(console, line_text(line))


async def print_lines(lines: AsyncGenerator[NumberedLine, None], **more: str) -> None:
    async with aclosing(lines):
        async for each in lines:
            print_json(more | views.line(*each))


def line_text(line: LogLine) -> Text:
    progress = f"{line.progress:.0%} " if line.progress is not None else ""
    style = "yellow" if line.kind is LineKind.STDERR else ""
    return Text.assemble((f"{time_of_day(line.at)} ", "dim"), (printable(f"{progress}{line.text}".rstrip()), style))
