"""`leasehold logs`, and following a job while it runs."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import timedelta
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from leasehold.app import Leasehold, Tenant
from leasehold.cli import documents
from leasehold.cli.ids import find_job
from leasehold.cli.options import Json, OfTenant, Schema, TheJob, Url, ask, named
from leasehold.cli.output import explained, print_json, said, shown
from leasehold.cli.tables import show_line
from leasehold.cli.words import printable, time_of_day
from leasehold.errors import InvalidInput
from leasehold.model.job import JobId, LineKind, LogLine, TenantId
from leasehold.model.tries import FREE, first_attempt, try_numbers
from leasehold.store import TenantJobs

Spoken = tuple[int, int, LogLine]
"""An attempt, the try that it is, and something that was said in it."""

# Workers write what handlers say at most once a second; that a job has ended is woken for, not polled.
PAUSE = timedelta(seconds=0.5)
FOR_EVER = timedelta(days=3650)


def logs(
    job: TheJob,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job has ended.")] = False,
    number: Annotated[int | None, typer.Option("--try", help="Of this try only. Default: of all.", min=1)] = None,
    tenant: OfTenant = None,
    url: Url = None,
    schema: Schema = None,
    json: Json = False,
) -> None:
    """Print what a job's handler said.

    Of all tries, one after the other. With -f --json each line is a JSON object of its own.
    """
    with explained(json):
        whose = named(tenant)
        ask(url, schema, lambda app: _print_lines(app, job, whose, number, follow, json))


async def _print_lines(
    app: Leasehold, text: str, tenant: TenantId | None, number: int | None, follow: bool, json: bool
) -> None:
    address = await find_job(app.store, text, tenant)
    door = Tenant(address.tenant, app)
    record = await door.aget(address.job)
    attempts = await door.jobs.attempts(address.job)
    first = first_attempt(record, attempts)
    known = try_numbers(attempts, first).values()
    if number and number not in known and not (follow and not record.status.final):
        raise InvalidInput(
            f"job {record.id} has no try {number}: it is {record.display}, after {max(known, default=0)} of them.",
            fix="Nothing was printed. Leave --try out to see all of them.",
        )
    read = followed if follow else spoken
    lines = read(door.jobs, address.job, number, first)
    if json and not follow:
        print_json([documents.line(*each) async for each in lines])
    elif json:
        await print_lines(lines)
    else:
        await show_lines(lines, shown)


async def show_lines(lines: AsyncGenerator[Spoken, None], console: Console) -> None:
    """Shows the lines; says on stderr which try they belong to, so that a pipe gets lines only."""
    current = 0
    async with aclosing(lines):
        async for attempt, tries, line in lines:
            if attempt != current:
                said.print(f"try {tries}", style="dim")
                current = attempt
            show_line(console, line_text(line))


async def print_lines(lines: AsyncGenerator[Spoken, None], **more: str) -> None:
    async with aclosing(lines):
        async for each in lines:
            print_json(more | documents.line(*each))


def line_text(line: LogLine) -> Text:
    progress = f"{line.progress:.0%} " if line.progress is not None else ""
    style = "yellow" if line.kind is LineKind.STDERR else ""
    return Text.assemble((f"{time_of_day(line.at)} ", "dim"), (printable(f"{progress}{line.text}".rstrip()), style))


async def spoken(
    jobs: TenantJobs, job: JobId, only: int | None = None, first: int = 1
) -> AsyncGenerator[Spoken, None]:
    """Yields the lines so far, of all tries or of one; tries are counted from the attempt `first`."""
    for attempt, tries in try_numbers(await jobs.attempts(job), first).items():
        if only in (None, tries):
            async for line in _lines(jobs, job, attempt):
                yield attempt, tries, line


async def followed(
    jobs: TenantJobs, job: JobId, only: int | None = None, first: int = 1
) -> AsyncGenerator[Spoken, None]:
    """Yields the lines so far and those that come, until the job is final (or that try is over)."""
    ending = asyncio.create_task(jobs.wait_until_final(job, FOR_EVER))
    last: Counter[int] = Counter()
    over: set[int] = set()
    try:
        while True:
            ended = ending.done()
            known = await jobs.attempts(job)
            numbers = try_numbers(known, first)
            attempts = [each for each in known if only in (None, numbers[each.number])]
            for attempt in attempts:
                if attempt.number not in over:
                    async for line in _lines(jobs, job, attempt.number, last[attempt.number]):
                        last[attempt.number] = line.number
                        yield attempt.number, numbers[attempt.number], line
            over |= {attempt.number for attempt in attempts if attempt.finished_at}
            is_over = any(attempt.finished_at and attempt.status not in FREE for attempt in attempts)
            if ended:
                await ending
            if ended or (only is not None and is_over):
                return
            await asyncio.wait({ending}, timeout=PAUSE.total_seconds())
    finally:
        ending.cancel()
        await asyncio.gather(ending, return_exceptions=True)


async def _lines(jobs: TenantJobs, job: JobId, attempt: int, after: int = 0) -> AsyncGenerator[LogLine, None]:
    """All of them: the store gives so many at once."""
    while lines := await jobs.lines(job, attempt, after):
        for line in lines:
            yield line
        after = lines[-1].number
