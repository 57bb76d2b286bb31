"""Notes changes by administrators: each verb that changes something for a person goes through `audited`."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import orjson

from leasehold.config import process_redactor
from leasehold.model.audit import MAX_SUBJECT, Actor, NewEntry
from leasehold.model.job import TenantId
from leasehold.operations import views
from leasehold.store import Administration, AuditFilter, AuditPage

T = TypeVar("T")
Document = Mapping[str, Any] | None
Read = Callable[[], Awaitable[Document]]

# Bytes of a document beyond which only its size is noted.
LARGEST = 64 * 1024


async def audited(
    store: Administration,
    actor: Actor | None,
    action: str,
    subject: str,
    change: Callable[[], Awaitable[T]],
    *,
    read: Read | None = None,
    shows: Callable[[T], Document] | None = None,
    tenant: TenantId | None = None,
) -> T:
    """Makes a change, and notes it with the values before and after, redacted.

    `read` returns the values that the change is about, `shows` those of its answer. Without an actor nothing is
    noted: code that uses the app changes its own jobs. If the change raises, nothing is noted either.
    """
    if actor is None:
        return await change()
    async with store.together():
        before = await read() if read else None
        answer = await change()
        after = shows(answer) if shows else await read() if read else None
        await record(store, actor, action, subject, before, after, tenant)
    return answer


async def record(
    store: Administration,
    actor: Actor,
    action: str,
    subject: str,
    before: Document = None,
    after: Document = None,
    tenant: TenantId | None = None,
) -> None:
    """Appends an entry with the values that differ."""
    before, after = _keep_differences(_plain(before), _plain(after))
    await store.audit.append(
        NewEntry(action, subject[:MAX_SUBJECT], actor, tenant, _limit_size(before), _limit_size(after))
    )


async def entries(store: Administration, where: AuditFilter, cursor: str | None, limit: int) -> AuditPage:
    """Returns the entries that match, the newest first."""
    return await store.audit.page(where, cursor, limit)


def _plain(document: Document) -> dict[str, Any] | None:
    if document is None:
        return None
    plain: dict[str, Any] = orjson.loads(views.as_json(dict(document)))
    redacted: dict[str, Any] = process_redactor().document(plain)
    return redacted


def _keep_differences(before: Document, after: Document) -> tuple[Document, Document]:
    if before is None or after is None:
        return before, after
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return tuple({name: each.get(name) for name in names} for each in (before, after))  # type: ignore[return-value]


def _limit_size(document: Document) -> Document:
    if document is None or (size := len(orjson.dumps(document))) <= LARGEST:
        return document
    return {"bytes": size}
