"""Triggers that were deleted: each is kept with its rule and its decisions, so that a deletion can be undone."""

from leasehold.errors import UnknownTrigger, WrongState
from leasehold.model.audit import Actor
from leasehold.model.trigger import Trigger, TriggerId
from leasehold.operations import views
from leasehold.operations.audit import audited
from leasehold.operations.catalog import Catalog
from leasehold.operations.triggers import Owner, check_rule, described_owner, tenant_of
from leasehold.store import TriggerStore


async def get_deleted(store: TriggerStore, owner: Owner, trigger: TriggerId) -> Trigger:
    """Returns a deleted trigger of this owner. Raises UnknownTrigger."""
    found = await store.triggers(owner).get(trigger, deleted=True)
    if found is None:
        raise UnknownTrigger(
            f"no trigger {trigger} of {described_owner(owner)} is deleted. Nothing was changed.",
            fix="The audit log names deleted ones: leasehold audit --action trigger.delete",
        )
    return found


async def restore(owner: Owner, trigger: TriggerId, catalog: Catalog, actor: Actor | None = None) -> Trigger:
    """Brings a deleted trigger back as it was, paused or disabled if it was. Its schedule begins at this moment.

    Raises UnknownTrigger if no such trigger is deleted, WrongState if its rule can't be read by this release or it is
    restored by another one at the same moment, and as `create` does if its rule does not fit its definition any more.
    """
    store = catalog.store

    async def bring_back() -> Trigger:
        seen = await get_deleted(store, owner, trigger)
        if seen.unreadable:
            field = min(seen.unreadable)
            raise WrongState(
                f"{field} of the trigger {seen.rule.label!r:.120} can't be read by this release: "
                f"{seen.unreadable[field]} Nothing was changed.",
                fix="Restore it with a newer release.",
            )
        await check_rule(owner, seen.rule, catalog)
        restored = await store.triggers(owner).change(seen, seen.rule, restore=True)
        if restored is None:
            raise WrongState(
                f"the trigger {seen.rule.label!r:.120} was changed at the same moment. Nothing was changed by this "
                "call.",
                fix=f"Look at it: leasehold triggers show {trigger}",
            )
        return restored

    subject = f"trigger {trigger}"
    return await audited(
        store, actor, "trigger.restore", subject, bring_back, shows=views.trigger, tenant=tenant_of(owner)
    )
