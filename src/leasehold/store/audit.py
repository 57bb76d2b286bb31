"""The audit log of an engine."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from leasehold.model.audit import AuditEntry, NewEntry
from leasehold.model.job import TenantId


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which entries are listed: `after` is the first moment, `before` the first that is not listed any more."""

    tenant: TenantId | None = None
    action: str | None = None
    after: datetime | None = None
    before: datetime | None = None


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Entries, the newest first. `next` is the cursor of the following page; None after the last entry."""

    entries: Sequence[AuditEntry]
    next: str | None


class AuditLog(Protocol):
    """Changes by administrators. Entries are appended, never changed, and deleted only when they are old."""

    async def append(self, entry: NewEntry) -> None: ...

    async def page(self, where: AuditFilter, cursor: str | None, limit: int) -> AuditPage:
        """Returns the entries that match, the newest first; read by keys, however many there are."""

    async def prune(self, limit: int) -> int:
        """Deletes entries that are kept no longer, up to `limit`; returns how many. None if the role may not."""
