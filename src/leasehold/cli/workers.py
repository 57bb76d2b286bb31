"""`leasehold workers` and `leasehold prune`."""

from datetime import datetime
from typing import Annotated

import typer
from rich.text import Text

from leasehold.app import Leasehold
from leasehold.cli.format import ago, short, time_of_day, utc_now
from leasehold.cli.options import Json, Schema, Url, ask, ask_database
from leasehold.cli.output import explain_errors, print_json, stderr, stdout
from leasehold.cli.tables import Cell, show_line, show_table
from leasehold.operations import admin, views
from leasehold.operations.views import describe_subscription, format_count
from leasehold.store import WorkerRecord


def workers(url: Url = None, schema: Schema = None, json: Json = False) -> None:
    """List the workers that are alive, and what they serve."""
    with explain_errors(json):
        found = ask(url, schema, lambda control: control.workers())
        if json:
            print_json([views.worker(record) for record in found])
        elif found:
            now = utc_now()
            columns = ["ID", "HOST:PID", "VERSION", "SLOTS", "RUNNING", "SEEN", "SERVES"]
            show_table(stdout, columns, [_worker(record, now) for record in found])
        stderr.print(f"{format_count(len(found), 'worker')} · {time_of_day(utc_now())} UTC")


def _worker(record: WorkerRecord, now: datetime) -> list[Cell]:
    lost = record.lease_expires_at < now
    return [
        short(record.id),
        f"{record.facts.host}:{record.facts.pid}",
        record.facts.version or "–",
        str(record.facts.slots),
        str(record.running),
        Text(ago(record.last_seen_at, now) + _remark(record, lost), style="red" if lost else ""),
        describe_subscription(record.serves),
    ]


def _remark(record: WorkerRecord, lost: bool) -> str:
    if lost:
        return ", lease over"
    return "" if record.drains_since is None else ", draining"


def prune(
    limit: Annotated[int | None, typer.Option(help="Stop after so many. Default: when none is left.", min=1)] = None,
    url: Url = None,
    schema: Schema = None,
    json: Json = False,
) -> None:
    """Delete ended jobs whose retention is over.

    In small batches, until none is left; how many goes to stdout. Workers do it too, in their own time. Run by the
    owner of the schema, it also deletes old entries of the audit log.
    """
    with explain_errors(json):
        pruned, entries = ask_database(url, schema, lambda app: _prune(app, limit))
        if json:
            print_json({"pruned": pruned, "audit_entries": entries})
        else:
            show_line(stdout, str(pruned))
        if pruned == limit:
            stderr.print(f"stopped at --limit {limit}; there may be more")


async def _prune(app: Leasehold, limit: int | None) -> tuple[int, int]:
    pruned = await admin.prune(app.store, limit, _tell_pruned)
    entries = await admin.prune_audit(app.store)
    if entries:
        stderr.print(f"pruned {format_count(entries, 'line')} of the audit log")
    return pruned, entries


def _tell_pruned(pruned: int) -> None:
    stderr.print(f"pruned {format_count(pruned, 'job')}")
