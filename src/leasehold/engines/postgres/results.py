"""Waiting for the end of jobs, by one connection for all that wait in this process."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from datetime import timedelta
from functools import partial
from typing import Any

from leasehold.engines.postgres import rows
from leasehold.engines.postgres.confined import TenantDatabases
from leasehold.engines.postgres.connections import OwnConnection, close_connection
from leasehold.model.job import JobId, JobRecord, TenantId

RESULT_FALLBACK = timedelta(seconds=5)


class Results:
    """One connection that learns of ended jobs, for all callers in this process that wait for one."""

    def __init__(self, databases: TenantDatabases) -> None:
        self._database = databases.whole
        self._databases = databases
        self._connection: OwnConnection | None = None
        self._opening = asyncio.Lock()
        self._round = asyncio.Event()
        self._looks: dict[TenantId, Look] = {}

    async def listen(self) -> None:
        async with self._opening:
            if self._connection is None or self._connection.is_closed():
                self._connection = await self._listening()

    async def _listening(self) -> OwnConnection:
        listener = self._database.listener
        connection = await listener.connect()
        connection.add_termination_listener(self._next_round)
        try:
            (channel,) = await self._database.fetch("fleet/channel_for_results")
            async with listener.transaction(connection):
                await connection.add_listener(channel[0], self._next_round)
        except BaseException:  # or later callers would wait on a connection that receives nothing
            connection.terminate()
            raise
        return connection

    def round(self) -> asyncio.Event:
        """Returns an event that is set when any awaited job ends; take it before you look, then wait for it."""
        return self._round

    async def look(self, tenant: TenantId, job: JobId) -> JobRecord | None:
        """Reads jobs by one statement for all callers that look at the same time: each ended job makes all of them
        look.
        """
        if tenant not in self._looks:
            self._looks[tenant] = Look(partial(self._look_once, tenant))
        return await self._looks[tenant].at(job)

    async def _look_once(self, tenant: TenantId) -> Mapping[JobId, JobRecord]:
        await asyncio.sleep(0)  # for callers that the same notification woke
        jobs = self._looks.pop(tenant).jobs
        found = await self._databases.of(tenant).fetch("tenant/get", tenant=tenant, jobs=sorted(jobs))
        return {record.id: record for record in map(rows.job, found)}

    async def close(self) -> None:
        async with self._opening:
            if self._connection is not None:
                await close_connection(self._connection)
                self._connection = None

    def _next_round(self, *_: Any) -> None:
        ended, self._round = self._round, asyncio.Event()
        ended.set()


class Look:
    """One read of jobs of a tenant, for all callers that join before it begins."""

    def __init__(self, once: Callable[[], Coroutine[Any, Any, Mapping[JobId, JobRecord]]]) -> None:
        self.jobs: set[JobId] = set()
        self._found = asyncio.ensure_future(once())

    async def at(self, job: JobId) -> JobRecord | None:
        self.jobs.add(job)
        return (await asyncio.shield(self._found)).get(job)
