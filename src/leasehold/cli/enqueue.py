"""`leasehold enqueue`."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any

import typer

from leasehold.cli.format import SYMBOLS, tries
from leasehold.cli.logs import print_lines, show_lines
from leasehold.cli.options import ForTenant, Json, Schema, Url, ask, require_tenant
from leasehold.cli.output import explain_errors, print_json, stderr, stdout
from leasehold.cli.payload import NOTHING_ENQUEUED, Payload, read_document, read_moment, read_words
from leasehold.cli.tables import show_line
from leasehold.control import Control
from leasehold.errors import InvalidInput, LeaseholdError, NoTenant
from leasehold.model.duration import read_duration, span
from leasehold.model.job import JobId, JobRecord, TenantId, job_id
from leasehold.model.status import Status
from leasehold.operations import views
from leasehold.operations.jobs import FOR_EVER
from leasehold.operations.lookup import Address
from leasehold.operations.statuses import ENDED_BADLY, OK, TIMED_OUT
from leasehold.operations.views import error_of, printable


@dataclass(frozen=True, slots=True)
class Request:
    """A job to be enqueued, before its definition is read."""

    key: str
    words: Sequence[str]
    document: Payload | None
    options: Mapping[str, Any]

    async def place(self, control: Control, tenant: TenantId) -> "Placed":
        payload = self.document if self.document is not None else read_words(self.words, await self._schema(control))
        placed = await control.jobs.enqueue(tenant, self.key, payload, self.options)
        return Placed(placed.id, placed.created, tenant, self.key)

    async def _schema(self, control: Control) -> Mapping[str, Any] | None:
        """Returns None for an unknown definition: the enqueue will refuse it."""
        known = {definition["key"]: definition["schema"] for definition in await control.definitions.list()}
        return known.get(self.key)


@dataclass(frozen=True, slots=True)
class Placed:
    """The job that was enqueued, or the one that holds its key or id."""

    id: JobId
    created: bool
    tenant: TenantId
    definition: str


@dataclass(frozen=True, slots=True)
class Patience:
    """Whether and how long to wait for the end of the job."""

    wait: bool
    follow: bool
    timeout: timedelta


def enqueue(
    key: Annotated[str, typer.Argument(metavar="KEY", help="The definition.")],
    fields: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME=VALUE", help="Text where the schema takes it, else JSON; NAME:=JSON."),
    ] = None,
    payload: Annotated[str | None, typer.Option(help="All fields at once: JSON, @file, or - for stdin.")] = None,
    delay: Annotated[str | None, typer.Option("--in", help="Due after so long, as in 5m.")] = None,
    at: Annotated[str | None, typer.Option(help="Due at a time, as in 2030-01-31T09:00Z.")] = None,
    priority: Annotated[int | None, typer.Option(help="Lower runs first. Default: the definition's.")] = None,
    dedupe_key: Annotated[str | None, typer.Option(help="No second job while one with this key is active.")] = None,
    correlation_id: Annotated[str | None, typer.Option(help="Yours, to find what belongs together.")] = None,
    id: Annotated[str | None, typer.Option("--id", help="A UUID of yours: repeated, it is the same job.")] = None,  # noqa: A002
    wait: Annotated[bool, typer.Option("--wait", "-w", help="Until it has ended; exit 9 if badly.")] = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait, and show what it says.")] = False,
    timeout: Annotated[str | None, typer.Option(help="Wait no longer than this, as in 5m; exit 8.")] = None,
    tenant: ForTenant = None,
    url: Url = None,
    schema: Schema = None,
    json: Json = False,
) -> None:
    """Enqueue a job, and wait for its end if asked to.

    Checked against its definition's schema. Its id goes to stdout, with --wait its result too.
    """
    with explain_errors(json):
        _require_at_most_one({"NAME=VALUE": fields or None, "--payload": payload})
        _require_at_most_one({"--in": delay, "--at": at})
        options = {
            "delay": None if delay is None else read_duration(delay),
            "at": None if at is None else read_moment(at),
            "priority": priority,
            "dedupe_key": dedupe_key,
            "correlation_id": correlation_id,
            "id": None if id is None else job_id(id),
        }
        missing = NoTenant(
            f"a job of {key} needs a tenant. {NOTHING_ENQUEUED}", fix="Pass --tenant acme, or set LEASEHOLD_TENANT."
        )
        owner = require_tenant(url, tenant or None, missing)
        patience = _patience(wait, follow, timeout)
        request = Request(key, fields or [], None if payload is None else read_document(payload), options)

        async def place(control: Control) -> int:
            return await _enqueue(control, await control.tenant(owner, missing), request, patience, json)

        code = ask(url, schema, place, may_create=True)
    raise typer.Exit(code)


def _patience(wait: bool, follow: bool, timeout: str | None) -> Patience:
    if timeout is not None and not (wait or follow):
        raise InvalidInput("--timeout without --wait waits for nothing.", fix=f"{NOTHING_ENQUEUED} Add --wait.")
    return Patience(wait or follow, follow, FOR_EVER if timeout is None else read_duration(timeout))


def _require_at_most_one(ways: Mapping[str, object]) -> None:
    if None not in ways.values():
        raise InvalidInput(f"{' and '.join(ways)} exclude each other.", fix=f"{NOTHING_ENQUEUED} Use one of them.")


async def _enqueue(control: Control, tenant: TenantId, request: Request, patience: Patience, json: bool) -> int:
    placed = await request.place(control, tenant)
    if not json:
        _show_placed(placed, request)
    elif patience.follow or not patience.wait:
        print_json(_event("enqueued", patience) | _document(placed))
    if not patience.wait:
        return OK
    record = await _wait_for(control, placed, patience, json)
    _say_end(record, patience)
    if json:
        event = _event("ended" if record.status.final else "timed_out", patience)
        print_json(event | views.job(record) | {"created": placed.created})
    elif record.status is Status.SUCCEEDED:
        print_json(record.result)
    return _code(record.status)


def _code(status: Status) -> int:
    if status is Status.SUCCEEDED:
        return OK
    return ENDED_BADLY if status.final else TIMED_OUT


async def _wait_for(control: Control, placed: Placed, patience: Patience, json: bool) -> JobRecord:
    """Returns the job as it stands when it is final, or when the time to wait is over."""
    job = Address(placed.tenant, placed.id)
    try:
        if patience.follow:
            lines = control.jobs.lines(job, None, follow=True)
            with suppress(TimeoutError):
                async with asyncio.timeout(patience.timeout.total_seconds()):
                    await (print_lines(lines, event="line") if json else show_lines(lines, stderr))
        elif record := await control.jobs.wait(job, patience.timeout):
            return record
        return await control.jobs.get(job)
    except (asyncio.CancelledError, LeaseholdError):
        stderr.print(f"job {placed.id} goes on. See: leasehold logs {placed.id} -f")
        raise


def _show_placed(placed: Placed, request: Request) -> None:
    show_line(stdout, placed.id)
    if placed.created:
        stderr.print(printable(f"✓ {placed.definition} enqueued for {placed.tenant}"), markup=False)
        return
    held = "this id" if request.options["id"] == placed.id else f"dedupe key {request.options['dedupe_key']!r}"
    stderr.print(printable(f"= nothing new was enqueued: job {placed.id} has {held}"), markup=False)


def _event(name: str, patience: Patience) -> dict[str, str]:
    """Names the event where several documents follow each other."""
    return {"event": name} if patience.follow else {}


def _document(placed: Placed) -> dict[str, Any]:
    return {"id": placed.id, "created": placed.created, "tenant": placed.tenant, "definition": placed.definition}


def _say_end(record: JobRecord, patience: Patience) -> None:
    if not record.status.final:
        happened = (
            f"still {record.display} after {span(patience.timeout)}; it goes on. See: leasehold job {record.id}"
        )
    elif record.started_at and record.finished_at:
        happened = f"{record.display} after {span(record.finished_at - record.started_at)}, try {tries(record)}"
    else:
        happened = record.display.value
    ended_badly = _code(record.status) == ENDED_BADLY
    error = error_of(record.last_error_code, record.last_error) if ended_badly else ""
    line = f"{SYMBOLS[record.display]} {happened}" + (f": {error}" if error else "")
    stderr.print(printable(line), markup=False)
