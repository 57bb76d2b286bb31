"""The audit log in Postgres: a table that no role but the schema's owner can shorten."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import orjson
from asyncpg import Record

from leasehold.engines.postgres import pages
from leasehold.engines.postgres.confined import TenantDatabases
from leasehold.errors import InvalidInput
from leasehold.model.audit import Actor, AuditEntry, NewEntry
from leasehold.model.job import TenantId
from leasehold.store.audit import AuditFilter, AuditPage

_LEAST = UUID(int=0)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class PostgresAuditLog:
    def __init__(self, databases: TenantDatabases) -> None:
        self._databases = databases

    async def append(self, entry: NewEntry) -> None:
        await self._databases.of_one_or_all(entry.tenant).fetch(
            "audit/append",
            action=entry.action,
            subject=entry.subject,
            tenant=entry.tenant,
            actor=entry.actor.name,
            token=entry.actor.token,
            request=entry.actor.request,
            before=_text(entry.before),
            after=_text(entry.after),
        )

    async def page(self, where: AuditFilter, cursor: str | None, limit: int) -> AuditPage:
        found = await self._databases.of_one_or_all(where.tenant).fetch(
            "audit/page",
            tenant=where.tenant,
            action=where.action,
            from_id=_LEAST if where.after is None else _first_id(where.after),
            up_to=_up_to(cursor, where.before),
            limit=pages.one_more_than(limit),
        )
        entries = [_entry(row) for row in found[:limit]]
        return AuditPage(entries, entries[-1].id if len(found) > limit else None)

    async def prune(self, limit: int) -> int:
        try:
            ((pruned,),) = await self._databases.whole.fetch("audit/prune", limit=limit)
        except InvalidInput as error:
            if not isinstance(error.__cause__, asyncpg.InsufficientPrivilegeError):
                raise
            return 0
        return int(pruned)


def _text(document: Any) -> str | None:
    return None if document is None else orjson.dumps(document).decode()


def _first_id(moment: datetime) -> UUID:
    """Returns the least id that leasehold.uuid7() makes at this moment."""
    millis, micros = divmod(max(0, (moment - _EPOCH) // timedelta(microseconds=1)), 1000)
    return UUID(int=millis << 80 | 0x7000 + micros * 4096 // 1000 << 64)


def _up_to(cursor: str | None, before: datetime | None) -> UUID:
    """Returns the greatest id of the page."""
    behind = pages.behind(cursor) or _LEAST
    return behind if before is None else min(behind, UUID(int=max(1, _first_id(before).int) - 1))


def _entry(row: Record) -> AuditEntry:
    actor = Actor(row["actor"], row["token_id"], row["request_id"])
    tenant = None if row["tenant_id"] is None else TenantId(row["tenant_id"])
    before, after = (None if row[name] is None else orjson.loads(row[name]) for name in ("before", "after"))
    return AuditEntry(
        str(row["id"]), row["at"], NewEntry(row["action"], row["subject"], actor, tenant, before, after)
    )
