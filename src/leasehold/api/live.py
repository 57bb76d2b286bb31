"""Live changes: one source for all streams of a process. It looks only while a stream is open.

The source looks for all streams by one statement, and hands each of them the part that it may read. A stream that is
not read yet collects: jobs that changed twice are told once, and beyond a number of jobs only that there are more.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from leasehold.api.backend import Backend
from leasehold.model.job import JobId, TenantId, WorkerId
from leasehold.operations.catalog import Catalog
from leasehold.runtime.supervise import cancel_all, keep_running, wait_at_most
from leasehold.store import Changed, ChangeWatcher, Watched, WorkerRecord

MOST_JOBS = 100
# Seconds between two looks, also when streams are opened one after the other.
SHORTEST_PAUSE = 0.25
BETWEEN_WORKERS = 2.0


@dataclass(slots=True)
class News:
    """Changes that a stream has not sent yet. With `reload`, its client has to read everything again."""

    reload: bool = False
    jobs: dict[tuple[TenantId, JobId], None] = field(default_factory=dict)
    tenants: set[TenantId] = field(default_factory=set)
    workers: set[WorkerId] = field(default_factory=set)
    more: bool = False

    def __bool__(self) -> bool:
        return self.reload or self.more or bool(self.jobs or self.workers)

    def document(self) -> dict[str, Any]:
        return {
            "jobs": [{"tenant_id": tenant, "id": job} for tenant, job in self.jobs],
            "more": self.more,
            "tenants": sorted(self.tenants),
            "workers": sorted(self.workers),
        }


class Listener:
    """One stream: about a tenant, or about all; with workers, if its sender may list them."""

    def __init__(self, tenant: TenantId | None, *, workers: bool = False) -> None:
        self.tenant = tenant
        self.workers = workers
        self.is_ready = False
        self._news = News()
        self._came = asyncio.Event()

    def put(self, changed: Changed, workers: frozenset[WorkerId] = frozenset()) -> None:
        """Adds changes, of its own tenant only."""
        news = self._news
        for tenant, jobs in changed.jobs.items():
            if self.tenant in (None, tenant):
                news.tenants.add(tenant)
                for job in jobs:
                    news.jobs[tenant, job] = None
        unlisted = {tenant for tenant in changed.unlisted if self.tenant in (None, tenant)}
        news.tenants |= unlisted
        news.more |= bool(unlisted)
        if self.workers:
            news.workers |= workers
        news.more |= changed.others or (changed.elsewhere and self.tenant is None) or len(news.jobs) > MOST_JOBS
        while len(news.jobs) > MOST_JOBS:
            news.jobs.popitem()
        if news:
            self._came.set()

    def put_reload(self) -> None:
        self._news = News(reload=True)
        self._came.set()

    async def take(self) -> News:
        """Waits for news, and returns all that came."""
        await self._came.wait()
        self._came.clear()
        news, self._news = self._news, News()
        return news


class LiveChanges:
    """The source. It ends with the last stream, and forgets everything: a new stream begins with a reload."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._listeners: set[Listener] = set()
        self._opened = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None

    def open(self, listener: Listener) -> None:
        """Adds a stream. Its first news is a reload, after a look: no later change is missed."""
        self._listeners.add(listener)
        self._opened.set()
        if self._looking is None or self._looking.done():
            self._looking = keep_running("live changes", self._keep_looking, lost=lambda _: None)

    async def close(self, listener: Listener) -> None:
        self._listeners.discard(listener)
        if not self._listeners and self._looking is not None:
            looking, self._looking = self._looking, None
            await cancel_all([looking])

    async def _keep_looking(self) -> None:
        """Looks until it is canceled. After an error all streams begin with a reload again."""
        looks = _Looks(self._backend)
        for each in self._listeners:
            each.is_ready = False
        while True:
            self._opened.clear()
            told = tuple(self._listeners)
            changed, workers = await looks.look(told)
            for each in told:
                if each.is_ready:
                    each.put(changed, workers)
                else:
                    each.is_ready = True
                    each.put_reload()
            await asyncio.sleep(SHORTEST_PAUSE)
            await wait_at_most(self._opened, changed.pause - SHORTEST_PAUSE)


class _Looks:
    """A watcher, and the workers that it saw last."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._watcher: ChangeWatcher | None = None
        self._workers: Mapping[WorkerId, int] | None = None
        self._workers_at = float("-inf")

    async def look(self, listeners: tuple[Listener, ...]) -> tuple[Changed, frozenset[WorkerId]]:
        if self._watcher is None:
            self._watcher = await self._backend.call(_watcher)
        watcher = self._watcher
        tenants = frozenset(each.tenant for each in listeners if each.tenant is not None)
        watched = Watched(tenants, everything=any(each.tenant is None for each in listeners))
        changed = await self._backend.call(lambda _: watcher.look(watched))
        return changed, await self._look_at_workers() if any(each.workers for each in listeners) else frozenset()

    async def _look_at_workers(self) -> frozenset[WorkerId]:
        """Returns workers that joined, left, or run another number of jobs."""
        now = asyncio.get_running_loop().time()
        if now - self._workers_at < BETWEEN_WORKERS:
            return frozenset()
        found = {each.id: each.running for each in await self._backend.call(_workers)}
        before, self._workers, self._workers_at = self._workers, found, now
        return frozenset() if before is None else frozenset(each for each, _ in before.items() ^ found.items())


async def _watcher(catalog: Catalog) -> ChangeWatcher:
    return catalog.store.watch_changes()


async def _workers(catalog: Catalog) -> Sequence[WorkerRecord]:
    return await catalog.store.workers()
