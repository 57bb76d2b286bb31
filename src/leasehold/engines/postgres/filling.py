"""One transaction for many calls that enqueue."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from leasehold.engines.postgres.alike import Alike
from leasehold.engines.postgres.database import Database
from leasehold.model.job import EnqueueResult, NewJob, TenantId

if TYPE_CHECKING:
    from leasehold.engines.postgres.database import Connection


class BulkTransaction:
    """Who can run what it has enqueued is woken at its end, once for all of it.

    Woken by the first of many calls, workers would find nothing until the last. And whoever wants to sleep, or to
    enqueue beside it, would wait for a transaction that takes as long as its caller likes.
    """

    def __init__(
        self,
        database: Database,
        tenant: TenantId,
        in_general: "Callable[[Sequence[NewJob], Connection], Awaitable[list[EnqueueResult]]]",
    ) -> None:
        self._database = database
        self._tenant = tenant
        self._in_general = in_general
        self._dues: dict[str, datetime | None] = {}
        self._turn = asyncio.Lock()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        with self._database.translated():
            try:
                await self._stack.enter_async_context(self._database.long_loans)
                self._connection = await self._stack.enter_async_context(self._database.connection())
                await self._stack.enter_async_context(self._database.transaction(self._connection))
                self._stack.push_async_exit(self._wake)
            except BaseException:
                # Told why: a connection whose BEGIN was canceled on its way must not go back to the pool.
                await self._stack.__aexit__(*sys.exc_info())
                raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._database.translated():
            await self._stack.__aexit__(kind, failure, trace)

    async def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[EnqueueResult]:
        """A call made before another has its answer waits for its turn only when all is ready to be sent."""
        if not jobs:
            return []
        if (alike := Alike.of(jobs)) is not None:
            return await self.place(alike)
        with self._database.translated():
            async with self._turn:
                placed = await self._in_general(jobs, self._connection)
        self._dues |= dict.fromkeys(job.definition for job in jobs)  # None: as if due now, which some are
        return placed

    async def place(self, alike: Alike) -> Sequence[EnqueueResult]:
        with self._database.translated():
            async with self._turn:
                first, *more = [await self._place(piece) for piece in alike.pieces()]
        return first if not more else [placed for each in (first, *more) for placed in each]

    async def _place(self, piece: Alike) -> Sequence[EnqueueResult]:
        found = await self._database.fetch_on(
            self._connection, "tenant/enqueue_alike", tenant=self._tenant, wakes=False, **piece.columns()
        )
        if not found:  # refused, and that way says why
            return await self._in_general(piece.jobs, self._connection)
        key, due = piece.jobs[0].definition, found[0]["due"]
        before = self._dues.get(key, due)
        self._dues[key] = None if before is None else min(due, before)
        return piece.placed()

    async def _wake(self, _kind: object, failure: BaseException | None, _trace: Any) -> None:
        if failure is None and self._dues:
            await self._database.fetch_on(
                self._connection,
                "tenant/wake",
                tenant=self._tenant,
                definitions=list(self._dues),
                dues=list(self._dues.values()),
            )
