"""`leasehold events`: emits events, lists them, and shows what triggers would do with one."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.text import Text

from leasehold.cli.format import at, short
from leasehold.cli.help import Command, Group
from leasehold.cli.options import ForTenant, Json, Schema, Url, ask, require_tenant
from leasehold.cli.output import explain_errors, print_json, stderr, stdout
from leasehold.cli.payload import read_document
from leasehold.cli.tables import Cell, show_line, show_table
from leasehold.cli.trigger_tables import decision_style
from leasehold.control import Control
from leasehold.control.protocol import Document
from leasehold.errors import NoTenant
from leasehold.model.decision import Decision
from leasehold.model.event import Event, event_name
from leasehold.model.event_plan import Emitted
from leasehold.model.payload import encode_plain
from leasehold.operations import views
from leasehold.operations.views import format_count, printable

Name = Annotated[str, typer.Argument(help="Dotted words, as in provider.folder.updated.")]
Data = Annotated[str | None, typer.Option("--data", help="JSON, @file, or - for stdin. Default: {}.")]
CorrelationId = Annotated[str | None, typer.Option(help="Yours; its jobs get it, too.")]
CreatedBy = Annotated[str | None, typer.Option(help="Its author, for people.")]
OwnId = Annotated[str | None, typer.Option("--id", help="A UUID: emit it once, however often you call.")]
Limit = Annotated[int, typer.Option("--limit", "-n", help="At most so many.", min=1, max=10_000)]
OfName = Annotated[str | None, typer.Option("--name", help="Only events of this name.")]

commands = typer.Typer(cls=Group, invoke_without_command=True)

LISTED = 50
_STYLES = {"fires": "green", "trailing": "green", "deduped": "dim", "skipped": "yellow", "error": "red"}


@commands.callback()
def events(
    context: typer.Context,
    tenant: ForTenant = None,
    url: Url = None,
    schema: Schema = None,
    json: Json = False,
) -> None:
    """List, emit or test events."""
    if context.invoked_subcommand is None:
        _list(tenant, None, LISTED, url, schema, json)
    elif url or schema or json:
        raise typer.BadParameter(f"options belong after {context.invoked_subcommand}, not before it")


@commands.command(cls=Command)
def emit(
    name: Name,
    data: Data = None,
    tenant: ForTenant = None,
    correlation_id: CorrelationId = None,
    created_by: CreatedBy = None,
    own_id: OwnId = None,
    url: Url = None,
    schema: Schema = None,
    json: Json = False,
) -> None:
    """Emit an event: triggers that match enqueue their jobs."""
    with explain_errors(json):
        owner, document = require_tenant(url, tenant, _no_tenant()), _read(data)
        given: dict[str, Any] = {"correlation_id": correlation_id, "created_by": created_by, "id": own_id}

        async def emit(control: Control) -> Emitted:
            return await control.events.emit(await control.tenant(owner, _no_tenant()), name, document, given)

        emitted = ask(url, schema, emit)
        if json:
            print_json(views.emitted(emitted))
        else:
            _show_emitted(emitted)


@commands.command("ls", cls=Command)
def list_all(
    tenant: ForTenant = None,
    name: OfName = None,
    limit: Limit = LISTED,
    url: Url = None,
    schema: Schema = None,
    json: Json = False,
) -> None:
    """List the latest events of a tenant, the newest first."""
    _list(tenant, name, limit, url, schema, json)


def _list(tenant: str | None, name: str | None, limit: int, url: str | None, schema: str | None, json: bool) -> None:
    with explain_errors(json):
        owner, only = require_tenant(url, tenant, _no_tenant()), None if name is None else event_name(name)

        async def read(control: Control) -> Sequence[Event]:
            return await control.events.list(await control.tenant(owner, _no_tenant()), limit, only)

        found = ask(url, schema, read)
        if json:
            print_json([views.event(each) for each in found])
        elif found:
            show_table(stdout, ["ID", "AT", "NAME", "TRIGGERS", "DATA"], map(_event_row, found))
        stderr.print(format_count(len(found), "event"))


@commands.command("test", cls=Command)
def try_out(
    name: Name,
    data: Data = None,
    tenant: ForTenant = None,
    url: Url = None,
    schema: Schema = None,
    json: Json = False,
) -> None:
    """Show what triggers would do with an event. Writes nothing."""
    with explain_errors(json):
        owner, document = require_tenant(url, tenant, _no_tenant()), _read(data)

        async def test(control: Control) -> Sequence[Document]:
            return await control.events.test(await control.tenant(owner, _no_tenant()), name, document)

        tests = ask(url, schema, test)
        if json:
            print_json(tests)
        elif tests:
            show_table(stdout, ["TRIGGER", "DEFINITION", "RESULT", "LABEL", "WHY OR PAYLOAD"], map(_test_row, tests))
        jobs = format_count(sum(each["result"] == "fires" for each in tests), "job")
        stderr.print(f"{format_count(len(tests), 'trigger')}: {jobs} would be made, and none was.")


def _no_tenant() -> NoTenant:
    return NoTenant("an event belongs to a tenant. Nothing was emitted.", fix="Write --tenant acme.")


def _read(data: str | None) -> dict[str, Any]:
    return {} if data is None else read_document(data, "--data")


# ------------------------------------------------------------------------------------------------------------- show


def _show_emitted(emitted: Emitted) -> None:
    made = format_count(len(emitted.jobs), "job")
    state = "is emitted" if emitted.created else "was emitted before"
    stderr.print(printable(f"✓ event {emitted.name} of {emitted.tenant} {state}, {made}"), markup=False)
    show_line(stdout, emitted.id)
    if emitted.decisions:
        show_table(stdout, ["TRIGGER", "DECISION", "JOB", "WHY"], map(_decision_row, emitted.decisions))


def _decision_row(decision: Decision) -> list[Cell]:
    return [
        short(decision.trigger),
        Text(decision.kind.value, style=decision_style(decision.kind)),
        "–" if decision.job is None else short(decision.job),
        views.decision_reason(decision) or "–",
    ]


def _event_row(event: Event) -> list[Cell]:
    expanded = Text("waits", style="yellow") if event.expanded_at is None else Text("decided", style="green")
    return [short(event.id), at(event.at), event.name, expanded, encode_plain(views.event(event)["data"])]


def _test_row(test: Document) -> list[Cell]:
    word, holder = test["result"], test["held_by"]
    told = test["why"] if test["reason"] else "–" if test["payload"] is None else encode_plain(test["payload"])
    if holder is not None:
        until = at(datetime.fromisoformat(holder["until"]))
        told = f"job {short(holder['job'])} holds the dedupe key until {until}: {told}"
    return [
        short(test["trigger"]),
        test["definition"],
        Text(word, style=_STYLES.get(word, "dim")),
        test["label"],
        told,
    ]
