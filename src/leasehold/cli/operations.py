"""`leasehold operations`: lists, shows, follows and aborts operations on many jobs."""

from typing import Annotated

import typer

from leasehold.cli import bulk as shown
from leasehold.cli.format import ago, at, utc_now
from leasehold.cli.help import Command, Group
from leasehold.cli.options import ForTenant, Json, Schema, Url, ask, read_tenant
from leasehold.cli.output import explain_errors, print_json, stderr, stdout
from leasehold.cli.tables import show_line, show_table
from leasehold.control import Control
from leasehold.model.operation import OperationState
from leasehold.operations import views
from leasehold.operations.statuses import FAILED
from leasehold.operations.views import format_count
from leasehold.store import Operation

commands = typer.Typer(cls=Group, no_args_is_help=True)

TheOperation = Annotated[str, typer.Argument(metavar="ID", help="The whole id of the operation.")]


@commands.callback()
def operations() -> None:
    """Look at operations on many jobs, or abort them.

    They are begun by retry, cancel and tenants delete. All commands take --json.
    """


@commands.command("list", cls=Command)
def list_all(
    tenant: ForTenant = None,
    limit: Annotated[int, typer.Option("--limit", "-n", help="At most so many.", min=1, max=1000)] = 20,
    cursor: Annotated[str | None, typer.Option(help="Where the page before ended; it says so below.")] = None,
    url: Url = None,
    schema: Schema = None,
    json: Json = False,
) -> None:
    """List operations, newest first: of one tenant, or of all."""
    with explain_errors(json):
        owner = read_tenant(tenant)
        page = ask(url, schema, lambda control: control.operations.list(owner, cursor, limit))
        if json:
            print_json([views.operation(each) for each in page.operations])
        elif page.operations:
            columns = ["ID", "KIND", "TENANT", "BEGUN", "PROGRESS"]
            show_table(stdout, columns, [_row(each) for each in page.operations])
        stderr.print(format_count(len(page.operations), "operation"))
        if page.next:
            stderr.print(f"more: the same with --cursor {page.next}", markup=False)


@commands.command("show", cls=Command)
def show(operation: TheOperation, url: Url = None, schema: Schema = None, json: Json = False) -> None:
    """Show an operation: what it changes, and how far it is."""
    with explain_errors(json):
        found = ask(url, schema, lambda control: control.operations.get(operation))
        if json:
            print_json(views.operation(found))
        else:
            _show(found)


@commands.command("run", cls=Command)
def run(operation: TheOperation, url: Url = None, schema: Schema = None, json: Json = False) -> None:
    """Run an operation in this process until it has ended, beside the workers that do.

    With --api, only follow it.
    """

    async def follow(control: Control) -> Operation:
        return await shown.follow(control, await control.operations.get(operation), json)

    with explain_errors(json):
        ended = ask(url, schema, follow)
        shown.show_end(ended, json)
    raise typer.Exit(FAILED if ended.state is OperationState.FAILED else 0)


@commands.command("abort", cls=Command)
def abort(operation: TheOperation, url: Url = None, schema: Schema = None, json: Json = False) -> None:
    """End an operation before its next batch.

    Jobs that it has changed stay as they are.
    """
    with explain_errors(json):
        shown.show_end(ask(url, schema, lambda control: control.operations.abort(operation)), json)


def _row(operation: Operation) -> list[str]:
    begun = ago(operation.created_at, utc_now())
    return [operation.id, operation.kind, operation.tenant, begun, shown.progress(operation)]


def _show(operation: Operation) -> None:
    document = views.operation(operation)
    show_line(stdout, f"{operation.kind} of {operation.tenant}: {shown.progress(operation)}")
    for name in ("filter", "pace", "canary", "canary_job", "created_by", "reason"):
        if document[name]:
            show_line(stdout, f"  {name:<11} {document[name]}")
    for name in ("created_at", "started_at", "ended_at", "due_at"):
        if (moment := getattr(operation, name)) is not None:
            show_line(stdout, f"  {name:<11} {at(moment)}")
    for name, count in sorted(operation.details.items()):
        show_line(stdout, f"  {name:<16} {count:,}")
