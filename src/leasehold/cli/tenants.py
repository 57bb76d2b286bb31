"""`leasehold tenants`: lists, registers, measures, exports and deletes tenants."""

import sys
from contextlib import aclosing
from typing import Annotated

import typer

from leasehold.cli import bulk as shown
from leasehold.cli.format import ago, at, utc_now
from leasehold.cli.help import Command, Group
from leasehold.cli.options import Json, Schema, Url, ask
from leasehold.cli.output import explain_errors, print_json, stderr, stdout
from leasehold.cli.tables import show_line, show_table
from leasehold.config import read_switch
from leasehold.control import Control
from leasehold.errors import InvalidInput
from leasehold.model.job import TenantId, tenant_id
from leasehold.model.operation import read_pace
from leasehold.operations import tenants as life
from leasehold.operations import views
from leasehold.operations.views import format_count, visible
from leasehold.store import Operation, TenantUsage

commands = typer.Typer(cls=Group, invoke_without_command=True)

Limit = Annotated[int, typer.Option("--limit", "-n", help="At most so many.", min=1, max=100_000)]
TheTenant = Annotated[str, typer.Argument(metavar="ID", help="The tenant's id.")]


@commands.callback()
def tenants(
    context: typer.Context,
    limit: Limit = 1000,
    add: Annotated[str | None, typer.Option(help="Register a tenant before its first job.")] = None,
    strict: Annotated[
        str | None, typer.Option(help="on: refuse jobs of tenants that were never registered; off: accept them.")
    ] = None,
    url: Url = None,
    schema: Schema = None,
    json: Json = False,
) -> None:
    """List or register tenants; measure, export or delete one."""
    if context.invoked_subcommand is not None:
        if url or schema or json or add or strict:
            raise typer.BadParameter(f"options belong after {context.invoked_subcommand}, not before it")
        return
    with explain_errors(json):
        if add is not None or strict is not None:
            _change_tenants(add, strict, url, schema, json)
        else:
            _list(limit, None, url, schema, json)


@commands.command("list", cls=Command)
def list_all(
    limit: Limit = 1000,
    cursor: Annotated[str | None, typer.Option(help="The last tenant of the page before.")] = None,
    url: Url = None,
    schema: Schema = None,
    json: Json = False,
) -> None:
    """List tenants, by name."""
    with explain_errors(json):
        _list(limit, cursor, url, schema, json)


def _list(limit: int, cursor: str | None, url: str | None, schema: str | None, json: bool) -> None:
    page, is_strict = ask(url, schema, lambda control: control.tenants.list(cursor, limit))
    if json:
        print_json(list(page.tenants))
    else:
        for tenant in page.tenants:
            show_line(stdout, visible(tenant))
    more = ", maybe more: --limit, or list --cursor with the last one" if page.next else ""
    others = "; strict: jobs of other tenants are refused" if is_strict else ""
    stderr.print(format_count(len(page.tenants), "tenant") + more + others)


def _change_tenants(add: str | None, strict: str | None, url: str | None, schema: str | None, json: bool) -> None:
    new, on = None if add is None else tenant_id(add), None if strict is None else read_switch(strict)
    is_new, is_strict = ask(url, schema, lambda control: control.tenants.change(new, on))
    if json:
        print_json({"tenant": new, "added": is_new, "strict_tenants": is_strict})
        return
    if new is not None:
        stderr.print(
            f"✓ tenant {visible(new)} {'is registered' if is_new else 'was registered before'}", markup=False
        )
    if on is not None:
        stderr.print(f"✓ strict tenants are {'on' if on else 'off'}", markup=False)


@commands.command("usage", cls=Command)
def usage(tenant: TheTenant, url: Url = None, schema: Schema = None, json: Json = False) -> None:
    """Show what a tenant has: jobs by status, triggers, limit and pause.

    Each is counted up to 10,000.
    """
    with explain_errors(json):
        owner = tenant_id(tenant)
        used = ask(url, schema, lambda control: control.tenants.usage(owner))
        if json:
            print_json(views.usage(used))
        else:
            _show(used)


def _show(used: TenantUsage) -> None:
    counted = [(status.value, number) for status, number in used.jobs.items()] + [("triggers", used.triggers)]
    rows = [[name, f"{number:,}" + ("+" if number == life.COUNTED else "")] for name, number in counted]
    show_table(stdout, [visible(used.tenant).upper(), "COUNT"], rows)
    if used.oldest_queued is not None:
        show_line(stdout, f"oldest queued: {ago(used.oldest_queued, utc_now())}")
    if used.max_running is not None:
        show_line(stdout, f"runs at most {format_count(used.max_running, 'job')}")
    if used.paused_because is not None:
        until = f" until {at(used.paused_until)}" if used.paused_until else ""
        show_line(stdout, f"paused{until}: {used.paused_because}")
    if used.deleted_by is not None:
        show_line(stdout, f"is being deleted: leasehold operations show {used.deleted_by}")


@commands.command("export", cls=Command)
def export(tenant: TheTenant, url: Url = None, schema: Schema = None, json: Json = False) -> None:
    """Print all that a tenant has, as one JSON document a line.

    Its triggers, and its jobs with attempts and log lines; without secrets.
    """
    with explain_errors(json):
        owner = tenant_id(tenant)
        written = ask(url, schema, lambda control: _write(control, owner))
        stderr.print(format_count(written, "line"))


async def _write(control: Control, tenant: TenantId) -> int:
    written = 0
    async with aclosing(control.tenants.export(tenant)) as documents:
        async for document in documents:
            sys.stdout.write(views.as_json(document).decode() + "\n")
            written += 1
    sys.stdout.flush()
    return written


@commands.command("delete", cls=Command)
def delete(
    tenant: TheTenant,
    yes: Annotated[bool, typer.Option("--yes", help="Really delete it, for ever.")] = False,
    pace: Annotated[str | None, typer.Option("--pace", help="At most so many rows, as 1000/s.")] = None,
    detach: shown.Detach = False,
    url: Url = None,
    schema: Schema = None,
    json: Json = False,
) -> None:
    """Delete a tenant with all that it has.

    New jobs are refused at once, running ones are stopped. The record of the operation stays.
    """
    with explain_errors(json):
        owner = tenant_id(tenant)
        if not yes:
            raise InvalidInput(
                f"Tenant {tenant!r} would be deleted with all that it has, and nothing was changed yet.",
                fix=f"Keep a copy: leasehold tenants export {tenant} > {tenant}.jsonl. Then add --yes.",
            )
        speed = None if pace is None else read_pace(pace)

        async def begin(control: Control) -> Operation:
            operation = await control.tenants.delete(owner, speed)
            return operation if detach else await shown.follow(control, operation, json)

        shown.show_end(ask(url, schema, begin), json, detached=detach)
