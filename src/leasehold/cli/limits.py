"""`leasehold limits`, `limit`, `pause`, `resume`, `tenants` and `counts`."""

from typing import Annotated

import typer

from leasehold.cli.format import at, utc_now
from leasehold.cli.options import ForTenant, Json, Schema, Url, ask, read_tenant
from leasehold.cli.output import explain_errors, print_json, stderr, stdout
from leasehold.cli.tables import show_line, show_table
from leasehold.config import read_switch
from leasehold.errors import NoTenant
from leasehold.model.duration import read_duration
from leasehold.model.job import tenant_id
from leasehold.model.limits import Scope, ScopeKind
from leasehold.model.status import Status
from leasehold.operations import admin, jobs, views
from leasehold.operations.views import format_count, printable, visible
from leasehold.store import ScopeRecord

COUNTED = 10_000

Kind = Annotated[ScopeKind, typer.Argument(help="tenant or definition.")]
Key = Annotated[str, typer.Argument(help="The tenant's id, or the definition's key.")]


def limits(url: Url = None, schema: Schema = None, json: Json = False) -> None:
    """List the limits and pauses of tenants and definitions."""
    with explain_errors(json):
        found = ask(url, schema, lambda app: admin.scopes(app.store))
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
        ask(url, schema, lambda app: admin.limit(app.store, scope, max_running))
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
    """Start nothing more of a tenant or definition, until it is resumed.

    Jobs that already run go on, and new ones can be enqueued.
    """
    with explain_errors(json):
        scope, length = admin.scope_of(kind, key), None if lasting is None else read_duration(lasting)
        ask(url, schema, lambda app: admin.pause(app.store, scope, why, length))
        _confirm(scope, json, f"is paused: {why}")


def resume(kind: Kind, key: Key, url: Url = None, schema: Schema = None, json: Json = False) -> None:
    """End the pause of a tenant or definition."""
    with explain_errors(json):
        scope = Scope(kind, key)
        ask(url, schema, lambda app: admin.resume(app.store, scope))
        _confirm(scope, json, "is not paused")


def _confirm(scope: Scope, json: bool, state: str) -> None:
    if json:
        print_json({"kind": scope.kind, "key": scope.key, "state": state})
    else:
        stderr.print(printable(f"✓ {scope.kind} {visible(scope.key)} {state}"), markup=False)


def _row(record: ScopeRecord) -> list[str]:
    until = f" (until {at(record.paused_until)})" if record.paused_until and record.paused_because else ""
    return [
        record.scope.kind,
        record.scope.key,
        "–" if record.max_running is None else str(record.max_running),
        "–" if record.paused_because is None else f"{record.paused_because}{until}",
    ]


def tenants(
    limit: Annotated[int, typer.Option("--limit", "-n", help="At most so many.", min=1, max=100_000)] = 1000,
    add: Annotated[str | None, typer.Option(help="Register a tenant before its first job.")] = None,
    strict: Annotated[
        str | None, typer.Option(help="on: refuse jobs of tenants that were never registered; off: accept them.")
    ] = None,
    url: Url = None,
    schema: Schema = None,
    json: Json = False,
) -> None:
    """List the tenants, by name; register one; or make the database refuse tenants that were never registered."""
    with explain_errors(json):
        if add is not None or strict is not None:
            _change_tenants(add, strict, url, schema, json)
            return
        found, is_strict = ask(url, schema, lambda app: admin.tenants(app.store, limit))
        if json:
            print_json(list(found))
        else:
            for tenant in found:
                show_line(stdout, visible(tenant))
        more = ", maybe more: --limit" if len(found) == limit else ""
        others = "; strict: jobs of other tenants are refused" if is_strict else ""
        stderr.print(format_count(len(found), "tenant") + more + others)


def _change_tenants(add: str | None, strict: str | None, url: str | None, schema: str | None, json: bool) -> None:
    new, on = None if add is None else tenant_id(add), None if strict is None else read_switch(strict)
    is_new, is_strict = ask(url, schema, lambda app: admin.change_tenants(app.store, new, on))
    if json:
        print_json({"tenant": new, "added": is_new, "strict_tenants": is_strict})
        return
    if new is not None:
        stderr.print(
            f"✓ tenant {visible(new)} {'is registered' if is_new else 'was registered before'}", markup=False
        )
    if on is not None:
        stderr.print(f"✓ strict tenants are {'on' if on else 'off'}", markup=False)


def counts(tenant: ForTenant = None, url: Url = None, schema: Schema = None, json: Json = False) -> None:
    """Count a tenant's jobs by status, each up to 10,000."""
    with explain_errors(json):
        owner = read_tenant(tenant)
        if owner is None:
            raise NoTenant("counts needs a tenant. Nothing was counted.", fix="Write --tenant acme.")
        found = ask(url, schema, lambda app: jobs.counts(app.store, owner, COUNTED))
        if json:
            print_json({status.value: found.get(status, 0) for status in Status})
        else:
            rows = [[status, f"{number:,}" + ("+" if number == COUNTED else "")] for status, number in found.items()]
            show_table(stdout, ["STATUS", "JOBS"], rows)
        stderr.print(f"{owner} · {at(utc_now())}", markup=False)
