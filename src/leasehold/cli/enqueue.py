"""`leasehold enqueue`."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any

import typer

from leasehold.app import Enqueued, Leasehold
from leasehold.cli import documents
from leasehold.cli.logs import FOR_EVER, followed, print_lines, show_lines
from leasehold.cli.options import ForTenant, Json, Schema, Url, ask
from leasehold.cli.output import ENDED_BADLY, OK, TIMED_OUT, explained, print_json, said, shown
from leasehold.cli.payload import NOTHING_ENQUEUED, Payload, read_document, read_moment, read_words
from leasehold.cli.tables import show_line
from leasehold.cli.words import SYMBOLS, error_of, printable, span, tries
from leasehold.errors import InvalidInput, LeaseholdError, NoTenant
from leasehold.model.duration import read_duration
from leasehold.model.job import JobRecord, TenantId, job_id, tenant_id
from leasehold.model.status import Status


@dataclass(frozen=True, slots=True)
class Order:
    """What shall be enqueued, as far as it can be said without the definition."""

    key: str
    words: Sequence[str]
    document: Payload | None
    options: Mapping[str, Any]

    async def place(self, app: Leasehold, tenant: TenantId) -> Enqueued[Any]:
        door = app.tenant(tenant).options(**self.options)
        payload = self.document if self.document is not None else read_words(self.words, await self._schema(app))
        return await door.aenqueue_key(self.key, payload)

    async def _schema(self, app: Leasehold) -> Mapping[str, Any] | None:
        """None for a definition that nobody knows: who enqueues it will say so."""
        known = {registered.definition.key: registered.definition for registered in await app.store.definitions()}
        return known[self.key].schema if self.key in known else None


@dataclass(frozen=True, slots=True)
class Patience:
    """How the end is waited for, if at all."""

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
    with explained(json):
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
        whose = _required(tenant, key)
        patience = _patience(wait, follow, timeout)
        order = Order(key, fields or [], None if payload is None else read_document(payload), options)
        code = ask(url, schema, lambda app: _enqueue(app, whose, order, patience, json), may_create=True)
    raise typer.Exit(code)


def _required(tenant: str | None, key: str) -> TenantId:
    if not tenant:
        raise NoTenant(
            f"a job of {key} needs a tenant. {NOTHING_ENQUEUED}", fix="Pass --tenant acme, or set LEASEHOLD_TENANT."
        )
    return tenant_id(tenant)


def _patience(wait: bool, follow: bool, timeout: str | None) -> Patience:
    if timeout is not None and not (wait or follow):
        raise InvalidInput("--timeout without --wait waits for nothing.", fix=f"{NOTHING_ENQUEUED} Add --wait.")
    return Patience(wait or follow, follow, FOR_EVER if timeout is None else read_duration(timeout))


def _require_at_most_one(ways: Mapping[str, object]) -> None:
    if None not in ways.values():
        raise InvalidInput(f"{' and '.join(ways)} exclude each other.", fix=f"{NOTHING_ENQUEUED} Use one of them.")


async def _enqueue(app: Leasehold, tenant: TenantId, order: Order, patience: Patience, json: bool) -> int:
    placed = await order.place(app, tenant)
    if not json:
        _show_placed(placed, order)
    elif patience.follow or not patience.wait:
        print_json(_event("enqueued", patience) | _document(placed))
    if not patience.wait:
        return OK
    record = await _waited_for(app, placed, patience, json)
    _say_end(record, patience)
    if json:
        event = _event("ended" if record.status.final else "timed_out", patience)
        print_json(event | documents.job(record) | {"created": placed.created})
    elif record.status is Status.SUCCEEDED:
        print_json(record.result)
    return _code(record.status)


def _code(status: Status) -> int:
    if status is Status.SUCCEEDED:
        return OK
    return ENDED_BADLY if status.final else TIMED_OUT


async def _waited_for(app: Leasehold, placed: Enqueued[Any], patience: Patience, json: bool) -> JobRecord:
    """The job as it stands when it has ended, or when patience has."""
    door = app.tenant(placed.tenant)
    try:
        if patience.follow:
            lines = followed(door.jobs, placed.id)
            with suppress(TimeoutError):
                async with asyncio.timeout(patience.timeout.total_seconds()):
                    await (print_lines(lines, event="line") if json else show_lines(lines, said))
            return await door.aget(placed.id)
        return await door.jobs.wait_until_final(placed.id, patience.timeout) or await door.aget(placed.id)
    except (asyncio.CancelledError, LeaseholdError):
        said.print(f"job {placed.id} goes on. See: leasehold logs {placed.id} -f")
        raise


def _show_placed(placed: Enqueued[Any], order: Order) -> None:
    show_line(shown, placed.id)
    if placed.created:
        said.print(printable(f"✓ {placed.definition} enqueued for {placed.tenant}"), markup=False)
        return
    held = "this id" if order.options["id"] == placed.id else f"dedupe key {order.options['dedupe_key']!r}"
    said.print(printable(f"= nothing new was enqueued: job {placed.id} has {held}"), markup=False)


def _event(name: str, patience: Patience) -> dict[str, str]:
    """Where several documents follow each other, each says what it is."""
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
    said.print(printable(line), markup=False)
