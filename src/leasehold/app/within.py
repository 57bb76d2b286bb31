"""A caller's transaction, as a tenant handle uses it: the right twin of each verb, and a warning in autocommit."""

import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from leasehold.app.app_store import AppStore
from leasehold.errors import InvalidInput, NotInTransaction, UnknownDefinition
from leasehold.model.event import NewEvent
from leasehold.model.event_plan import Emitted
from leasehold.model.job import EnqueueResult, NewJob, TenantId
from leasehold.operations import events
from leasehold.operations.enqueue import Target, prepare, prepare_again
from leasehold.store import Caller

_AUTOCOMMIT = (
    "LH-1020: within(…) got %s in autocommit: the job is committed by itself, and runs even if your next statement "
    "fails. Write both in a transaction, %s, or say within(…, atomic=False)."
)


@dataclass(frozen=True, slots=True)
class CallerTransaction:
    """Places jobs by one statement on the caller's connection.

    Versions and the tenant are looked up by connections of our own, the first time; after that everything happens in
    the caller's thread.
    """

    caller: Caller
    atomic: bool
    wakes: bool = True

    def place(self, store: AppStore, target: Target, jobs: Sequence[NewJob]) -> Sequence[EnqueueResult]:
        try:
            prepared = store.prepare_known(target, jobs, self.wakes)
            if prepared is None:
                prepared = store.call(partial(prepare, target, jobs, self.wakes))
            return self.caller.place(prepared)
        except UnknownDefinition:
            return self.caller.place(store.call(partial(prepare_again, target, jobs, self.wakes)))

    async def aplace(self, store: AppStore, target: Target, jobs: Sequence[NewJob]) -> Sequence[EnqueueResult]:
        try:
            prepared = store.prepare_known(target, jobs, self.wakes)
            if prepared is None:
                prepared = await store.acall(partial(prepare, target, jobs, self.wakes))
            return await self.caller.aplace(prepared)
        except UnknownDefinition:
            return await self.caller.aplace(await store.acall(partial(prepare_again, target, jobs, self.wakes)))

    def emit(self, store: AppStore, tenant: TenantId, event: NewEvent) -> Emitted:
        """Emits by one statement on the caller's connection, or by two if triggers match."""
        emission = store.call(partial(events.prepare, tenant, event, self.wakes))
        found = self.caller.place(emission.first)
        if isinstance(found, Emitted):
            return found
        if not emission.knows(found):
            store.call(lambda _opened: emission.learn(found))
        return self.caller.place(emission.second(found))

    async def aemit(self, store: AppStore, tenant: TenantId, event: NewEvent) -> Emitted:
        emission = await store.acall(partial(events.prepare, tenant, event, self.wakes))
        found = await self.caller.aplace(emission.first)
        if isinstance(found, Emitted):
            return found
        if not emission.knows(found):
            await store.acall(lambda _opened: emission.learn(found))
        return await self.caller.aplace(emission.second(found))

    def require_blocking(self, verb: str) -> None:
        if not self.caller.blocking:
            raise InvalidInput(
                f"within(…) got {self.caller.description}, which is awaited, and {verb}(…) blocks. "
                "Nothing was enqueued.",
                fix=f"Await its twin: await ….a{verb}(…)",
            )
        if self.atomic and self.caller.commits_at_once():
            self._warn()

    async def require_awaited(self, verb: str) -> None:
        if self.caller.blocking:
            raise InvalidInput(
                f"within(…) got {self.caller.description}, which blocks, and {verb}(…) is awaited. "
                "Nothing was enqueued.",
                fix=f"Call its twin: ….{verb[1:]}(…)",
            )
        if self.atomic and await self.caller.acommits_at_once():
            self._warn()

    def _warn(self) -> None:
        message = _AUTOCOMMIT % (self.caller.description, self.caller.begin)
        warnings.warn(message, NotInTransaction, stacklevel=frames_of_ours())


def frames_of_ours() -> int:
    """Returns how many frames up the caller's own code is: a warning is about that line."""
    depth, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("leasehold."):
        depth, frame = depth + 1, frame.f_back
    return depth
