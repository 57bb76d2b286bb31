"""`leasehold enqueue`."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any

import typer

from leasehold.app import Enqueued, Leasehold
from leasehold.cli.format import SYMBOLS, tries
from leasehold.cli.logs import print_lines, show_lines
from leasehold.cli.options import ForTenant, Json, Schema, Url, ask
from leasehold.cli.output import explain_errors, print_json, stderr, stdout
from leasehold.cli.payload import NOTHING_ENQUEUED, Payload, read_document, read_moment, read_words
from leasehold.cli.tables import show_line
from leasehold.errors import InvalidInput, LeaseholdError, NoTenant
from leasehold.model.duration import read_duration
from leasehold.model.job import JobRecord, TenantId, job_id, tenant_id
from leasehold.model.status import Status
from leasehold.operations import jobs, views
from leasehold.operations.statuses import ENDED_BADLY, OK, TIMED_OUT
from leasehold.operations.views import error_of, printable, span


@dataclass(frozen=True, slots=True)
class Request:
    """A job to be enqueued, before its definition is read."""

    key: str
    words: Sequence[str]
    document: Payload | None
    options: Mapping[str, Any]

    async def place(self, app: Leasehold, tenant: TenantId) -> Enqueued[Any]:
        handle = app.tenant(tenant).options(**self.options)
        payload = self.document if self.document is not None else read_words(self.words, await self._schema(app))
        return await handle.aenqueue_key(self.key, payload)

    async def _schema(self, app: Leasehold) -> Mapping[str, Any] | None:
        """Returns None for an unknown definition: the enqueue will refuse it."""
        known = {registered.definition.key: registered.definition for registered in await app.store.definitions()}
        return known[self.key].schema if self.key in known else None


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
        owner = _require(tenant, key)
        patience = _patience(wait, follow, timeout)
        request = Request(key, fields or [], None if payload is None else read_document(payload), options)
        code = ask(url, schema, lambda app: _enqueue(app, owner, request, patience, json), may_create=True)
    raise typer.Exit(code)


def _require(tenant: str | None, key: str) -> TenantId:
    if not tenant:
        raise NoTenant(
            f"a job of {key} needs a tenant. {NOTHING_ENQUEUED}", fix="Pass --tenant acme, or set LEASEHOLD_TENANT."
        )
    return tenant_id(tenant)


def _patience(wait: bool, follow: bool, timeout: str | None) -> Patience:
    if timeout is not None and not (wait or follow):
        raise InvalidInput("--timeout without --wait waits for nothing.", fix=f"{NOTHING_ENQUEUED} Add --wait.")
    return Patience(wait or follow, follow, jobs.FOR_EVER if timeout is None else read_duration(timeout))


def _require_at_most_one(ways: Mapping[str, object]) -> None:
    if None not in ways.values():
        raise InvalidInput(f"{' and '.join(ways)} exclude each other.", fix=f"{NOTHING_ENQUEUED} Use one of them.")


async def _enqueue(app: Leasehold, tenant: TenantId, request: Request, patience: Patience, json: bool) -> int:
    placed = await request.place(app, tenant)
    if not json:
        _show_placed(placed, request)
    elif patience.follow or not patience.wait:
        print_json(_event("enqueued", patience) | _document(placed))
    if not patience.wait:
        return OK
    record = await _wait_for(app, placed, patience, json)
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


async def _wait_for(app: Leasehold, placed: Enqueued[Any], patience: Patience, json: bool) -> JobRecord:
    """Returns the job as it stands when it is final, or when the time to wait is over."""
    store = app.store
    try:
        if patience.follow:
            lines = jobs.follow_lines(store.tenant(placed.tenant), placed.id)
            with suppress(TimeoutError):
                async with asyncio.timeout(patience.timeout.total_seconds()):
                    await (print_lines(lines, event="line") if json else show_lines(lines, stderr))
        elif record := await jobs.wait(store, placed.tenant, placed.id, patience.timeout):
            return record
        return await jobs.get(store, placed.tenant, placed.id)
    except (asyncio.CancelledError, LeaseholdError):
        stderr.print(f"job {placed.id} goes on. See: leasehold logs {placed.id} -f")
        raise


def _show_placed(placed: Enqueued[Any], request: Request) -> None:
    show_line(stdout, placed.id)
    if placed.created:
        stderr.print(printable(f"✓ {placed.definition} enqueued for {placed.tenant}"), markup=False)
        return
    held = "this id" if request.options["id"] == placed.id else f"dedupe key {request.options['dedupe_key']!r}"
    stderr.print(printable(f"= nothing new was enqueued: job {placed.id} has {held}"), markup=False)


def _event(name: str, patience: Patience) -> dict[str, str]:
    """Names the event where several documents follow each other."""
    return {"event": name} if patience.follow else {}


def _document(placed: Enqueued[Any]) -> dict[str, Any]:
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
