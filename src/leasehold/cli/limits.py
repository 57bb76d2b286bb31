"""`leasehold limits`, `limit`, `pause`, `resume` and `counts`."""

from collections.abc import Mapping
from typing import Annotated

import typer

from leasehold.cli.format import at, utc_now
from leasehold.cli.options import ForTenant, Json, Schema, Url, ask, require_tenant
from leasehold.cli.output import explain_errors, print_json, stderr, stdout
from leasehold.cli.tables import show_table
from leasehold.control import Control
from leasehold.control.protocol import COUNTED
from leasehold.errors import NoTenant
from leasehold.model.duration import read_duration
from leasehold.model.job import TenantId
from leasehold.model.limits import Scope, ScopeKind
from leasehold.model.status import Status
from leasehold.operations import admin, views
from leasehold.operations.views import format_count, printable, visible
from leasehold.store import ScopeRecord

Kind = Annotated[ScopeKind, typer.Argument(help="tenant or definition.")]
Key = Annotated[str, typer.Argument(help="The tenant's id, or the definition's key.")]


def limits(url: Url = None, schema: Schema = None, json: Json = False) -> None:
    """List the limits and pauses of tenants and definitions."""
    with explain_errors(json):
        found = ask(url, schema, lambda control: control.limits.list())
        if json:
            print_json([views.scope(record) for record in found])
        elif found:
            show_table(stdout, ["KIND", "KEY", "MAX RUNNING", "PAUSED"], [_row(record) for record in found])
        stderr.print(
            format_count(len(found), "limit or pause") if len(found) == 1 else f"{len(found):,} limits and pauses"
        )


def limit(
    kind: Kind,
    key: Key,
    max_running: Annotated[
        int | None, typer.Option(help="How many of its jobs may run at once. Left out: as many as there are.", min=1)
    ] = None,
    url: Url = None,
    schema: Schema = None,
    json: Json = False,
) -> None:
    """Limit how many jobs of a tenant or definition run at once.

    Without --max-running the limit is lifted. Jobs that already run go on.
    """
    with explain_errors(json):
        scope = admin.scope_of(kind, key)
        ask(url, schema, lambda control: control.limits.limit(scope, max_running))
        _confirm(scope, json, "runs at most " + format_count(max_running, "job") if max_running else "has no limit")


def pause(
    kind: Kind,
    key: Key,
    why: Annotated[str, typer.Argument(help="The reason, for people.")],
    lasting: Annotated[str | None, typer.Option("--for", help="How long, as in 2h. Default: until resumed.")] = None,
    url: Url = None,
    schema: Schema = None,
    json: Json = False,
) -> None:
    """Start no more jobs of a tenant or definition until resumed.

    Jobs that already run go on, and new ones can be enqueued.
    """
    with explain_errors(json):
        scope, length = admin.scope_of(kind, key), None if lasting is None else read_duration(lasting)
        ask(url, schema, lambda control: control.limits.pause(scope, why, length))
        _confirm(scope, json, f"is paused: {why}")


def resume(kind: Kind, key: Key, url: Url = None, schema: Schema = None, json: Json = False) -> None:
    """End the pause of a tenant or definition."""
    with explain_errors(json):
        scope = Scope(kind, key)
        ask(url, schema, lambda control: control.limits.resume(scope))
        _confirm(scope, json, "is not paused")


def _confirm(scope: Scope, json: bool, state: str) -> None:
    if json:
        print_json({"kind": scope.kind, "key": scope.key, "state": state})
    else:
        stderr.print(printable(f"✓ {scope.kind} {visible(scope.key)} {state}"), markup=False)


def _row(record: ScopeRecord) -> list[str]:
    until = f" (until {at(record.paused_until)})" if record.paused_until and record.paused_because else ""
    by = f", by {record.paused_by}" if record.paused_by else ""
    return [
        record.scope.kind,
        record.scope.key,
        "–" if record.max_running is None else str(record.max_running),
        "–" if record.paused_because is None else f"{record.paused_because}{until}{by}",
    ]


def counts(tenant: ForTenant = None, url: Url = None, schema: Schema = None, json: Json = False) -> None:
    """Count a tenant's jobs by status, each up to 10,000."""
    with explain_errors(json):
        missing = NoTenant("counts needs a tenant. Nothing was counted.", fix="Write --tenant acme.")
        named = require_tenant(url, tenant, missing)

        async def count(control: Control) -> tuple[TenantId, Mapping[Status, int]]:
            owner = await control.tenant(named, missing)
            return owner, await control.jobs.counts(owner)

        owner, found = ask(url, schema, count)
        if json:
            print_json({status.value: found.get(status, 0) for status in Status})
        else:
            rows = [[status, f"{number:,}" + ("+" if number == COUNTED else "")] for status, number in found.items()]
            show_table(stdout, ["STATUS", "JOBS"], rows)
        stderr.print(f"{owner} · {at(utc_now())}", markup=False)
