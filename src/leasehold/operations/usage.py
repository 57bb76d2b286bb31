"""Usage of a tenant, or of all: attempts, run time and processor time by tenant, definition and time."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from leasehold.model.duration import Duration
from leasehold.model.job import TenantId
from leasehold.model.usage import (
    DEFAULT_LENGTH,
    MOST_ROWS,
    Dimension,
    Usage,
    UsageRow,
    read_dimensions,
    require_few,
    usage_query,
)
from leasehold.store import Store

COLUMNS = ("at", "tenant_id", "definition_key", "attempts", "run_seconds", "cpu_seconds", "cpu_unknown_attempts")


async def read(
    store: Store,
    tenant: TenantId | None,
    since: datetime | Duration = DEFAULT_LENGTH,
    until: datetime | Duration | None = None,
    by: str | Iterable[str] = (),
    definition: str | None = None,
) -> Usage:
    """Reads the usage of a tenant, or of all tenants for None. Raises InvalidInput for what can't be read.

    Times are widened to whole hours of UTC; a duration stands for so long before now. Without `by`, all tenants are
    divided by tenant and definition, and one tenant by definition.
    """
    dimensions = read_dimensions(by) or {Dimension.DEFINITION, *([] if tenant else [Dimension.TENANT])}
    now = await store.now()
    query = usage_query(now, since, until, frozenset(dimensions), definition, of_all=tenant is None)
    if tenant is None:
        found = await store.usage(query, MOST_ROWS + 1)
    else:
        found = await store.tenant(tenant).usage(query, MOST_ROWS + 1)
    return Usage(query, require_few(found))


def as_document(usage: Usage) -> dict[str, Any]:
    """Returns usage as JSON: `rows` in the order of time, the longest run time first."""
    query = usage.query
    return {
        "since": _written(query.since),
        "until": _written(query.till),
        "by": sorted(query.by),
        "rows": [_row(row) for row in usage.rows],
        "total": {name: value for name, value in _row(usage.total).items() if name in COLUMNS[3:]},
    }


def as_csv(document: Mapping[str, Any]) -> str:
    """Returns a document of usage as lines with commas, the line of names first. Times are in UTC."""
    file = io.StringIO()
    writer = csv.DictWriter(file, columns_of(document), extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in document["rows"])
    return file.getvalue()


def columns_of(document: Mapping[str, Any]) -> Sequence[str]:
    """Returns the columns that a document has: not those by which it is not divided."""
    by = document["by"]
    divided = {"at": "hour" in by or "day" in by, "tenant_id": "tenant" in by, "definition_key": "definition" in by}
    return [name for name in COLUMNS if divided.get(name, True)]


def _row(row: UsageRow) -> dict[str, Any]:
    return {
        "at": row.at and _written(row.at),
        "tenant_id": row.tenant,
        "definition_key": row.definition,
        "attempts": row.attempts,
        "run_seconds": row.run.total_seconds(),
        "cpu_seconds": row.cpu.total_seconds() if row.unknown < row.attempts else None,
        "cpu_unknown_attempts": row.unknown,
    }


def _written(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _cell(value: Any) -> Any:
    """Keeps a name that begins like a formula from being one in a spreadsheet."""
    return f"'{value}" if isinstance(value, str) and value[:1] in "=+-@\t\r" else value
