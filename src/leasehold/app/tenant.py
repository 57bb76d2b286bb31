"""The tenant's door, as an app sees it: typed by the handlers' signatures, blocking or awaited."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar
from uuid import UUID

from leasehold.app.definition import TypedDefinition
from leasehold.app.opened import Opened
from leasehold.app.result import awaited_result, limit_of
from leasehold.config import read_duration
from leasehold.errors import DuplicateJob, InvalidInput, UnknownDefinition, UnknownJob, WrongState
from leasehold.model.dedupe import Always, Dedupe, Mode, WhileActive, Within
from leasehold.model.job import JobId, JobRecord, NewJob, TenantId, job_id
from leasehold.store import CancelAnswer, RescheduleAnswer, RetryAnswer, TenantJobs

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
    "correlation_id": (str,),
    "created_by": (str,),
    "id": (str, UUID),
}
# What is said last about when it is due counts.
_OTHER = {"delay": "at", "at": "delay"}


@dataclass(frozen=True, slots=True)
class Enqueued(Generic[R]):
    """The answer to an enqueue. Not `created`: the job with this id was there before and holds the key or the id."""

    id: JobId
    created: bool
    tenant: TenantId
    definition: str
    _app: "Leasehold" = field(repr=False, compare=False)

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
        correlation_id  yours, to find what belongs together
        id              a UUID of yours: the same call repeated gives the same job
        """
        given: dict[str, Any] = {
            "delay": delay,
            "at": at,
            "priority": priority,
            "max_attempts": max_attempts,
            "deadline": deadline,
            "dedupe_key": dedupe_key,
            "dedupe": dedupe,
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
        if key is not None or mode is not None:
            fields["dedupe"] = Dedupe(key, mode or WhileActive())
        if isinstance(fields.get("delay"), str):
            fields["delay"] = read_duration(fields["delay"])
        if "id" in fields:
            fields["id"] = job_id(fields["id"])
        NewJob(definition="", **fields)
        return fields

    # ------------------------------------------------------------------------------------------------------- enqueue

    def enqueue(self, definition: TypedDefinition[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Enqueued[R]:
        """Enqueues a call of this handler."""
        return self._app._wait(partial(self._enqueue, _bound(definition, args, kwargs)), "aenqueue")

    async def aenqueue(self, definition: TypedDefinition[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Enqueued[R]:
        return await self._app._ask(partial(self._enqueue, _bound(definition, args, kwargs)))

    def enqueue_key(self, key: str, payload: Mapping[str, Any]) -> Enqueued[Any]:
        """Enqueues by the definition's key, where the handler's code is not at hand. The database has its schema."""
        return self._app._wait(partial(self._enqueue_key, key, payload), "aenqueue_key")

    async def aenqueue_key(self, key: str, payload: Mapping[str, Any]) -> Enqueued[Any]:
        return await self._app._ask(partial(self._enqueue_key, key, payload))

    def enqueue_many(self, jobs: Iterable[NewJob]) -> Sequence[Enqueued[Any]]:
        """Enqueues what `definition.bind(…)` made: all of it or nothing, in one transaction."""
        return self._app._wait(partial(self._enqueue_many, list(jobs)), "aenqueue_many")

    async def aenqueue_many(self, jobs: Iterable[NewJob]) -> Sequence[Enqueued[Any]]:
        return await self._app._ask(partial(self._enqueue_many, list(jobs)))

    async def _enqueue(self, job: NewJob, opened: Opened) -> Enqueued[Any]:
        return (await self._enqueue_many([job], opened))[0]

    async def _enqueue_key(self, key: str, payload: Mapping[str, Any], opened: Opened) -> Enqueued[Any]:
        if own := self._app.definition(key):
            return await self._enqueue(own.of_payload(payload), opened)
        registered = await opened.registered(key)
        registered.definition.check(payload)
        return await self._enqueue(NewJob(definition=key, payload=payload, version=registered.version), opened)

    async def _enqueue_many(self, jobs: Sequence[NewJob], opened: Opened) -> list[Enqueued[Any]]:
        if "id" in self._options and len(jobs) > 1:
            raise InvalidInput(
                f"{len(jobs)} jobs can't all have the id {self._options['id']}. Nothing was enqueued.",
                fix="Enqueue them one by one, or leave the id out.",
            )
        try:
            return await self._place(jobs, opened)
        except UnknownDefinition:
            opened.forget()
            return await self._place(jobs, opened)

    async def _place(self, jobs: Sequence[NewJob], opened: Opened) -> list[Enqueued[Any]]:
        options = self._chosen()
        pinned = [
            replace(job, version=job.version or await opened.version_of(job.definition), **options) for job in jobs
        ]
        placed = await opened.store.tenant(self.id).enqueue(pinned)
        return [
            Enqueued(answer.id, answer.created, self.id, job.definition, self._app)
            for job, answer in zip(pinned, placed, strict=True)
        ]

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
