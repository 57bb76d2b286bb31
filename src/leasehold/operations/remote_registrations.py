"""The registrations of workers over HTTP: to which token each belongs, what it may serve, and what it has claimed.

A worker id is not a secret: it is shown to people. So each request is checked against the token that joined.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from leasehold.errors import InvalidInput, NotPermitted, RegistrationLost
from leasehold.model.access import Principal
from leasehold.model.duration import span
from leasehold.model.job import Claim, WorkerId
from leasehold.store import Fleet, Registration, Subscription, WorkerFacts
from leasehold.store.wire import Fence, fence_of

BEARER = "bearer"
"""Names the token in the metadata of a registration. A worker can't choose this itself."""
LEASE = "lease_seconds"
"""Names the lease that the worker asked for when it joined."""
LONGEST_LEASE = timedelta(hours=1)
SHORTEST_LEASE = timedelta(seconds=1)
MOST_REGISTRATIONS = 10_000
MOST_CLAIMS = 5_000


@dataclass(slots=True)
class RemoteWorker:
    """A registration with the claims that were handed out to it and are not known to have ended."""

    registration: Registration
    bearer: str
    lease: timedelta
    claims: OrderedDict[Fence, Claim] = field(default_factory=OrderedDict)

    def remember(self, claims: Iterable[Claim]) -> None:
        for claim in claims:
            self.claims[fence_of(claim)] = claim
        while len(self.claims) > MOST_CLAIMS:
            self.claims.popitem(last=False)

    def forget(self, fences: Iterable[Fence]) -> None:
        for fence in fences:
            self.claims.pop(fence, None)


def bearer_of(principal: Principal) -> str:
    """Returns the name under which a principal owns registrations: its token, or its name and tenant."""
    return principal.token or f"{principal.tenant or '*'}:{principal.name}"


class RemoteRegistrations:
    """Remembers the registrations of this process, and reads those of others from the store."""

    def __init__(self, store: Fleet, longest_lease: timedelta = LONGEST_LEASE) -> None:
        self._store = store
        self.longest_lease = longest_lease
        self._known: OrderedDict[tuple[str, WorkerId], RemoteWorker] = OrderedDict()

    async def join(
        self, principal: Principal, serves: Subscription, facts: WorkerFacts, lease: timedelta
    ) -> RemoteWorker:
        """Registers a worker, for no more than its token allows. Raises NotPermitted, InvalidInput."""
        self.require_lease(lease)
        allowed, bearer = clip(principal, serves), bearer_of(principal)
        noted = replace(facts, metadata={**facts.metadata, BEARER: bearer, LEASE: lease.total_seconds()})
        return self._remember(RemoteWorker(await self._store.join(allowed, noted, lease), bearer, lease))

    def require_lease(self, lease: timedelta) -> None:
        if not SHORTEST_LEASE <= lease <= self.longest_lease:
            raise InvalidInput(
                f"a lease of {span(lease)} is not between {span(SHORTEST_LEASE)} and {span(self.longest_lease)}. "
                "Nothing was changed.",
                fix="Ask for a lease between them; 60 s is the default.",
            )

    async def find(self, principal: Principal, worker: WorkerId) -> RemoteWorker:
        """Returns the worker. Raises RegistrationLost: for another token's as for an unknown one, by one look."""
        bearer = bearer_of(principal)
        known = self._known.get((bearer, worker)) or await self._read(bearer, worker)
        if known is None:
            raise lost(worker)
        self._known.move_to_end((bearer, worker))
        return known

    async def _read(self, bearer: str, worker: WorkerId) -> RemoteWorker | None:
        """Looks among the living: another process may have registered it, or this one before it was restarted."""
        for record in await self._store.workers():
            if record.id == worker and record.facts.metadata.get(BEARER) == bearer:
                lease = timedelta(seconds=float(record.facts.metadata.get(LEASE, 60)))
                return self._remember(RemoteWorker(Registration(record.id, record.serves), bearer, lease))
        return None

    def _remember(self, worker: RemoteWorker) -> RemoteWorker:
        self._known[worker.bearer, worker.registration.worker] = worker
        while len(self._known) > MOST_REGISTRATIONS:
            self._known.popitem(last=False)
        return worker

    async def claims_of(self, worker: RemoteWorker, fences: Sequence[Fence]) -> dict[Fence, Claim]:
        """Returns the claims that these fences name, as the store handed them out; unknown ones are left out.

        Nothing of a claim is taken from the request: its definition and its tries decide what may be written.
        """
        if not worker.claims.keys() >= set(fences):
            worker.remember(await self._store.held(worker.registration))
        return {fence: worker.claims[fence] for fence in fences if fence in worker.claims}


def clip(principal: Principal, serves: Subscription) -> Subscription:
    """Returns what a worker may serve of what it asks for. Raises NotPermitted for names beyond its token's."""
    if not serves.definitions:
        raise InvalidInput(
            "a worker of no definitions would never claim anything. Nothing was joined.",
            fix='Name them: {"definitions": ["sync-folder"]}',
        )
    allowed = serves.definitions if principal.definitions is None else principal.definitions
    if beyond := sorted(set(serves.definitions) - set(allowed)):
        raise NotPermitted(
            f"the token is for other definitions than {beyond[0]!r:.80}. Nothing was joined.",
            fix=f"It is for: {', '.join(allowed)}. Name only these, as by --only.",
        )
    if principal.tenant is None:
        return serves
    if set(serves.tenants or ()) - {principal.tenant}:
        raise NotPermitted(
            "the token is bound to another tenant than the worker names. Nothing was joined.",
            fix="Name no tenants: the worker then serves that of its token.",
        )
    return replace(serves, tenants=(principal.tenant,))


def may_sync(principal: Principal, definition: str) -> bool:
    """Returns whether a token may register this definition.

    A definition is for all tenants: a token of one tenant may only change those that it was made for by name.
    """
    if principal.definitions is None:
        return principal.tenant is None
    return definition in principal.definitions


def lost(worker: str) -> RegistrationLost:
    return RegistrationLost(
        f"worker {worker!s:.60} is not registered: it left, lost its lease, or was never yours. Nothing was written.",
        fix="Stop its runs, and join again.",
    )
