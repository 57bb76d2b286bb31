"""The audit log in DynamoDB: entries by time, again by tenant and by action, so that each listing reads by keys.

An IAM policy that denies UpdateItem and DeleteItem for keys that begin with `audit` makes it append-only. Old entries
are deleted by the TTL of the table.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import orjson

from leasehold.engines.dynamodb.clock import Clock
from leasehold.engines.dynamodb.find import require_limit
from leasehold.engines.dynamodb.keys import read_timestamp, timestamp
from leasehold.engines.dynamodb.table import NEW, Put, Table
from leasehold.engines.dynamodb.wire import Item
from leasehold.errors import InvalidInput
from leasehold.model.audit import Actor, AuditEntry, NewEntry
from leasehold.model.bounds import EARLIEST, LATEST
from leasehold.model.job import TenantId
from leasehold.store.audit import AuditFilter, AuditPage

ALL = "audit"
KEPT = timedelta(days=400)


class DynamoAuditLog:
    def __init__(self, table: Table, clock: Clock) -> None:
        self._table = table
        self._clock = clock

    async def append(self, entry: NewEntry) -> None:
        now = await self._clock.now()
        item = {
            "SK": f"{timestamp(now)}#{uuid4()}",
            "action": entry.action,
            "subject": entry.subject,
            "tenant": entry.tenant,
            "actor": entry.actor.name,
            "token": entry.actor.token,
            "request": entry.actor.request,
            "before": _text(entry.before),
            "after": _text(entry.after),
            "ttl": int((now + KEPT).timestamp()),
        }
        stored = {name: value for name, value in item.items() if value is not None}
        await self._table.transact([Put({"PK": pk, **stored}, NEW) for pk in _partitions(entry)])

    async def page(self, where: AuditFilter, cursor: str | None, limit: int) -> AuditPage:
        require_limit(limit)
        earliest, latest = timestamp(where.after or EARLIEST), timestamp(where.before or LATEST)
        last = latest if cursor is None else min(latest, _require_cursor(cursor))
        values = {"pk": _partition(where), "earliest": earliest, "latest": last}
        both = where.tenant is not None and where.action is not None
        found: list[Item] = []
        listed = self._table.query(
            "#PK = :pk AND #SK BETWEEN :earliest AND :latest",
            values | ({"action": where.action} if both else {}),
            backward=True,
            only="#action = :action" if both else None,
            limit=None if both else limit + 2,
        )
        async for item in listed:
            if item["SK"] != last:  # the bounds of BETWEEN belong to it
                found.append(item)
            if len(found) > limit:
                break
        entries = [_entry(item) for item in found[:limit]]
        return AuditPage(entries, entries[-1].id if len(found) > limit else None)

    async def prune(self, limit: int) -> int:
        return 0


def _partitions(entry: NewEntry) -> Iterator[str]:
    yield ALL
    yield f"{ALL}#action#{entry.action}"
    if entry.tenant is not None:
        yield f"{ALL}#tenant#{entry.tenant}"


def _partition(where: AuditFilter) -> str:
    if where.tenant is not None:
        return f"{ALL}#tenant#{where.tenant}"
    return ALL if where.action is None else f"{ALL}#action#{where.action}"


def _text(document: Any) -> str | None:
    return None if document is None else orjson.dumps(document).decode()


def _require_cursor(cursor: str) -> str:
    try:
        _moment(cursor)
    except (ValueError, TypeError, AttributeError) as error:
        raise InvalidInput(
            f"{cursor!r:.120} is not a cursor of this listing.",
            fix="Nothing was read. Pass the `next` of the page before, or none.",
        ) from error
    return cursor


def _moment(sk: str) -> datetime:
    return read_timestamp(sk.partition("#")[0])


def _entry(item: Item) -> AuditEntry:
    actor = Actor(item["actor"], item.get("token"), item.get("request"))
    tenant = TenantId(item["tenant"]) if "tenant" in item else None
    before, after = (orjson.loads(item[name]) if name in item else None for name in ("before", "after"))
    entry = NewEntry(item["action"], item["subject"], actor, tenant, before, after)
    return AuditEntry(item["SK"], _moment(item["SK"]), entry)
