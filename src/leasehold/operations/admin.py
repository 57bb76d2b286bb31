"""Everything that no tenant may do: definitions, limits, pauses, tenants, workers, pruning."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any

from leasehold.model.audit import Actor
from leasehold.model.definition import Change, Definition, Registered, differences, no_such_definition
from leasehold.model.job import TenantId, tenant_id
from leasehold.model.limits import Limits, Pause, Scope, ScopeKind
from leasehold.model.overrides import effective, overridden
from leasehold.operations import views
from leasehold.operations.audit import audited
from leasehold.store import Administration, Fleet, ScopeRecord, WorkerRecord

PRUNED_AT_ONCE = 1000


async def definitions(store: Administration) -> Sequence[Registered]:
    return await store.definitions()


async def definition(store: Administration, key: str) -> Registered:
    """Returns the current version of a definition. Raises UnknownDefinition."""
    known = {registered.definition.key: registered for registered in await store.definitions()}
    if key not in known:
        raise no_such_definition(key, tuple(known))
    return known[key]


async def sync(store: Administration, found: Sequence[Definition], *, dry_run: bool) -> Sequence[Change]:
    """Registers the definitions of the code; with `dry_run`, only returns the changes."""
    return plan_sync(found, await store.definitions()) if dry_run else await store.sync_definitions(found)


def plan_sync(found: Sequence[Definition], known: Sequence[Registered]) -> list[Change]:
    """Returns the changes of a sync; versions are those that are current before it, 0 for a new definition."""
    before = {registered.definition.key: registered for registered in known}
    return [
        _plan(each, before[each.key]) if each.key in before else Change(each.key, 0, {}, created=True)
        for each in found
    ]


def _plan(definition: Definition, known: Registered) -> Change:
    changed = differences(known.definition, effective(definition, known.overrides))
    kept = overridden(definition, known.overrides)
    return Change(definition.key, known.version, changed, False, kept, known.revision)


def scope_of(kind: ScopeKind, key: str) -> Scope:
    """Makes a scope to be limited or paused. Refuses a tenant id that no tenant can have.

    Scope itself takes any key, since a stored one is read as it is.
    """
    return Scope(kind, tenant_id(key) if kind is ScopeKind.TENANT else key)


async def scopes(store: Administration) -> Sequence[ScopeRecord]:
    """Returns the tenants and definitions that have a limit or a pause."""
    return await store.scopes()


async def limit(store: Administration, scope: Scope, max_running: int | None, actor: Actor) -> None:
    """Limits how many jobs of a scope run at once; None lifts the limit."""
    limits = Limits(max_running=max_running)
    await _change_scope(store, scope, "limit", actor, lambda: store.limit(scope, limits))


async def pause(store: Administration, scope: Scope, why: str, length: timedelta | None, actor: Actor) -> None:
    """Pauses a scope, for so long by the engine's clock, or until it is resumed."""
    until = None if length is None else await store.now() + length
    pause = Pause(why, until, actor.name)
    await _change_scope(store, scope, "pause", actor, lambda: store.pause(scope, pause))


async def resume(store: Administration, scope: Scope, actor: Actor) -> None:
    await _change_scope(store, scope, "resume", actor, lambda: store.pause(scope, None))


async def _change_scope(
    store: Administration, scope: Scope, verb: str, actor: Actor, change: Callable[[], Awaitable[None]]
) -> None:
    async def read() -> dict[str, Any]:
        return views.scope(await store.scope(scope))

    kind, tenant = scope.kind.value, TenantId(scope.key) if scope.kind is ScopeKind.TENANT else None
    await audited(store, actor, f"{kind}.{verb}", f"{kind} {scope.key}", change, read=read, tenant=tenant)


async def tenants(store: Administration, limit: int) -> tuple[Sequence[TenantId], bool]:
    """Returns the first `limit` tenants, and whether all others are refused."""
    return await store.tenants(limit), await store.strict_tenants()


async def change_tenants(
    store: Administration, new: TenantId | None, strict: bool | None, actor: Actor
) -> tuple[bool, bool]:
    """Turns strict tenants on or off, and registers a tenant; None skips it.

    Returns whether the tenant is new, and whether unregistered tenants are refused now.
    """
    if strict is not None:
        await _set_strict(store, strict, actor)
    is_new = new is not None and await _add_tenant(store, new, actor)
    return is_new, await store.strict_tenants()


async def _set_strict(store: Administration, strict: bool, actor: Actor) -> None:
    async def read() -> dict[str, Any]:
        return {"strict": await store.strict_tenants()}

    await audited(store, actor, "tenants.strict", "tenants", lambda: store.set_strict_tenants(strict), read=read)


async def _add_tenant(store: Administration, new: TenantId, actor: Actor) -> bool:
    return await audited(
        store,
        actor,
        "tenant.add",
        f"tenant {new}",
        lambda: store.add_tenant(new),
        shows=lambda added: {"added": added},
        tenant=new,
    )


async def workers(store: Fleet) -> Sequence[WorkerRecord]:
    return await store.workers()


async def prune_audit(store: Administration) -> int:
    """Deletes entries of the audit log that are kept no longer; returns how many. Only the owner's role can."""
    pruned = 0
    while batch := await store.audit.prune(PRUNED_AT_ONCE):
        pruned += batch
    return pruned


async def prune(store: Fleet, limit: int | None, tell: Callable[[int], None]) -> int:
    """Deletes final jobs whose retention is over, in batches; returns how many. Calls `tell` after each batch."""
    pruned = 0
    while limit is None or pruned < limit:
        batch = await store.prune(PRUNED_AT_ONCE if limit is None else min(PRUNED_AT_ONCE, limit - pruned))
        if not batch:
            break
        pruned += batch
        tell(pruned)
    return pruned
