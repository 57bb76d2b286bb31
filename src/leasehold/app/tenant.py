"""The tenant's door, as an app sees it: typed by the handlers' signatures, blocking or awaited."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, TypeVar
from uuid import UUID

from leasehold.app.bulk import Belt, Chunks, EnqueuedMany, Here, Order, Place, Progress, fill, partly
from leasehold.app.definition import TypedDefinition
from leasehold.app.opened import Opened
from leasehold.app.result import awaited_result, limit_of
from leasehold.app.within import Within as WithinCaller
from leasehold.errors import (
    DuplicateJob,
    InvalidInput,
    LeaseholdError,
    PayloadInvalid,
    UnknownDefinition,
    UnknownJob,
    Unreachable,
    WrongState,
)
from leasehold.model.bounds import described
from leasehold.model.dedupe import Always, Dedupe, Mode, OnConflict, WhileActive, Within
from leasehold.model.duration import Duration, read_duration
from leasehold.model.job import EnqueueResult, JobId, JobRecord, NewJob, TenantId, job_id
from leasehold.store import CancelAnswer, Prepared, RescheduleAnswer, RetryAnswer, TenantJobs

if TYPE_CHECKING:
    from leasehold.app.app import Leasehold

P = ParamSpec("P")
R = TypeVar("R")


_TYPES: Mapping[str, tuple[type, ...]] = {
    "delay": (str, timedelta, int, float),
    "at": (datetime,),
    "priority": (int,),
    "max_attempts": (int,),
    "deadline": (datetime,),
    "dedupe_key": (str,),
    "dedupe": (WhileActive, Within, Always),
    "on_conflict": (str,),
    "correlation_id": (str,),
    "created_by": (str,),
    "id": (str, UUID),
}
# What is said last about when it is due counts.
_OTHER = {"delay": ("at",), "at": ("delay",)}
_fits = attrgetter("fits")


@dataclass(frozen=True, slots=True)
class Enqueued(Generic[R]):
    """The answer to an enqueue. Not `created`: the job with this id was there before and holds the key or the id.

    `replaced`: that job still waited, and has become what was asked for.
    """

    id: JobId
    created: bool
    tenant: TenantId
    definition: str
    _app: "Leasehold" = field(repr=False, compare=False)
    replaced: bool = False

    def result(self, timeout: Duration | None = None) -> R:
        """What the handler returns, once it has: the caller is woken, nobody asks again and again. None: no limit.

        Raises JobFailed for a job that ends in any other way, ResultTimeout when it has not ended in time (and goes
        on), UnknownJob when it was pruned.
        """
        waited: R = self._app._wait(partial(awaited_result, self, limit_of(timeout)), "aresult")
        return waited

    async def aresult(self, timeout: Duration | None = None) -> R:
        waited: R = await self._app._ask(partial(awaited_result, self, limit_of(timeout)))
        return waited


@dataclass(frozen=True, slots=True)
class Tenant:
    """What one tenant can do. Each verb comes twice: blocking, and with an `a` in front to be awaited.

    Success of an enqueue means that the job is on the disk of the database. After Unreachable it may be there or not:
    repeat the call with `options(id=…)`, and it is there once.
    """

    id: TenantId
    _app: "Leasehold" = field(repr=False)
    _options: Mapping[str, Any] = field(default_factory=dict)
    _fields: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    _within: WithinCaller | None = field(default=None, repr=False)

    def within(self, transaction: object, *, atomic: bool = True, wakes: bool = True) -> "Tenant":
        """This door, for enqueues that are a part of your own transaction: rolled back, there was never a job.

        `transaction` is what you write your own data with: an asyncpg or psycopg connection, a SQLAlchemy session or
        connection, a Django connection. One that blocks is used by `enqueue`, in your thread; one that is awaited by
        `aenqueue`, on your loop. It is never committed or rolled back here. Workers are woken when you commit.

        An autocommit connection commits the job by itself, and warns so (NotInTransaction); `atomic=False` says that
        this is meant. Of many jobs it commits each chunk, and PartlyEnqueued says which are there after an error.

        `wakes=False` is for PREPARE TRANSACTION, which Postgres refuses if a worker was woken. Sleeping workers then
        find the job when they next look; after COMMIT PREPARED the SQL function wake_workers wakes them at once.
        """
        return replace(self, _within=WithinCaller(self._app._join(transaction), atomic, wakes))

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
        """This door, with options for what is enqueued through it. What is not given stays as it was.

        delay, at       due after so long (`"5m"`, a timedelta, or seconds), or at that moment
        priority        lower runs first; default the definition's, 100
        deadline        past it the job is not begun any more, it ends as failed
        dedupe_key      no second job while one with this key is active
        dedupe          how long a key is held: WhileActive(), Within(window), Always(); without a key, one is made
                        from definition, tenant and arguments
        on_conflict     when another job holds the key: "return" it (default), "raise" DuplicateJob, or "replace" what
                        it is to do, if it still waits
        correlation_id  yours, to find what belongs together
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
        said = {name: value for name, value in given.items() if value is not None}
        _require_types(said)
        if delay is not None and at is not None:
            raise InvalidInput(
                f"delay={delay} and at={at} can't both be when it is due. Nothing was enqueued.", fix="Leave one out."
            )
        before = {
            name: value for name, value in self._options.items() if said.keys().isdisjoint(_OTHER.get(name, ()))
        }
        options = {**before, **said}
        try:
            return replace(self, _options=options, _fields=_chosen(options))
        except InvalidInput as error:
            why = error.happened.partition("can't be enqueued: ")[2] or error.happened
            raise InvalidInput(
                f"these options can't be used: {why}", fix="Nothing was enqueued. Correct the values."
            ) from error

    # ------------------------------------------------------------------------------------------------------- enqueue

    def enqueue(self, definition: TypedDefinition[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Enqueued[R]:
        """Enqueues a call of this handler."""
        job = _bound(definition, args, kwargs)
        if self._within is not None:
            return self._enqueue_within(job, "enqueue")
        return self._app._wait(partial(self._enqueue, job), "aenqueue")

    async def aenqueue(self, definition: TypedDefinition[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Enqueued[R]:
        job = _bound(definition, args, kwargs)
        if self._within is not None:
            return await self._aenqueue_within(job, "aenqueue")
        return await self._app._ask(partial(self._enqueue, job))

    def enqueue_key(self, key: str, payload: Mapping[str, Any]) -> Enqueued[Any]:
        """Enqueues by the definition's key, where the handler's code is not at hand. The database has its schema."""
        if self._within is not None:
            job = self._app._block(partial(self._job_of, key, payload))
            return self._enqueue_within(job, "enqueue_key")
        return self._app._wait(partial(self._enqueue_key, key, payload), "aenqueue_key")

    async def aenqueue_key(self, key: str, payload: Mapping[str, Any]) -> Enqueued[Any]:
        if self._within is not None:
            job = await self._app._ask(partial(self._job_of, key, payload))
            return await self._aenqueue_within(job, "aenqueue_key")
        return await self._app._ask(partial(self._enqueue_key, key, payload))

    def enqueue_many(
        self,
        jobs: Iterable[NewJob],
        *,
        chunk: int | None = None,
        atomic: bool = True,
        progress: Progress | None = None,
    ) -> EnqueuedMany:
        """Enqueues what `definition.bind(…)` made, a hundred thousand as well as two: all of it, or nothing.

        A `NewJob` made by hand is validated like those: by the parameters of the app's handler, or by the schema in
        the database if only other code knows the definition.

        jobs      any iterable; it is asked for a chunk at a time, in this thread, while the one before is written
        chunk     how many go at a time; by default 250, or 2,000 where each chunk is a transaction
        atomic    False: each chunk is there as soon as it is written. After an error those before it stay, and
                  PartlyEnqueued says how many; no chunk is ever written by halves
        progress  called with how many are written, and how many there are (None where the iterable can't say)

        Whoever uses a generator that is slow should not be atomic: its transaction would be open all the time.
        """
        order = self._order(jobs, chunk, atomic, progress)
        if self._within is not None:
            return self._fill_within(order)
        belt = Belt(order)
        return belt.feed(self._app._begin(partial(self._fill, order, belt), "aenqueue_many"))

    async def aenqueue_many(
        self,
        jobs: Iterable[NewJob],
        *,
        chunk: int | None = None,
        atomic: bool = True,
        progress: Progress | None = None,
    ) -> EnqueuedMany:
        order = self._order(jobs, chunk, atomic, progress)
        if self._within is not None:
            return await self._afill_within(order)
        if opened := self._app._opened_here():
            return await self._fill(order, Here(order), opened)
        belt = Belt(order)
        return await belt.afeed(self._app._background.submit(partial(self._fill, order, belt)))

    def _order(self, jobs: Iterable[NewJob], chunk: int | None, atomic: bool, progress: Progress | None) -> Order:
        if "id" in self._options and len(jobs := list(islice(jobs, 2))) > 1:
            raise InvalidInput(
                f"several jobs can't all have the id {self._options['id']}. Nothing was enqueued.",
                fix="Enqueue them one by one, or leave the id out.",
            )
        return Order(jobs, chunk, atomic, progress)

    async def _fill(self, order: Order, chunks: Chunks, opened: Opened) -> EnqueuedMany:
        door = opened.store.tenant(self.id)
        pin, put = partial(self._pin, opened), partial(self._put, opened)
        return await fill(order, chunks, pin, put, door, EnqueuedMany(self._answered))

    async def _enqueue(self, job: NewJob, opened: Opened) -> Enqueued[Any]:
        pinned = await self._pin(opened, (job,))
        (placed,) = await self._put(opened, opened.store.tenant(self.id).enqueue, (job,), pinned)
        return self._answered(placed, job.definition)

    async def _enqueue_key(self, key: str, payload: Mapping[str, Any], opened: Opened) -> Enqueued[Any]:
        return await self._enqueue(await self._job_of(key, payload, opened), opened)

    async def _job_of(self, key: str, payload: Mapping[str, Any], opened: Opened) -> NewJob:
        if not isinstance(key, str):
            raise UnknownDefinition(
                f"{described(key)} is not the key of a definition, which is text. Nothing was enqueued.",
                fix="Pass the key of a definition; leasehold definitions lists them.",
            )
        if own := self._app.definition(key):
            return own.of_payload(payload)
        registered = await opened.registered(key)
        registered.definition.check(payload)
        return NewJob.of(key, payload).with_fields(registered.version, {})

    async def _put(
        self, opened: Opened, place: Place, jobs: Sequence[NewJob], pinned: Sequence[NewJob]
    ) -> Sequence[EnqueueResult]:
        try:
            return await place(pinned)
        except UnknownDefinition:
            opened.forget()
            return await place(await self._pin(opened, jobs))

    async def _pin(self, opened: Opened, jobs: Sequence[NewJob]) -> list[NewJob]:
        """With the door's options, and each pinned to the version that its definition has now.

        Validates jobs that `bind(…)` did not make.
        """
        if not all(map(_fits, jobs)):
            jobs = await self._fitting(jobs, opened)
        try:
            return self._with_versions(jobs, opened.versions)
        except KeyError:
            return await self._looked_up(jobs, opened)

    async def _fitting(self, jobs: Sequence[NewJob], opened: Opened) -> list[NewJob]:
        fitting: list[NewJob] = []
        for job in jobs:
            try:
                fitting.append(job if job.fits else await self._fit(job, opened))
            except PayloadInvalid as error:
                error.number = len(fitting) + 1 if len(jobs) > 1 else None
                raise
        return fitting

    async def _fit(self, job: NewJob, opened: Opened) -> NewJob:
        """By the parameters of the app's own handler; a definition or version of other code by its stored schema."""
        own = self._app.definition(job.definition)
        if own is not None and job.version in (None, await opened.version_of(job.definition)):
            return own.fit(job)
        if (definition := await opened.stored(job.definition, job.version)) is not None:
            definition.check(job.payload)
        return job

    async def _looked_up(self, jobs: Sequence[NewJob], opened: Opened) -> list[NewJob]:
        keys = {job.definition for job in jobs if not job.version}
        return self._with_versions(jobs, {key: await opened.version_of(key) for key in keys})

    def _with_versions(self, jobs: Sequence[NewJob], versions: Mapping[str, int]) -> list[NewJob]:
        return [job.with_fields(job.version or versions[job.definition], self._fields) for job in jobs]

    def _answered(self, placed: EnqueueResult, definition: str) -> Enqueued[Any]:
        return Enqueued(placed.id, placed.created, self.id, definition, self._app, placed.replaced)

    # ------------------------------------------------------------------------------- within the caller's transaction

    def _enqueue_within(self, job: NewJob, verb: str) -> Enqueued[Any]:
        self._caller(verb).require_blocking(verb)
        (placed,) = self._place_within((job,))
        return self._answered(placed, job.definition)

    async def _aenqueue_within(self, job: NewJob, verb: str) -> Enqueued[Any]:
        await self._caller(verb).require_awaited(verb)
        (placed,) = await self._aplace_within((job,))
        return self._answered(placed, job.definition)

    def _fill_within(self, order: Order) -> EnqueuedMany:
        """Chunk by chunk; whether all of them are kept is for the caller's transaction to say, if there is one."""
        within = self._caller("enqueue_many")
        within.require_blocking("enqueue_many")
        answer = EnqueuedMany(self._answered)
        with _telling_what_stays(answer, within.caller.commits_at_once()):
            while jobs := order.take(order.chunk):
                answer._add(jobs, self._place_within(jobs))
                order.report(len(answer))
        return answer

    async def _afill_within(self, order: Order) -> EnqueuedMany:
        within = self._caller("aenqueue_many")
        await within.require_awaited("aenqueue_many")
        answer = EnqueuedMany(self._answered)
        with _telling_what_stays(answer, await within.caller.acommits_at_once()):
            while jobs := order.take(order.chunk):
                answer._add(jobs, await self._aplace_within(jobs))
                order.report(len(answer))
        return answer

    def _caller(self, verb: str) -> WithinCaller:
        assert self._within is not None, verb
        return self._within

    def _place_within(self, jobs: Sequence[NewJob]) -> Sequence[EnqueueResult]:
        """Versions and the tenant are looked up by connections of our own; then the caller's sends one statement."""
        caller = self._caller("enqueue").caller
        try:
            return caller.place(self._app._block(partial(self._prepared, jobs)))
        except UnknownDefinition:
            return caller.place(self._app._block(partial(self._prepared_anew, jobs)))

    async def _aplace_within(self, jobs: Sequence[NewJob]) -> Sequence[EnqueueResult]:
        caller = self._caller("aenqueue").caller
        try:
            return await caller.aplace(await self._app._ask(partial(self._prepared, jobs)))
        except UnknownDefinition:
            return await caller.aplace(await self._app._ask(partial(self._prepared_anew, jobs)))

    async def _prepared(self, jobs: Sequence[NewJob], opened: Opened) -> Prepared:
        wakes = self._within is None or self._within.wakes
        return await opened.store.tenant(self.id).prepare(await self._pin(opened, jobs), wakes=wakes)

    async def _prepared_anew(self, jobs: Sequence[NewJob], opened: Opened) -> Prepared:
        opened.forget()
        return await self._prepared(jobs, opened)

    # ---------------------------------------------------------------------------------------------------------- read

    def get(self, job: str | UUID) -> JobRecord:
        """The job as it stands. Raises UnknownJob."""
        return self._app._wait(partial(self._get, job), "aget")

    async def aget(self, job: str | UUID) -> JobRecord:
        return await self._app._ask(partial(self._get, job))

    async def _get(self, job: str | UUID, opened: Opened) -> JobRecord:
        record = await opened.store.tenant(self.id).get(job_id(job))
        if record is None:
            raise UnknownJob(
                f'tenant "{self.id}" has no job {job_id(job)}. Nothing was changed.',
                fix="Check the id and the tenant; jobs are pruned when their retention is over.",
            )
        return record

    @property
    def jobs(self) -> TenantJobs:
        """Everything else that a tenant can ask for; on the loop of `app.open()`."""
        return self._app.store.tenant(self.id)

    # -------------------------------------------------------------------------------------------------------- change

    def cancel(self, job: str | UUID) -> CancelAnswer:
        """Cancels what waits; asks what runs to stop. Raises WrongState for a job that has ended."""
        return self._app._wait(partial(self._cancel, job), "acancel")

    async def acancel(self, job: str | UUID) -> CancelAnswer:
        return await self._app._ask(partial(self._cancel, job))

    async def _cancel(self, job: str | UUID, opened: Opened) -> CancelAnswer:
        (answer,) = (await opened.store.tenant(self.id).cancel([job_id(job)])).values()
        if answer not in (CancelAnswer.CANCELED, CancelAnswer.REQUESTED):
            raise _not_in_a_state(await self._get(job, opened), "canceled", "What has ended stays as it is.")
        return answer

    def retry(self, job: str | UUID) -> None:
        """Queues a job that has ended once more: same id, history kept, all its tries anew.

        Raises WrongState for one that has not ended, DuplicateJob if another job holds its dedupe key now.
        """
        self._app._wait(partial(self._retry, job), "aretry")

    async def aretry(self, job: str | UUID) -> None:
        await self._app._ask(partial(self._retry, job))

    async def _retry(self, job: str | UUID, opened: Opened) -> None:
        seen = await self._get(job, opened)
        if not seen.status.final:
            raise _not_in_a_state(seen, "retried", "It is not over yet: let it end, or cancel it first.")
        (answer,) = (await opened.store.tenant(self.id).retry({seen.id: seen.attempt})).values()
        if answer is RetryAnswer.DUPLICATE:
            raise DuplicateJob(
                f"job {seen.id} can't be retried: another active job holds its dedupe key. Nothing was changed.",
                fix="Let that one do the work, or cancel it first.",
            )
        if answer is not RetryAnswer.QUEUED:
            raise _not_in_a_state(
                await self._get(job, opened), "retried", "Someone else retried it first: look at it again."
            )

    def run_now(self, job: str | UUID) -> None:
        """Makes a waiting job due now. Raises WrongState for one that does not wait."""
        self._app._wait(partial(self._run_now, job), "arun_now")

    async def arun_now(self, job: str | UUID) -> None:
        await self._app._ask(partial(self._run_now, job))

    async def _run_now(self, job: str | UUID, opened: Opened) -> None:
        moved = await opened.store.tenant(self.id).reschedule([job_id(job)], delay=timedelta())
        if RescheduleAnswer.RESCHEDULED not in moved.values():
            seen = await self._get(job, opened)
            raise _not_in_a_state(seen, "run now", "Only what waits can be; retry what has ended.")


@contextmanager
def _telling_what_stays(answer: EnqueuedMany, commits_at_once: bool) -> Iterator[None]:
    """Drivers' errors pass as they are, and may be about a connection that broke before it answered."""
    try:
        yield
    except Exception as failure:
        if isinstance(failure, InvalidInput) and failure.number is not None:
            failure.number += len(answer)
        if not commits_at_once or not answer:
            raise
        in_doubt = isinstance(failure, Unreachable) or not isinstance(failure, LeaseholdError)
        raise partly(answer, failure, in_doubt) from failure


def _chosen(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options, as fields of a job."""
    fields = dict(options)
    key, mode = fields.pop("dedupe_key", None), fields.pop("dedupe", None)
    on_conflict = _on_conflict(fields.pop("on_conflict", None), deduped=key is not None or mode is not None)
    if key is not None or mode is not None:
        fields["dedupe"] = Dedupe(key, mode or WhileActive(), on_conflict)
    if "delay" in fields:
        fields["delay"] = read_duration(fields["delay"])
    if "id" in fields:
        fields["id"] = job_id(fields["id"])
    NewJob(definition="", **fields)
    return fields


def _on_conflict(said: str | None, *, deduped: bool) -> OnConflict:
    if said is None:
        return OnConflict.RETURN
    if said not in set(OnConflict):
        raise InvalidInput(
            f"on_conflict={said!r:.80} is none of {', '.join(OnConflict)}.",
            fix="Nothing was enqueued. Correct the value.",
        )
    if not deduped:
        raise InvalidInput(
            f"on_conflict={said!r} says what to do when a dedupe key is held, and there is none.",
            fix="Nothing was enqueued. Say dedupe_key=… or dedupe=… with it, or before it.",
        )
    return OnConflict(said)


def _require_types(said: Mapping[str, Any]) -> None:
    for name, value in said.items():
        if not isinstance(value, _TYPES[name]):
            raise InvalidInput(
                f"{name}={value!r:.80} is a {type(value).__name__}. Nothing was enqueued.",
                fix=f"{name} is {' or '.join(kind.__name__ for kind in _TYPES[name])}.",
            )


def _bound(definition: object, args: Sequence[Any], kwargs: Mapping[str, Any]) -> NewJob:
    """Before anything is opened: what does not fit is said at once."""
    if not isinstance(definition, TypedDefinition):
        raise InvalidInput(
            f"{described(definition)} is no definition. Nothing was enqueued.",
            fix="Pass a function that @app.job made one; by key alone, use enqueue_key(key, payload).",
        )
    return definition.bind(*args, **kwargs)


def _not_in_a_state(job: JobRecord, what: str, fix: str) -> WrongState:
    return WrongState(f"job {job.id} can't be {what}: it is {job.display}. Nothing was changed.", fix=fix)
