"""Enqueues jobs: validates those that `bind(…)` did not make, pins each job to a version, and places it.

A job's way through here costs about 10 µs; nothing is copied or awaited for it twice.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

from leasehold.errors import PayloadInvalid, UnknownDefinition
from leasehold.model.bounds import describe
from leasehold.model.definition import Definition
from leasehold.model.job import EnqueueResult, NewJob, TenantId
from leasehold.model.pinned_jobs import PinnedJobs
from leasehold.model.secret_fields import unwrap, wrap
from leasehold.operations.catalog import Catalog
from leasehold.operations.seal import seal
from leasehold.store import Prepared

PreparedJobs = Prepared[Sequence[EnqueueResult]]
Send = Callable[[Sequence[NewJob]], Awaitable[Sequence[EnqueueResult]]]
_fits, _definition = attrgetter("fits"), attrgetter("definition")


class CodeDefinition(Protocol):
    """A definition whose handler is part of this program: it knows its arguments by their Python types."""

    def of_payload(self, payload: Mapping[str, Any]) -> NewJob: ...

    def fit(self, job: NewJob) -> NewJob: ...


class Target(NamedTuple):
    """Where jobs are enqueued: the tenant, fields that all of them get, and the definitions of the code."""

    tenant: TenantId
    fields: Mapping[str, Any]
    code: Callable[[str], CodeDefinition | None]


async def enqueue(target: Target, job: NewJob, catalog: Catalog) -> EnqueueResult:
    """Enqueues one job, durably. Pins it again, once, if the database does not know its version."""
    jobs, send = (job,), catalog.store.tenant(target.tenant).enqueue
    pinned = await pin(target, jobs, catalog)
    try:
        (enqueued,) = await send(pinned)
    except UnknownDefinition:
        (enqueued,) = await send(await pin_again(target, jobs, catalog))
    return enqueued


async def enqueue_key(target: Target, key: str, payload: Mapping[str, Any], catalog: Catalog) -> EnqueueResult:
    """Enqueues one job by its definition's key. The payload is checked by the code's types or the stored schema."""
    return await enqueue(target, await job_of(target, key, payload, catalog), catalog)


async def job_of(target: Target, key: str, payload: Mapping[str, Any], catalog: Catalog) -> NewJob:
    """Makes a valid job of a payload. Raises UnknownDefinition, PayloadInvalid."""
    if not isinstance(key, str):
        raise UnknownDefinition(
            f"{describe(key)} is not the key of a definition, which is text. Nothing was enqueued.",
            fix="Pass the key of a definition; leasehold definitions lists them.",
        )
    if known := target.code(key):
        return known.of_payload(payload)
    registered = await catalog.read_registered(key)
    registered.definition.check(payload)
    job = NewJob.of(key, payload)
    if secret := registered.definition.secret_fields:
        return job.with_fields(registered.version, {"payload": wrap(payload, secret), "fits": False})
    return job.with_fields(registered.version, {})


async def send_pinned(
    target: Target, catalog: Catalog, send: Send, jobs: Sequence[NewJob], pinned: Sequence[NewJob]
) -> Sequence[EnqueueResult]:
    """Sends pinned jobs of a bulk enqueue. Pins them again, once, if the database does not know a version."""
    try:
        return await send(pinned)
    except UnknownDefinition:
        return await send(await pin_again(target, jobs, catalog))


async def pin_again(target: Target, jobs: Sequence[NewJob], catalog: Catalog) -> Sequence[NewJob]:
    """Pins jobs whose versions the database refused: it was created again."""
    catalog.forget()
    return await pin(target, jobs, catalog)


async def pin(target: Target, jobs: Sequence[NewJob], catalog: Catalog) -> Sequence[NewJob]:
    """Returns the jobs with the target's fields, each pinned to the current version of its definition.

    Validates jobs that `bind(…)` did not make, and encrypts secret fields.
    """
    if not all(map(_fits, jobs)):
        validated = await _validate(target, jobs, catalog)
        return [seal(job, target.tenant) for job in await _look_up_versions(target, validated, catalog)]
    try:
        return _with_versions(target, jobs, catalog)
    except KeyError:
        return await _look_up_versions(target, jobs, catalog)


async def _look_up_versions(target: Target, jobs: Sequence[NewJob], catalog: Catalog) -> Sequence[NewJob]:
    keys = {job.definition for job in jobs if not job.version}
    versions = {key: await catalog.version_of(key) for key in keys}
    return _with_versions(target, jobs, catalog, versions)


async def prepare(target: Target, jobs: Sequence[NewJob], wakes: bool, catalog: Catalog) -> PreparedJobs:
    """Does all that can be done before a caller's transaction is used: pins versions, admits the tenant."""
    pinned = await pin(target, jobs, catalog)
    return await catalog.store.tenant(target.tenant).prepare(pinned, wakes=wakes)


async def prepare_again(target: Target, jobs: Sequence[NewJob], wakes: bool, catalog: Catalog) -> PreparedJobs:
    """Prepares jobs whose versions the database refused."""
    catalog.forget()
    return await prepare(target, jobs, wakes, catalog)


def prepare_known(target: Target, jobs: Sequence[NewJob], wakes: bool, catalog: Catalog) -> PreparedJobs | None:
    """Prepares without I/O, in any thread; None if a version, a payload or the tenant has to be looked up."""
    if not all(map(_fits, jobs)):
        return None
    try:
        pinned = _with_versions(target, jobs, catalog)
    except KeyError:
        return None
    return catalog.store.tenant(target.tenant).prepare_known(pinned, wakes=wakes)


async def _validate(target: Target, jobs: Sequence[NewJob], catalog: Catalog) -> list[NewJob]:
    validated: list[NewJob] = []
    for job in jobs:
        try:
            validated.append(job if job.fits else await _fit(target, job, catalog))
        except PayloadInvalid as error:
            error.number = len(validated) + 1 if len(jobs) > 1 else None
            raise
    return validated


async def _fit(target: Target, job: NewJob, catalog: Catalog) -> NewJob:
    """Validates by the handler's parameters; a definition or version of other code by its stored schema."""
    known = target.code(job.definition)
    if known is not None and job.version in (None, await catalog.version_of(job.definition)):
        return known.fit(job)
    if (definition := await catalog.read_version(job.definition, job.version)) is None:
        return job
    if not definition.secret_fields:
        definition.check(job.payload)
        return job
    plain = unwrap(job.payload)
    definition.check(plain)
    return job.with_fields(job.version, {"payload": wrap(plain, definition.secret_fields)})


def _with_versions(
    target: Target, jobs: Sequence[NewJob], catalog: Catalog, known: Mapping[str, int] | None = None
) -> Sequence[NewJob]:
    versions = catalog.versions if known is None else known
    if catalog.schemas:
        _check_overridden(jobs, catalog.schemas)
    if len(jobs) == 1:
        (job,) = jobs
        return (job.with_fields(job.version or versions[job.definition], target.fields),)
    if versions.keys() >= (keys := set(map(_definition, jobs))):
        return PinnedJobs(jobs, {key: versions[key] for key in keys}, target.fields)
    return [job.with_fields(job.version or versions[job.definition], target.fields) for job in jobs]


def _check_overridden(jobs: Sequence[NewJob], schemas: Mapping[str, Definition]) -> None:
    """Checks payloads, which fit the parameters of the code, by the schema that an administrator has set instead."""
    for number, job in enumerate(jobs, 1):
        if job.version is None and (definition := schemas.get(job.definition)) is not None:
            try:
                definition.check(unwrap(job.payload))
            except PayloadInvalid as error:
                error.number = number if len(jobs) > 1 else None
                raise
