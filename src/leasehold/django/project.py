"""The app of a Django project: enqueues on Django's connections, in their thread, and leaves none to a test."""

from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, ParamSpec, TypeVar
from uuid import UUID

from asgiref.sync import sync_to_async
from django.core import mail
from django.db import close_old_connections, connections, reset_queries, transaction
from django.utils.connection import ConnectionProxy

from leasehold.app import Leasehold
from leasehold.app.bulk import Progress
from leasehold.app.definition import TypedDefinition
from leasehold.app.enqueued import Enqueued
from leasehold.app.enqueued_many import EnqueuedMany
from leasehold.app.tenant import Tenant
from leasehold.app.within import CallerTransaction
from leasehold.django.project_settings import ProjectSettings
from leasehold.model.event_plan import Emitted
from leasehold.model.job import NewJob, tenant_id
from leasehold.worker.handlers import Call
from leasehold.worker.job import Job

P = ParamSpec("P")
R = TypeVar("R")


class DjangoTenant(Tenant):
    """A tenant handle on Django's connections, which block: awaited calls go to their thread, as in the ORM."""

    async def aenqueue(self, definition: TypedDefinition[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Enqueued[R]:
        return await sync_to_async(self.enqueue)(definition, *args, **kwargs)

    async def aenqueue_key(self, key: str, payload: Mapping[str, Any]) -> Enqueued[Any]:
        return await sync_to_async(self.enqueue_key)(key, payload)

    async def aemit(self, name: str, data: Mapping[str, Any] | None = None) -> Emitted:
        return await sync_to_async(self.emit)(name, data)

    def within(self, transaction: object, *, atomic: bool = True, wakes: bool = True) -> Tenant:
        """Returns a plain tenant handle: on another connection it works as in any other app."""
        plain = Tenant(self.id, self._store, self._options, self._fields)
        return plain.within(transaction, atomic=atomic, wakes=wakes)

    def enqueue_many(
        self,
        jobs: Iterable[NewJob],
        *,
        chunk: int | None = None,
        atomic: bool = True,
        progress: Progress | None = None,
    ) -> EnqueuedMany:
        with transaction.atomic(using=ProjectSettings.read().alias) if atomic else nullcontext():
            return super().enqueue_many(jobs, chunk=chunk, atomic=atomic, progress=progress)

    async def aenqueue_many(
        self,
        jobs: Iterable[NewJob],
        *,
        chunk: int | None = None,
        atomic: bool = True,
        progress: Progress | None = None,
    ) -> EnqueuedMany:
        return await sync_to_async(self.enqueue_many)(jobs, chunk=chunk, atomic=atomic, progress=progress)


class Project(Leasehold):
    """The Leasehold app of a Django project, in the database of an alias.

    Its tenant handles enqueue on the thread's current connection of that alias: inside `transaction.atomic()` a job
    is committed or rolled back with the models, outside of it at once.
    """

    uses_callers_connections = True
    process_target = "leasehold.django.loaded"

    def __init__(self) -> None:
        super().__init__(url=lambda: ProjectSettings.read().url, schema=lambda: ProjectSettings.read().schema)
        self._store.after_call = self._leave_no_connection_to_a_test

    def tenant(self, tenant: str | UUID) -> Tenant:
        """Returns a tenant handle for the current connection of the alias, in any thread."""
        current = ConnectionProxy(connections, ProjectSettings.read().alias)
        transaction = CallerTransaction(self._store.join(current), atomic=False)
        return DjangoTenant(tenant_id(tenant), self._store, _within=transaction)

    def _only_tenant(self, verb: str) -> Tenant:
        self._tenant = None if (only := ProjectSettings.read().tenant) is None else tenant_id(only)
        return super()._only_tenant(verb) if self._tenant is None else self.tenant(self._tenant)

    def _wrap(self, call: Call) -> Call:
        return with_fresh_connections(call)

    def _leave_no_connection_to_a_test(self) -> None:
        """Closes the store after each call in a test: Django can't drop a test database that has connections."""
        if hasattr(mail, "outbox"):
            self.close()


def with_fresh_connections(call: Call) -> Call:
    """Closes connections that broke or are older than CONN_MAX_AGE, as Django does around each request."""
    if iscoroutinefunction(call):

        @wraps(call)
        async def acall(job: Job, payload: Any) -> Any:
            await sync_to_async(_refresh)()
            try:
                return await call(job, payload)
            finally:
                await sync_to_async(_refresh)()

        return acall

    @wraps(call)
    def sync_call(job: Job, payload: Any) -> Any:
        _refresh()
        try:
            return call(job, payload)
        finally:
            _refresh()

    return sync_call


def _refresh() -> None:
    reset_queries()
    close_old_connections()


app = Project()
