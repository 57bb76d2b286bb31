"""Enqueues jobs of one tenant into Postgres: one by a short statement, plain ones together, others by rules."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import asyncpg
from asyncpg import Record
from uuid_utils import uuid7

from leasehold.engines.postgres import drivers
from leasehold.engines.postgres.bulk_transaction import BulkTransaction
from leasehold.engines.postgres.confined import TenantDatabase
from leasehold.engines.postgres.enqueue_call import EnqueueCall, enqueue_call
from leasehold.engines.postgres.plain_jobs import PlainJobs, has_only_defaults
from leasehold.errors import UnknownTenant, Unreachable
from leasehold.model import payload as payloads
from leasehold.model.job import EnqueueResult, JobId, NewJob, TenantId

if TYPE_CHECKING:
    from leasehold.engines.postgres.database import Connection

# Seconds between two looks at a tenant's new row while another open transaction holds it.
SECONDS_BETWEEN_LOOKS = 1.0


class KnownTenants:
    """Tenants whose row is known to exist, and when to look again for a row that another transaction is adding."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._look_again: dict[TenantId, float] = {}
        self.rows: set[TenantId] = set()

    def should_look(self, tenant: TenantId) -> bool:
        return tenant not in self.rows and self._monotonic() >= self._look_again.get(tenant, 0.0)

    def look_later(self, tenant: TenantId) -> None:
        self._look_again[tenant] = self._monotonic() + SECONDS_BETWEEN_LOOKS

    def add(self, tenant: TenantId) -> None:
        self._look_again.pop(tenant, None)
        self.rows.add(tenant)


class PostgresEnqueue:
    """The enqueues of one tenant; `PostgresTenantJobs` reads and changes its jobs."""

    def __init__(self, database: TenantDatabase, tenant: TenantId, known: KnownTenants) -> None:
        self._database = database
        self._tenant = tenant
        self._known = known

    async def _fetch(self, name: str, /, **values: Any) -> list[Record]:
        """Sends a statement of the tenant, and adds the tenant to it: every read and change goes through here."""
        return await self._database.fetch(f"tenant/{name}", tenant=self._tenant, **values)

    async def enqueue(self, jobs: Sequence[NewJob], within: object | None = None) -> Sequence[EnqueueResult]:
        """Enqueues jobs. A second caller with the same dedupe key waits for the first one's commit, then gets its
        job.

        Under REPEATABLE READ that raises TransactionConflict instead: run the transaction again.
        """
        if not jobs:
            return []
        if within is not None:
            return await drivers.join(within).aplace(await self.prepare(jobs))
        if len(jobs) == 1 and has_only_defaults(jobs[0]):
            return await self._enqueue_one(jobs[0])
        if (plain := PlainJobs.of(jobs)) is not None:
            return await self._enqueue_plain(plain)
        await self.admit()
        with self._database.translate_errors():
            async with self._database.connection() as connection:
                return await self._enqueue_any(jobs, connection)

    @asynccontextmanager
    async def bulk_transaction(self) -> AsyncIterator[BulkTransaction]:
        await self.admit()
        enqueue_any = partial(self._enqueue_any, wakes=False)
        async with BulkTransaction(self._database, self._tenant, enqueue_any) as bulk:
            yield bulk

    async def prepare(self, jobs: Sequence[NewJob], *, wakes: bool = True) -> EnqueueCall:
        call = replace(self._call(jobs), wakes=wakes)
        await self.admit()
        return call

    def prepare_known(self, jobs: Sequence[NewJob], *, wakes: bool = True) -> EnqueueCall | None:
        return replace(self._call(jobs), wakes=wakes) if self._tenant in self._known.rows else None

    async def _enqueue_one(self, job: NewJob) -> list[EnqueueResult]:
        """Enqueues one plain job, as most calls do: one statement without a transaction around it, and few steps."""
        new, payload = JobId(str(uuid7())), payloads.encode(job.payload)
        if self._tenant not in self._known.rows:
            await self.admit()
        with self._database.translate_errors():
            async with self._database.connection() as connection:
                if await self._database.fetch_on(
                    connection,
                    "tenant/enqueue_one",
                    tenant=self._tenant,
                    id=new,
                    definition=job.definition,
                    version=job.version,
                    payload=payload,
                    source=job.source.value,
                    trace_context=job.trace_context,
                ):
                    return [EnqueueResult(new, created=True)]
                return await self._enqueue_any([job], connection)  # refused: the general way tells why

    async def _enqueue_plain(self, plain: PlainJobs) -> Sequence[EnqueueResult]:
        """Enqueues by one statement without a transaction around it, unless one statement can't hold them."""
        if plain.too_large:
            async with self.bulk_transaction() as bulk:
                return await bulk.place(plain)
        await self.admit()
        with self._database.translate_errors():
            async with self._database.connection() as connection:
                if await self._database.fetch_on(
                    connection, "tenant/enqueue_plain_jobs", tenant=self._tenant, wakes=True, **plain.columns()
                ):
                    return plain.results()
                return await self._enqueue_any(plain.jobs, connection)

    async def _enqueue_any(
        self, jobs: Sequence[NewJob], connection: "Connection", *, wakes: bool = True
    ) -> list[EnqueueResult]:
        """Enqueues jobs of every kind by one statement: the database resolves keys and ids."""
        call = self._call(jobs)
        return call.read_answer(
            await self._database.fetch_on(
                connection, "tenant/enqueue_jobs", tenant=self._tenant, jobs=call.jobs, wakes=wakes
            )
        )

    def _call(self, jobs: Sequence[NewJob]) -> EnqueueCall:
        statement = self._database.statement("tenant/enqueue_jobs")
        return enqueue_call(statement, self._database.schema, self._tenant, jobs)

    async def admit(self) -> None:
        """Adds the tenant's row at its first use. Raises UnknownTenant if tenants are strict."""
        if not self._known.should_look(self._tenant):
            return
        try:
            ((accepted,),) = await self._fetch("ensure_tenant")
        except Unreachable as error:
            if not isinstance(error.__cause__, asyncpg.LockNotAvailableError):
                raise
            self._known.look_later(self._tenant)
            return
        if not accepted:
            raise UnknownTenant(
                f"tenant {self._tenant!r} was never registered, and strict tenants are on. Nothing was enqueued.",
                fix=f"Correct its name, or run: leasehold tenants --add {self._tenant}",
            )
        self._known.add(self._tenant)
