"""The tenant's door, as an app sees it: typed by the handlers' signatures, blocking or awaited."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, TypeVar
from uuid import UUID

from leasehold.app.definition import TypedDefinition
from leasehold.app.opened import Opened
from leasehold.app.result import awaited_result, limit_of
from leasehold.app.within import Within as WithinCaller
from leasehold.config import read_duration
from leasehold.engines import caller
from leasehold.errors import DuplicateJob, InvalidInput, UnknownDefinition, UnknownJob, WrongState
from leasehold.model.dedupe import Always, Dedupe, Mode, OnConflict, WhileActive, Within
from leasehold.model.job import JobId, JobRecord, NewJob, Placed, TenantId, job_id
from leasehold.store import CancelAnswer, Prepared, RescheduleAnswer, RetryAnswer, TenantJobs

if TYPE_CHECKING:
    from leasehold.app.app import Leasehold

P = ParamSpec("P")
R = TypeVar("R")


_TYPES: Mapping[str, tuple[type, ...]] = {
    "delay": (str, timedelta),
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
_OTHER = {"delay": "at", "at": "delay"}


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

    def result(self, timeout: float | str | timedelta | None = None) -> R:
        """What the handler returns, once it has: the caller is woken, nobody asks again and again. None: no limit.

        Raises JobFailed for a job that ends in any other way, ResultTimeout when it has not ended in time (and goes
        on), UnknownJob when it was pruned.
        """
        waited: R = self._app._wait(partial(awaited_result, self, limit_of(timeout)), "aresult")
        return waited

    async def aresult(self, timeout: float | str | timedelta | None = None) -> R:
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
    _within: WithinCaller | None = field(default=None, repr=False)

    def within(self, transaction: object, *, atomic: bool = True) -> "Tenant":
        """This door, for enqueues that are a part of your own transaction: rolled back, there was never a job.

        `transaction` is what you write your own data with: an asyncpg or psycopg connection, a SQLAlchemy session or
        connection, a Django connection. One that blocks is used by `enqueue`, in your thread; one that is awaited by
        `aenqueue`, on your loop. It is never committed or rolled back here. Workers are woken when you commit.

        An autocommit connection commits the job by itself, and warns so (NotInTransaction); `atomic=False` says that
        this is meant.
        """
        return replace(self, _within=WithinCaller(caller(transaction), atomic))

    def options(
        self,
        *,
        delay: str | timedelta | None = None,
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

        delay, at       due after so long (`"5m"` or a timedelta), or at that moment
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
        chosen = replace(self, _options={**before, **said})
        try:
            chosen._chosen()
        except InvalidInput as error:
            why = error.happened.partition("can't be enqueued: ")[2] or error.happened
            raise InvalidInput(
                f"these options can't be used: {why}", fix="Nothing was enqueued. Correct the values."
            ) from error
        return chosen

    def _chosen(self) -> dict[str, Any]:
        """The options, as fields of a job."""
        fields = dict(self._options)
        key, mode = fields.pop("dedupe_key", None), fields.pop("dedupe", None)
        on_conflict = _on_conflict(fields.pop("on_conflict", None), deduped=key is not None or mode is not None)
        if key is not None or mode is not None:
            fields["dedupe"] = Dedupe(key, mode or WhileActive(), on_conflict)
        if isinstance(fields.get("delay"), str):
            fields["delay"] = read_duration(fields["delay"])
        if "id" in fields:
            fields["id"] = job_id(fields["id"])
        NewJob(definition="", **fields)
        return fields

    # ------------------------------------------------------------------------------------------------------- enqueue

    def enqueue(self, definition: TypedDefinition[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Enqueued[R]:
        """Enqueues a call of this handler."""
        job = _bound(definition, args, kwargs)
        if self._within is not None:
            return self._place_within([job], "enqueue")[0]
        return self._app._wait(partial(self._enqueue, job), "aenqueue")

    async def aenqueue(self, definition: TypedDefinition[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Enqueued[R]:
        job = _bound(definition, args, kwargs)
        if self._within is not None:
            return (await self._aplace_within([job], "aenqueue"))[0]
        return await self._app._ask(partial(self._enqueue, job))

    def enqueue_key(self, key: str, payload: Mapping[str, Any]) -> Enqueued[Any]:
        """Enqueues by the definition's key, where the handler's code is not at hand. The database has its schema."""
        if self._within is not None:
            job = self._app._block(partial(self._job_of, key, payload))
            return self._place_within([job], "enqueue_key")[0]
        return self._app._wait(partial(self._enqueue_key, key, payload), "aenqueue_key")

    async def aenqueue_key(self, key: str, payload: Mapping[str, Any]) -> Enqueued[Any]:
        if self._within is not None:
            job = await self._app._ask(partial(self._job_of, key, payload))
            return (await self._aplace_within([job], "aenqueue_key"))[0]
        return await self._app._ask(partial(self._enqueue_key, key, payload))

    def enqueue_many(self, jobs: Iterable[NewJob]) -> Sequence[Enqueued[Any]]:
        """Enqueues what `definition.bind(…)` made: all of it or nothing, in one transaction."""
        if self._within is not None:
            return self._place_within(list(jobs), "enqueue_many")
        return self._app._wait(partial(self._enqueue_many, list(jobs)), "aenqueue_many")

    async def aenqueue_many(self, jobs: Iterable[NewJob]) -> Sequence[Enqueued[Any]]:
        if self._within is not None:
            return await self._aplace_within(list(jobs), "aenqueue_many")
        return await self._app._ask(partial(self._enqueue_many, list(jobs)))

    async def _enqueue(self, job: NewJob, opened: Opened) -> Enqueued[Any]:
        return (await self._enqueue_many([job], opened))[0]

    async def _enqueue_key(self, key: str, payload: Mapping[str, Any], opened: Opened) -> Enqueued[Any]:
        return await self._enqueue(await self._job_of(key, payload, opened), opened)

    async def _job_of(self, key: str, payload: Mapping[str, Any], opened: Opened) -> NewJob:
        if own := self._app.definition(key):
            return own.of_payload(payload)
        registered = await opened.registered(key)
        registered.definition.check(payload)
        return NewJob(definition=key, payload=payload, version=registered.version)

    async def _enqueue_many(self, jobs: Sequence[NewJob], opened: Opened) -> list[Enqueued[Any]]:
        try:
            return await self._place(jobs, opened)
        except UnknownDefinition:
            opened.forget()
            return await self._place(jobs, opened)

    async def _place(self, jobs: Sequence[NewJob], opened: Opened) -> list[Enqueued[Any]]:
        pinned = await self._pinned(jobs, opened)
        return self._answers(jobs, await opened.store.tenant(self.id).enqueue(pinned))

    async def _pinned(self, jobs: Sequence[NewJob], opened: Opened) -> list[NewJob]:
        if "id" in self._options and len(jobs) > 1:
            raise InvalidInput(
                f"{len(jobs)} jobs can't all have the id {self._options['id']}. Nothing was enqueued.",
                fix="Enqueue them one by one, or leave the id out.",
            )
        options = self._chosen()
        return [
            replace(job, version=job.version or await opened.version_of(job.definition), **options) for job in jobs
        ]

    def _answers(self, jobs: Sequence[NewJob], placed: Sequence[Placed]) -> list[Enqueued[Any]]:
        return [
            Enqueued(answer.id, answer.created, self.id, job.definition, self._app, answer.replaced)
            for job, answer in zip(jobs, placed, strict=True)
        ]

    # ------------------------------------------------------------------------------- within the caller's transaction

    def _place_within(self, jobs: Sequence[NewJob], verb: str) -> list[Enqueued[Any]]:
        """Versions and the tenant are looked up by connections of our own; then the caller's sends one statement."""
        within = self._within
        assert within is not None
        within.require_blocking(verb)
        try:
            prepared = self._app._block(partial(self._prepared, jobs))
            return self._answers(jobs, within.caller.place(prepared))
        except UnknownDefinition:
            prepared = self._app._block(partial(self._prepared_anew, jobs))
            return self._answers(jobs, within.caller.place(prepared))

    async def _aplace_within(self, jobs: Sequence[NewJob], verb: str) -> list[Enqueued[Any]]:
        within = self._within
        assert within is not None
        await within.require_awaited(verb)
        try:
            prepared = await self._app._ask(partial(self._prepared, jobs))
            return self._answers(jobs, await within.caller.aplace(prepared))
        except UnknownDefinition:
            prepared = await self._app._ask(partial(self._prepared_anew, jobs))
            return self._answers(jobs, await within.caller.aplace(prepared))

    async def _prepared(self, jobs: Sequence[NewJob], opened: Opened) -> Prepared:
        return await opened.store.tenant(self.id).prepare(await self._pinned(jobs, opened))

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
        """Queues a job that has ended once more: same id, history kept, all its attempts anew.

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
            f"{definition!r} is no definition. Nothing was enqueued.",
            fix="Pass a function that @app.job made one; by key alone, use enqueue_key(key, payload).",
        )
    return definition.bind(*args, **kwargs)


def _not_in_a_state(job: JobRecord, what: str, fix: str) -> WrongState:
    return WrongState(f"job {job.id} can't be {what}: it is {job.display}. Nothing was changed.", fix=fix)
