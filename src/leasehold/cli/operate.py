"""`leasehold workers` and `leasehold prune`."""

from datetime import datetime
from typing import Annotated

import typer
from rich.text import Text

from leasehold.app import Leasehold
from leasehold.cli import documents
from leasehold.cli.options import Json, Schema, Url, ask
from leasehold.cli.output import explained, print_json, said, shown
from leasehold.cli.tables import Cell, show_line, show_table
from leasehold.cli.words import ago, counted, short, time_of_day, utc_now
from leasehold.store import WorkerRecord

IN_A_BATCH = 1000


def workers(url: Url = None, schema: Schema = None, json: Json = False) -> None:
    """List the workers that are alive, and what they serve."""
    with explained(json):
        found = ask(url, schema, lambda app: app.store.workers())
        if json:
            print_json([documents.worker(record) for record in found])
        elif found:
            now = utc_now()
            columns = ["ID", "HOST:PID", "VERSION", "SLOTS", "RUNNING", "SEEN", "SERVES"]
            show_table(shown, columns, [_worker(record, now) for record in found])
        said.print(f"{counted(len(found), 'worker')} · {time_of_day(utc_now())} UTC")


def _worker(record: WorkerRecord, now: datetime) -> list[Cell]:
    lost = record.lease_expires_at < now
    tenants = f" for {', '.join(record.serves.tenants)}" if record.serves.tenants is not None else ""
    return [
        short(record.id),
        f"{record.facts.host}:{record.facts.pid}",
        record.facts.version or "–",
        str(record.facts.slots),
        str(record.running),
        Text(ago(record.last_seen_at, now) + (", lease over" if lost else ""), style="red" if lost else ""),
        ", ".join(record.serves.definitions) + tenants,
    ]


def prune(
    limit: Annotated[int | None, typer.Option(help="Stop after so many. Default: when none is left.", min=1)] = None,
    url: Url = None,
    schema: Schema = None,
    json: Json = False,
) -> None:
    """Delete ended jobs whose retention is over.

    In small batches, until none is left; how many goes to stdout. Workers do it too, in their own time.
    """
    with explained(json):
        pruned = ask(url, schema, lambda app: _prune(app, limit))
        if json:
            print_json({"pruned": pruned})
        else:
            show_line(shown, str(pruned))
        if pruned == limit:
            said.print(f"stopped at --limit {limit}; there may be more")


async def _prune(app: Leasehold, limit: int | None) -> int:
    pruned = 0
    while limit is None or pruned < limit:
        batch = await app.store.prune(IN_A_BATCH if limit is None else min(IN_A_BATCH, limit - pruned))
        if not batch:
            break
        pruned += batch
        said.print(f"pruned {counted(pruned, 'job')}")
    return pruned
