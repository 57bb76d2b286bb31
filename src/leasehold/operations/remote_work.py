"""Everything that workers over HTTP can ask for. The server does for them what needs more rights than theirs."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Self

from leasehold.errors import NotPermitted
from leasehold.model.access import Principal
from leasehold.model.definition import Change, Definition
from leasehold.model.job import Attempt, Claim, JobId, LogLine, TenantId, WorkerId
from leasehold.model.outcome import Verdict
from leasehold.model.verdict_rules import require_possible
from leasehold.operations.remote_registrations import LONGEST_LEASE, RemoteRegistrations, RemoteWorker, may_sync
from leasehold.operations.remote_upkeep import RemoteUpkeep
from leasehold.operations.remote_wakes import HeardWakes, WakeFeeds
from leasehold.store import Claimed, Registration, Renewal, Store, Subscription, WorkerFacts, wire
from leasehold.store.wire import Fence, fence_of
from leasehold.telemetry import Listeners

MOST_AT_ONCE = 100
"""Claims of one request: each may have a payload of 256 KB."""
# By store, since the tasks of each belong to the event loop that its store was opened on.
_by_store: "dict[Store, RemoteWork]" = {}


OLDEST, PROTOCOL = 1, 1
"""The versions of the requests of workers that this release understands."""


async def hello(remote: "RemoteWork", principal: Principal) -> dict[str, Any]:
    """Returns what a worker has to know before it joins."""
    syncs = principal.definitions if principal.definitions is not None or principal.tenant is None else ()
    return {
        "oldest": OLDEST,
        "protocol": PROTOCOL,
        "tenant_id": principal.tenant,
        "definitions": principal.definitions,
        "syncs": syncs,
        "abilities": wire.write_abilities(remote.store.abilities),
        "longest_lease_seconds": remote.registrations.longest_lease.total_seconds(),
    }


class RemoteWork:
    """The workers that reach one open store by HTTP. Each call checks that the registration is the bearer's own."""

    def __init__(
        self, store: Store, longest_lease: timedelta = LONGEST_LEASE, listeners: Listeners | None = None
    ) -> None:
        self.store = store
        self.registrations = RemoteRegistrations(store, longest_lease)
        self.upkeep = RemoteUpkeep(store, Listeners() if listeners is None else listeners)
        self._feeds = WakeFeeds(store, on_operation=self.upkeep.note_operation)

    @classmethod
    def of(cls, store: Store, listeners: Listeners | None = None) -> "RemoteWork":
        """Returns the one of this store. The first call says which listeners hear of its upkeep."""
        if store not in _by_store:
            _by_store[store] = cls(store, listeners=listeners)
        return _by_store[store]

    def use(self) -> Self:
        """Makes this the one of its store."""
        _by_store[self.store] = self
        return self

    @staticmethod
    async def close_of(store: Store) -> None:
        """Ends the one of this store, if there is one."""
        if remote := _by_store.pop(store, None):
            await remote.close()

    async def run_operations(self) -> None:
        """Begins to run open operations in this process, beside workers, if there are any."""
        self.upkeep.note_operation()

    async def close(self) -> None:
        """Ends all listeners, and the upkeep that is under way."""
        await self._feeds.close()
        await self.upkeep.close()

    async def join(
        self, principal: Principal, serves: Subscription, facts: WorkerFacts, lease: timedelta
    ) -> Registration:
        joined = await self.registrations.join(principal, serves, facts, lease)
        self.upkeep.begin()
        return joined.registration

    async def leave(self, principal: Principal, worker: WorkerId, *, has_claimed: bool) -> None:
        known = await self.registrations.find(principal, worker)
        await self._feeds.end(worker)
        await self.store.leave(known.registration, has_claimed=has_claimed)

    async def note_drain(self, principal: Principal, worker: WorkerId) -> None:
        known = await self.registrations.find(principal, worker)
        await self.store.note_drain(known.registration)

    async def renew(
        self,
        principal: Principal,
        worker: WorkerId,
        named: Sequence[Fence],
        lease: timedelta,
        *,
        look: bool = False,
        probe: bool = False,
    ) -> tuple[Renewal, frozenset[Fence]]:
        """Extends a lease. Also returns the fences that name no claim of this worker: those claims are lost."""
        self.registrations.require_lease(lease)
        known = await self.registrations.find(principal, worker)
        claims = await self.registrations.claims_of(known, named)
        renewal = await self.store.renew(known.registration, list(claims.values()), lease, look=look, probe=probe)
        known.forget(map(fence_of, renewal.lost))
        self.upkeep.note(renewal)
        return renewal, frozenset(named) - claims.keys()

    async def claim(self, principal: Principal, worker: WorkerId, limit: int, *, sleep: bool = False) -> Claimed:
        """Claims jobs; with `sleep`, announces that the worker sleeps if there are none."""
        known = await self.registrations.find(principal, worker)
        ask = self.store.prepare_to_sleep if sleep else self.store.claim
        claimed = await ask(known.registration, min(limit, MOST_AT_ONCE))
        known.remember(claimed.claims)
        return claimed

    async def held(self, principal: Principal, worker: WorkerId) -> Sequence[Claim]:
        known = await self.registrations.find(principal, worker)
        held = await self.store.held(known.registration)
        known.remember(held)
        return held

    async def finish(
        self, principal: Principal, worker: WorkerId, done: Sequence[tuple[Fence, Verdict]]
    ) -> frozenset[Fence]:
        """Writes verdicts; returns the fences of claims that are lost. Raises InvalidInput for an impossible one."""
        known = await self.registrations.find(principal, worker)
        return await self._finish(known, done)

    async def _finish(self, known: RemoteWorker, done: Sequence[tuple[Fence, Verdict]]) -> frozenset[Fence]:
        fences = [fence for fence, _ in done]
        claims = await self.registrations.claims_of(known, fences)
        to_write = [(claims[fence], verdict) for fence, verdict in done if fence in claims]
        for claim, verdict in to_write:
            require_possible(verdict, claim)
        refused = await self.store.finish(to_write) if to_write else frozenset()
        known.forget(claims)
        return (frozenset(fences) - claims.keys()).union(map(fence_of, refused))

    async def append_log(
        self, principal: Principal, worker: WorkerId, lines: Sequence[tuple[Fence, LogLine]]
    ) -> frozenset[Fence]:
        known = await self.registrations.find(principal, worker)
        fences = [fence for fence, _ in lines]
        claims = await self.registrations.claims_of(known, fences)
        to_write = [(claims[fence], line) for fence, line in lines if fence in claims]
        refused = await self.store.append_log(to_write) if to_write else frozenset()
        return (frozenset(fences) - claims.keys()).union(map(fence_of, refused))

    async def attempts(
        self, principal: Principal, worker: WorkerId, tenant: TenantId, job: JobId
    ) -> Sequence[Attempt]:
        """Returns the attempts of a job that this worker has made itself."""
        known = await self.registrations.find(principal, worker)
        if known.registration.serves.tenants is not None and tenant not in known.registration.serves.tenants:
            return []
        return [each for each in await self.store.tenant(tenant).attempts(job) if each.worker == worker]

    async def poll(
        self, principal: Principal, worker: WorkerId, feed: str | None, heard: int, wait: float
    ) -> HeardWakes:
        known = await self.registrations.find(principal, worker)
        return await self._feeds.poll(known.registration, feed, heard, wait)

    async def wake_another(self, principal: Principal, worker: WorkerId) -> None:
        known = await self.registrations.find(principal, worker)
        await self.store.wake_another(known.registration)

    async def sync_definitions(self, principal: Principal, found: Sequence[Definition]) -> Sequence[Change]:
        """Registers definitions that the token is for. Raises NotPermitted if others are among them."""
        if beyond := sorted(each.key for each in found if not may_sync(principal, each.key)):
            raise NotPermitted(
                f"the token may not register the definition {beyond[0]!r:.80}. Nothing was registered.",
                fix="Make a token that names it: leasehold token create … --role worker --definition KEY",
            )
        return await self.store.sync_definitions(found) if found else ()
