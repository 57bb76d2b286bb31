"""`leasehold audit`: lists the changes of administrators."""

from collections.abc import Mapping
from shlex import quote
from typing import Annotated, Any

import typer

from leasehold.cli.format import at
from leasehold.cli.options import Json, Schema, Url, ask, read_tenant
from leasehold.cli.output import explain_errors, print_json, stderr, stdout
from leasehold.cli.payload import read_moment
from leasehold.cli.tables import Cell, show_table
from leasehold.model.audit import AuditEntry
from leasehold.operations import views
from leasehold.store import AuditFilter


def audit(
    tenant: Annotated[str | None, typer.Option("--tenant", "-t", help="About this tenant.")] = None,
    action: Annotated[str | None, typer.Option(help="Only this, as in definition.override or job.cancel.")] = None,
    after: Annotated[str | None, typer.Option(help="At or after a time, as 2030-01-31T09:00Z.")] = None,
    before: Annotated[str | None, typer.Option(help="Before a time.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", help="At most so many.", min=1, max=1000)] = 20,
    cursor: Annotated[str | None, typer.Option(help="Where the page before ended; it says so below.")] = None,
    url: Url = None,
    schema: Schema = None,
    json: Json = False,
) -> None:
    """List what administrators have changed, the newest first.

    With the actor, the token, and the values before and after.
    """
    with explain_errors(json):
        where = AuditFilter(
            read_tenant(tenant),
            action,
            None if after is None else read_moment(after, "--after"),
            None if before is None else read_moment(before, "--before"),
        )
        page = ask(url, schema, lambda control: control.audit(where, cursor, limit))
        if json:
            print_json([views.audit_entry(noted) for noted in page.entries])
        elif page.entries:
            columns = ["AT", "ACTOR", "ACTION", "SUBJECT", "TENANT", "CHANGE"]
            show_table(stdout, columns, [_row(noted) for noted in page.entries])
        count = len(page.entries)
        stderr.print("1 entry" if count == 1 else f"{count:,} entries")
        if page.next:
            stderr.print(f"more: the same with --cursor {quote(page.next)}", markup=False)


def _row(noted: AuditEntry) -> list[Cell]:
    entry = noted.entry
    token = f" ({entry.actor.token})" if entry.actor.token else ""
    change = _describe(entry.before, entry.after)
    return [at(noted.at), entry.actor.name + token, entry.action, entry.subject, entry.tenant or "–", change]


def _describe(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> str:
    if before is None or after is None:
        return "deleted" if after is None and before is not None else _values(after or {})
    return ", ".join(f"{name}: {_text(before.get(name))} → {_text(after.get(name))}" for name in {**before, **after})


def _values(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}: {_text(value)}" for name, value in values.items() if value is not None)


def _text(value: Any) -> str:
    text = views.as_json(value).decode()
    return text if len(text) <= 60 else f"{text[:59]}…"
