"""Workers that sleep, and scopes that hold their jobs."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from tests.store.wake_listener import WakeListener, asleep
from tests.tenant_kit import ACME

from leasehold.model.limits import Scope, ScopeKind
from leasehold.store import Registration, Store

TENANT = Scope(ScopeKind.TENANT, ACME)
DEFINITION = Scope(ScopeKind.DEFINITION, "report")


@asynccontextmanager
async def all_asleep(store: Store, *registrations: Registration) -> AsyncIterator[dict[Registration, WakeListener]]:
    """They fell asleep in this order."""
    async with AsyncExitStack() as stack:
        yield {
            registration: await stack.enter_async_context(asleep(store, registration))
            for registration in registrations
        }
