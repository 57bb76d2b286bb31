"""The tenant handle: typed by the handlers' signatures, each verb blocking and awaited."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, Literal, ParamSpec, TypeVar
from uuid import UUID

from leasehold.app import bulk
from leasehold.app.app_store import AppStore, EnqueueStrategy
from leasehold.app.bulk import BulkRequest, LoopChunks, Progress, ThreadChunks
from leasehold.app.definition import TypedDefinition
from leasehold.app.enqueued import Enqueued
from leasehold.app.enqueued_many import EnqueuedMany
from leasehold.app.job_reader import JobReader
from leasehold.app.options import event_fields, job_fields, merge_options, require_at_most_one_with_an_id
from leasehold.app.triggers import TenantTriggers
from leasehold.app.within import CallerTransaction
from leasehold.errors import InvalidInput
from leasehold.model.bounds import describe
from leasehold.model.dedupe import Mode
from leasehold.model.duration import Duration
from leasehold.model.event import NewEvent
from leasehold.model.event_plan import Emitted
from leasehold.model.explanation import Explanation
from leasehold.model.job import EnqueueResult, JobRecord, NewJob, TenantId, job_id
from leasehold.model.usage import DEFAULT_LENGTH, Usage
from leasehold.operations import events, usage
from leasehold.operations import jobs as operations
from leasehold.operations.enqueue import Target, enqueue, enqueue_key, job_of
from leasehold.operations.reports import report_bulk, report_emit, report_enqueue
from leasehold.store import CancelAnswer
from leasehold.telemetry.productions import UNTRACED, Production

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant handle. Each verb comes twice: blocking, and with an `a` in front to be awaited.

    Success of an enqueue means that the job is on the disk of the database. After Unreachable it may be there or not:
    repeat the call with `options(id=…)`, and it is there once.
    """

    id: TenantId
    _store: AppStore = field(repr=False)
    _options: Mapping[str, Any] = field(default_factory=dict)
    _fields: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    _within: CallerTransaction | None = field(default=None, repr=False)

    def within(self, transaction: object, *, atomic: bool = True, wakes: bool = True) -> "Tenant":
        """Returns this handle for enqueues that are part of your own transaction: a rollback leaves no job.

        `transaction` is the connection that writes your own data: an asyncpg or psycopg connection, a SQLAlchemy
        session or connection, a Django connection. One that blocks is used by `enqueue`, in your thread; one that is
        awaited by `aenqueue`, on your loop. It is never committed or rolled back here. Your commit wakes workers.

        An autocommit connection commits the job by itself, with a NotInTransaction warning; `atomic=False` says that
        this is intended. `enqueue_many` then commits each chunk, and PartlyEnqueued names the jobs that stay after an
        error.

        `wakes=False` is for PREPARE TRANSACTION, which Postgres refuses if a worker was woken. Sleeping workers then
        find the job when they next look; after COMMIT PREPARED the SQL function wake_workers wakes them at once.
        """
        return replace(self, _within=CallerTransaction(self._store.join(transaction), atomic, wakes))

    def options(
        self,
        *,
        delay: Duration | None = None,
        at: datetime | None = None,
        priority: int | None = None,
        max_attempts: int | None = None,
        deadline: datetime | None = None,
        dedupe_key: str | None = None,
        dedupe: Mode | None = None,
        on_conflict: Literal["return", "raise", "replace"] | None = None,
        correlation_id: str | None = None,
        created_by: str | None = None,
        id: str | UUID | None = None,  # noqa: A002
    ) -> "Tenant":
        """Returns this handle with options for its enqueues. Options that are not given stay as they were.

        delay, at       due after so long (`"5m"`, a timedelta, or seconds), or at that moment
        priority        lower runs first; default the definition's, 100
        deadline        a job that has not started by then ends as failed
        dedupe_key      no second job while one with this key is active
        dedupe          how long a key is held: WhileActive(), Within(window), Always(); without a key, one is made
                        from definition, tenant and arguments
        on_conflict     when another job holds the key: "return" it (default), "raise" DuplicateJob, or "replace" its
                        arguments and options, if it still waits
        correlation_id  yours, to find jobs that belong together
        id              a UUID of yours: the same call repeated gives the same job; another call is refused (IdReused)
        """
        given: dict[str, Any] = {
            "delay": delay,
            "at": at,
            "priority": priority,
            "max_attempts": max_attempts,
            "deadline": deadline,
            "dedupe_key": dedupe_key,
            "dedupe": dedupe,
            "on_conflict": on_conflict,
            "correlation_id": correlation_id,
            "created_by": created_by,
            "id": id,
        }
        options = merge_options(self._options, {name: value for name, value in given.items() if value is not None})
        return replace(self, _options=options, _fields=job_fields(options))

    # ------------------------------------------------------------------------------------------------------- enqueue

    def enqueue(self, definition: TypedDefinition[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Enqueued[R]:
        """Enqueues a call of this handler."""
        job = _bind(definition, args, kwargs)
        with self._produce("enqueue", job.definition) as production:
            target = self._target(production)
            if self._within is None:
                placed = self._store.call(partial(enqueue, target, job), "aenqueue")
            else:
                self._within.require_blocking("enqueue")
                (placed,) = self._within.place(self._store, target, (job,))
            production.note(job=placed.id)
        return self._answer(placed, job.definition, "aenqueue")

    async def aenqueue(self, definition: TypedDefinition[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Enqueued[R]:
        job = _bind(definition, args, kwargs)
        with self._produce("enqueue", job.definition) as production:
            target = self._target(production)
            if self._within is None:
                placed = await self._store.acall(partial(enqueue, target, job))
            else:
                await self._within.require_awaited("aenqueue")
                (placed,) = await self._within.aplace(self._store, target, (job,))
            production.note(job=placed.id)
        return await self._aanswer(placed, job.definition)

    def enqueue_key(self, key: str, payload: Mapping[str, Any]) -> Enqueued[Any]:
        """Enqueues by the definition's key, where the handler's code is not at hand. The database has its schema."""
        with self._produce("enqueue", key) as production:
            target = self._target(production)
            if self._within is None:
                placed = self._store.call(partial(enqueue_key, target, key, payload), "aenqueue_key")
            else:
                job = self._store.call(partial(job_of, target, key, payload))
                self._within.require_blocking("enqueue_key")
                (placed,) = self._within.place(self._store, target, (job,))
            production.note(job=placed.id)
        return self._answer(placed, key, "aenqueue_key")

    async def aenqueue_key(self, key: str, payload: Mapping[str, Any]) -> Enqueued[Any]:
        with self._produce("enqueue", key) as production:
            target = self._target(production)
            if self._within is None:
                placed = await self._store.acall(partial(enqueue_key, target, key, payload))
            else:
                job = await self._store.acall(partial(job_of, target, key, payload))
                await self._within.require_awaited("aenqueue_key")
                (placed,) = await self._within.aplace(self._store, target, (job,))
            production.note(job=placed.id)
        return await self._aanswer(placed, key)

    def enqueue_many(
        self,
        jobs: Iterable[NewJob],
        *,
        chunk: int | None = None,
        atomic: bool = True,
        progress: Progress | None = None,
    ) -> EnqueuedMany:
        """Enqueues jobs that `definition.bind(…)` made, two or a hundred thousand: all of them, or none.

        A `NewJob` made by hand is validated like those: by the parameters of the app's handler, or by the schema in
        the database if only other code knows the definition.

        jobs      any iterable; it is read a chunk at a time, in this thread, while the chunk before is written
        chunk     how many jobs go at a time; by default 1,000, or 2,000 where each chunk is a transaction
        atomic    False: each chunk is there as soon as it is written. After an error those before it stay, and
                  PartlyEnqueued says how many; no chunk is ever written by halves
        progress  called with how many are written, and how many there are (None if the iterable has no length)

        For a slow generator use atomic=False: a transaction would stay open for as long as the generator takes.
        """
        request = BulkRequest(require_at_most_one_with_an_id(jobs, self._options), chunk, atomic, progress)
        answer = EnqueuedMany(self._make_enqueued)
        with self._produce("enqueue") as production:
            target = self._target(production)
            if self._within is not None:
                bulk.enqueue_within(request, self._within, self._store, target, answer)
            else:
                chunks = ThreadChunks(request)
                send = partial(bulk.enqueue_chunks, request, chunks, target, answer)
                chunks.feed(self._store.submit(send, "aenqueue_many"))
            production.note(count=len(answer))
        report_bulk(self._store.listeners, self.id, answer.counted())
        if self._store.strategy is not None:
            _act_after(self._store.strategy, self._store, answer, self._within, "aenqueue_many")
        return answer

    async def aenqueue_many(
        self,
        jobs: Iterable[NewJob],
        *,
        chunk: int | None = None,
        atomic: bool = True,
        progress: Progress | None = None,
    ) -> EnqueuedMany:
        request = BulkRequest(require_at_most_one_with_an_id(jobs, self._options), chunk, atomic, progress)
        answer = EnqueuedMany(self._make_enqueued)
        with self._produce("enqueue") as production:
            target = self._target(production)
            if self._within is not None:
                await bulk.aenqueue_within(request, self._within, self._store, target, answer)
            elif opened := self._store.store_here():
                await bulk.enqueue_chunks(request, LoopChunks(request), target, answer, opened)
            else:
                chunks = ThreadChunks(request)
                send = partial(bulk.enqueue_chunks, request, chunks, target, answer)
                await chunks.afeed(self._store.submit(send))
            production.note(count=len(answer))
        report_bulk(self._store.listeners, self.id, answer.counted())
        if self._store.strategy is not None:
            await _act_after_awaited(self._store.strategy, self._store, answer, self._within)
        return answer

    # --------------------------------------------------------------------------------------------------------- emit

    def emit(self, name: str, data: Mapping[str, Any] | None = None) -> Emitted:
        """Emits an event, like `emit("provider.folder.updated", {"folder_path": "/a"})`: writes it, and the jobs of
        the triggers that match, all or nothing.

        A trigger that can't make its job records an error, and concerns neither the event nor other triggers. Of the
        options, `correlation_id`, which its jobs get, `created_by` and `id` apply: the same emit repeated with its id
        returns the first answer, and makes no job.
        """
        with self._produce("emit", name) as production:
            event = self._event(name, data, production)
            if self._within is None:
                emitted = self._store.call(partial(events.emit, self.id, event), "aemit")
            else:
                self._within.require_blocking("emit")
                emitted = self._within.emit(self._store, self.id, event)
            production.note(count=len(emitted.jobs))
        report_emit(self._store.listeners, emitted)
        if self._store.strategy is not None and emitted.created:
            _act_after(self._store.strategy, self._store, self._made(emitted), self._within, "aemit")
        return emitted

    async def aemit(self, name: str, data: Mapping[str, Any] | None = None) -> Emitted:
        with self._produce("emit", name) as production:
            event = self._event(name, data, production)
            if self._within is None:
                emitted = await self._store.acall(partial(events.emit, self.id, event))
            else:
                await self._within.require_awaited("aemit")
                emitted = await self._within.aemit(self._store, self.id, event)
            production.note(count=len(emitted.jobs))
        report_emit(self._store.listeners, emitted)
        if self._store.strategy is not None and emitted.created:
            await _act_after_awaited(self._store.strategy, self._store, self._made(emitted), self._within)
        return emitted

    def _event(self, name: str, data: Mapping[str, Any] | None, production: Production) -> NewEvent:
        fields = event_fields(self._options)
        return NewEvent(name, {} if data is None else data, **fields, trace_context=production.trace_context)

    def _made(self, emitted: Emitted) -> list[Enqueued[Any]]:
        return [
            Enqueued(job, True, self.id, definition, self._store) for job, definition in emitted.definitions.items()
        ]

    def _produce(self, verb: str, name: str | None = None) -> Production:
        """Begins the span of a call, if the app traces."""
        tracing = self._store.listeners.tracing
        return UNTRACED if tracing is None else tracing.produce(verb, name, self.id)

    def _target(self, production: Production) -> Target:
        context = production.trace_context
        fields = self._fields if context is None else {**self._fields, "trace_context": context}
        return Target(self.id, fields, self._store.registry.get)

    def _answer(self, placed: EnqueueResult, definition: str, twin: str) -> Enqueued[Any]:
        answer = self._make_enqueued(placed, definition)
        report_enqueue(self._store.listeners, self.id, definition, placed)
        if self._store.strategy is not None:
            _act_after(self._store.strategy, self._store, (answer,), self._within, twin)
        return answer

    async def _aanswer(self, placed: EnqueueResult, definition: str) -> Enqueued[Any]:
        answer = self._make_enqueued(placed, definition)
        report_enqueue(self._store.listeners, self.id, definition, placed)
        if self._store.strategy is not None:
            await _act_after_awaited(self._store.strategy, self._store, (answer,), self._within)
        return answer

    def _make_enqueued(self, placed: EnqueueResult, definition: str) -> Enqueued[Any]:
        return Enqueued(placed.id, placed.created, self.id, definition, self._store, placed.replaced)

    # ------------------------------------------------------------------------------------------------ read and change

    @property
    def jobs(self) -> JobReader:
        """Everything that can be read about the tenant's jobs: lists, counts, attempts, log lines, explanations."""
        return JobReader(self.id, self._store)

    @property
    def triggers(self) -> TenantTriggers:
        """The tenant's triggers: rules that enqueue jobs, by a schedule or by an event."""
        return TenantTriggers(self.id, self._store)

    def usage(
        self,
        since: datetime | Duration = DEFAULT_LENGTH,
        until: datetime | Duration | None = None,
        by: str | Iterable[str] = (),
        definition: str | None = None,
    ) -> Usage:
        """Returns how many attempts of the tenant ended, how long they ran, and their processor time.

        since, until  a moment, or so long before now; both are widened to whole hours of UTC; default: until now
        by            a row for each "definition", and each "hour" or "day"; default: "definition"
        definition    only this one
        """
        return self._store.call(
            lambda opened: usage.read(opened.store, self.id, since, until, by, definition), "ausage"
        )

    async def ausage(
        self,
        since: datetime | Duration = DEFAULT_LENGTH,
        until: datetime | Duration | None = None,
        by: str | Iterable[str] = (),
        definition: str | None = None,
    ) -> Usage:
        return await self._store.acall(lambda opened: usage.read(opened.store, self.id, since, until, by, definition))

    def get(self, job: str | UUID) -> JobRecord:
        """Returns the job as it stands. Raises UnknownJob."""
        return self._store.call(lambda opened: operations.get(opened.store, self.id, job_id(job)), "aget")

    async def aget(self, job: str | UUID) -> JobRecord:
        return await self._store.acall(lambda opened: operations.get(opened.store, self.id, job_id(job)))

    def explain(self, job: str | UUID) -> Explanation:
        """Tells why the job does not run: each condition of a claim, and what to do if it does not hold.

        Raises UnknownJob.
        """
        return self.jobs.explain(job)

    async def aexplain(self, job: str | UUID) -> Explanation:
        return await self.jobs.aexplain(job)

    def cancel(self, job: str | UUID) -> CancelAnswer:
        """Cancels a waiting job; asks a running one to stop. Raises WrongState for a job that has ended."""
        return self._store.call(lambda opened: operations.cancel(opened.store, self.id, job_id(job)), "acancel")

    async def acancel(self, job: str | UUID) -> CancelAnswer:
        return await self._store.acall(lambda opened: operations.cancel(opened.store, self.id, job_id(job)))

    def retry(self, job: str | UUID) -> None:
        """Queues a job that has ended once more: same id, history kept, with all its tries again.

        Raises WrongState for one that has not ended, DuplicateJob if another job holds its dedupe key now.
        """
        self._store.call(lambda opened: operations.retry(opened.store, self.id, job_id(job)), "aretry")

    async def aretry(self, job: str | UUID) -> None:
        await self._store.acall(lambda opened: operations.retry(opened.store, self.id, job_id(job)))

    def run_now(self, job: str | UUID) -> None:
        """Makes a waiting job due now. Raises WrongState for one that does not wait."""
        self._store.call(lambda opened: operations.run_now(opened.store, self.id, job_id(job)), "arun_now")

    async def arun_now(self, job: str | UUID) -> None:
        await self._store.acall(lambda opened: operations.run_now(opened.store, self.id, job_id(job)))


def _act_after(
    strategy: EnqueueStrategy,
    store: AppStore,
    jobs: Sequence[Enqueued[Any]],
    within: CallerTransaction | None,
    twin: str,
) -> None:
    strategy.after(store, jobs, None if within is None else within.caller, twin)


async def _act_after_awaited(
    strategy: EnqueueStrategy, store: AppStore, jobs: Sequence[Enqueued[Any]], within: CallerTransaction | None
) -> None:
    await strategy.aafter(store, jobs, None if within is None else within.caller)


def _bind(definition: object, args: Sequence[Any], kwargs: Mapping[str, Any]) -> NewJob:
    """Validates the arguments before anything is opened."""
    if not isinstance(definition, TypedDefinition):
        raise InvalidInput(
            f"{describe(definition)} is not a definition. Nothing was enqueued.",
            fix="Pass a function that @app.job made one; by key alone, use enqueue_key(key, payload).",
        )
    return definition.bind(*args, **kwargs)
