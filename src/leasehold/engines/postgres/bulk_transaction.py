"""One transaction for many calls that enqueue."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from leasehold.engines.postgres.confined import TenantDatabase
from leasehold.engines.postgres.plain_jobs import PlainJobs
from leasehold.model.job import EnqueueResult, NewJob, TenantId

if TYPE_CHECKING:
    from leasehold.engines.postgres.database import Connection


class BulkTransaction:
    """Enqueues the jobs of many calls, and wakes workers once, at its end.

    Workers that the first of many calls woke would find nothing until the last. The lock that a wake takes would make
    workers that go to sleep, and other producers, wait for as long as the caller keeps the transaction open.
    """

    def __init__(
        self,
        database: TenantDatabase,
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
        with self._database.translate_errors():
            try:
                await self._stack.enter_async_context(self._database.long_loans)
                self._connection = await self._stack.enter_async_context(self._database.connection())
                await self._stack.enter_async_context(self._database.transaction(self._connection))
                self._stack.push_async_exit(self._wake)
            except BaseException:
                # With the error: a connection whose BEGIN was canceled under way must not go back to the pool.
                await self._stack.__aexit__(*sys.exc_info())
                raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._database.translate_errors():
            await self._stack.__aexit__(kind, failure, trace)

    async def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[EnqueueResult]:
        """Encodes the jobs at once, and waits for its turn only before it sends them."""
        if not jobs:
            return []
        if (plain := PlainJobs.of(jobs)) is not None:
            return await self.place(plain)
        with self._database.translate_errors():
            async with self._turn:
                placed = await self._in_general(jobs, self._connection)
        self._dues |= dict.fromkeys(job.definition for job in jobs)  # None: due now, as some of them are
        return placed

    async def place(self, plain: PlainJobs) -> Sequence[EnqueueResult]:
        with self._database.translate_errors():
            async with self._turn:
                first, *more = [await self._place(piece) for piece in plain.pieces()]
        return first if not more else [placed for each in (first, *more) for placed in each]

    async def _place(self, piece: PlainJobs) -> Sequence[EnqueueResult]:
        found = await self._database.fetch_on(
            self._connection, "tenant/enqueue_plain_jobs", tenant=self._tenant, wakes=False, **piece.columns()
        )
        if not found:  # refused: the general way tells why
            return await self._in_general(piece.jobs, self._connection)
        key, due = piece.jobs[0].definition, found[0]["due"]
        before = self._dues.get(key, due)
        self._dues[key] = None if before is None else min(due, before)
        return piece.results()

    async def _wake(self, _kind: object, failure: BaseException | None, _trace: Any) -> None:
        if failure is None and self._dues:
            await self._database.fetch_on(
                self._connection,
                "tenant/wake",
                tenant=self._tenant,
                definitions=list(self._dues),
                dues=list(self._dues.values()),
            )
