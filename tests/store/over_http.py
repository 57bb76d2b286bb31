"""A store whose fleet verbs go over HTTP to a server of the API, and whose other verbs go to the database."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar, cast

import httpx
from fastapi import FastAPI

from leasehold.api import ApiLimits, make_api
from leasehold.engine import Finding, TestKit
from leasehold.engines.http.client import HttpClient
from leasehold.engines.http.store import HttpStore
from leasehold.engines.http.urls import read_url
from leasehold.model.access import Role
from leasehold.model.bounds import LONGEST
from leasehold.operations import tokens
from leasehold.operations.catalog import Catalog
from leasehold.operations.remote_registrations import BEARER, LEASE
from leasehold.operations.remote_work import RemoteWork
from leasehold.store import Store, WorkerRecord
from leasehold.telemetry import Listeners
from leasehold.worker import Handlers

T = TypeVar("T")

VERBS = (
    *("join", "renew", "leave", "claim", "finish", "held", "prepare_to_sleep", "wakes", "wake_another", "note_drain"),
    *("append_log", "sync_definitions", "transaction"),
)
"""The verbs of workers. Evicting and listing belong to the server, and tests look at their effects directly."""
LIMITS = ApiLimits(work_rate=1e6, work_burst=1_000_000, seconds=60)


class StoreOverHttp:
    """Looks like the store of one process; its worker has a token and no database."""

    def __init__(self, direct: Store, remote: HttpStore) -> None:
        self._direct = direct
        self._remote = remote
        self.abilities = remote.abilities

    def __getattr__(self, name: str) -> Any:
        return getattr(self._remote if name in VERBS else self._direct, name)

    async def workers(self) -> Sequence[WorkerRecord]:
        """Lists workers without the notes that the server has added to what they said about themselves."""
        found = await self._direct.workers()
        return [replace(each, facts=replace(each.facts, metadata=_own(each.facts.metadata))) for each in found]

    async def close(self) -> None:
        await self._remote.close()
        await self._direct.close()


def _own(metadata: Any) -> dict[str, Any]:
    return {name: value for name, value in metadata.items() if name not in (BEARER, LEASE)}


class KitOverHttp:
    """The services of the engine's kit; `open` returns stores over HTTP. All of them ask one server."""

    def __init__(self, kit: TestKit, api: FastAPI, token: str) -> None:
        self._kit = kit
        self._api = api
        self._token = token

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kit, name)

    async def open(self) -> Store:
        transport = httpx.ASGITransport(self._api)
        client = HttpClient(read_url("http://localhost"), lambda: self._token, 60, transport)
        remote = HttpStore(client, await client.send("GET", "/worker"))
        return cast(Store, StoreOverHttp(await self._kit.open(), remote))


class SharedBackend:
    """The backend of one API that all tests share: each test puts its own store in."""

    tick = None

    def __init__(self) -> None:
        self.store: Store | None = None
        self.listeners = Listeners()

    @property
    def current_store(self) -> Store | None:
        return self.store

    def use_here(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    async def call(self, operation: Callable[[Catalog], Awaitable[T]]) -> T:
        assert self.store is not None
        return await operation(Catalog(self.store, Handlers()))

    async def examine(self) -> Sequence[Finding]:
        return ()

    def metrics_text(self, fleet: object, accept: str) -> tuple[str, bytes]:
        return "text/plain", b""

    def code(self, key: str) -> None:
        return None


@cache
def _api() -> tuple[SharedBackend, FastAPI]:
    """Makes the API once: its routes take a tenth of a second."""
    backend = SharedBackend()
    return backend, make_api(backend, limits=LIMITS)


@asynccontextmanager
async def served(kit: TestKit) -> AsyncIterator[TestKit]:
    """Serves the API on a store of its own for the length of the block, as a process of the server has it."""
    backend, api = _api()
    backend.store = store = await kit.open()
    RemoteWork(store, longest_lease=LONGEST).use()
    _, token = await tokens.create(store, "the suite", Role.WORKER)
    try:
        yield cast(TestKit, KitOverHttp(kit, api, str(token)))
    finally:
        await RemoteWork.close_of(store)
        await store.close()
