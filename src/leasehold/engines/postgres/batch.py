"""Jobs on their way in: columns for the statement, and who got which place."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from uuid_utils import uuid7

from leasehold.model import dedupe, payload
from leasehold.model.dedupe import Dedupe
from leasehold.model.job import JobId, NewJob, Placed, TenantId, job_id

_NO_DEDUPE = Dedupe()


class Batch:
    """`open` are the jobs to be placed next, by their index. Of two with one key the later waits for the earlier."""

    def __init__(self, tenant: TenantId, jobs: Sequence[NewJob]) -> None:
        self._jobs = jobs
        self._payloads = [payload.encode(job.payload) for job in jobs]
        self._hashes = [_dedupe_hash(job, tenant) for job in jobs]
        self._ids = [job_id(job.id) if job.id is not None else JobId(str(uuid7())) for job in jobs]
        self._placed: dict[int, Placed] = {}
        self._waiting = self._repeated()
        self.open = [index for index in range(len(jobs)) if index not in self._waiting]

    @property
    def may_take_several_statements(self) -> bool:
        """Some may be held by others: then they are looked up, or asked for again, or an id is given back."""
        unsure = any(job.id is not None or job.dedupe is not None for job in self._jobs)
        return unsure and (len(self._jobs) > 1 or self._jobs[0].id is not None)

    def columns(self) -> dict[str, list[Any]]:
        jobs = [self._jobs[index] for index in self.open]
        return {
            "ids": [self._ids[index] for index in self.open],
            "id_hashes": [self._id_hash(index) for index in self.open],
            "definitions": [job.definition for job in jobs],
            "versions": [job.version for job in jobs],
            "payloads": [self._payloads[index] for index in self.open],
            "priorities": [job.priority for job in jobs],
            "max_attempts": [job.max_attempts for job in jobs],
            "delays": [job.delay for job in jobs],
            "ats": [job.at for job in jobs],
            "deadlines": [job.deadline for job in jobs],
            "dedupe_hashes": [self._hashes[index] for index in self.open],
            "dedupe_keys": [job.dedupe and job.dedupe.key for job in jobs],
            "holds": [_holds(job) for job in jobs],
            "held_for": [job.dedupe and job.dedupe.held_for for job in jobs],
            "sources": [job.source.value for job in jobs],
            "source_refs": [job.source_ref for job in jobs],
            "correlation_ids": [job.correlation_id for job in jobs],
            "created_bys": [job.created_by for job in jobs],
        }

    def keys(self) -> dict[str, list[Any]]:
        return {
            "ids": [self._ids[index] for index in self.open],
            "brought": [self._jobs[index].id is not None for index in self.open],
            "dedupe_hashes": [self._hashes[index] for index in self.open],
            "holds": [_holds(self._jobs[index]) for index in self.open],
        }

    def created(self, numbers: Iterable[int]) -> None:
        self._place({number: self._ids[self.open[number - 1]] for number in numbers}, created=True)

    def held(self, holders: Mapping[int, UUID | None]) -> None:
        found = {number: JobId(str(holder)) for number, holder in holders.items() if holder is not None}
        self._place(found, created=False)

    def id_hashes(self, numbers: Iterable[int]) -> list[bytes | None]:
        return [self._id_hash(self.open[number - 1]) for number in numbers]

    def placed(self) -> list[Placed]:
        return [self._placed[index] for index in range(len(self._jobs))]

    def _place(self, found: Mapping[int, JobId], *, created: bool) -> None:
        for number, job in found.items():
            self._placed[self.open[number - 1]] = Placed(job, created)
        self.open = [index for index in self.open if index not in self._placed]
        for index, earlier in list(self._waiting.items()):
            if earlier in self._placed:
                del self._waiting[index]
                self._follow(index, earlier)

    def _follow(self, index: int, earlier: int) -> None:
        """The later one has the earlier one's place, unless that one was only refused for its id, not for the key."""
        if self._placed[earlier].created or self._jobs[earlier].id in (None, self._jobs[index].id):
            self._placed[index] = Placed(self._placed[earlier].id, created=False)
        else:
            self.open.append(index)

    def _id_hash(self, index: int) -> bytes | None:
        """Begins with a character that no key can have: a key must not be taken for an id."""
        return dedupe.digest(f"\0id:{self._ids[index]}") if self._jobs[index].id is not None else None

    def _repeated(self) -> dict[int, int]:
        """Later ones, each with the earlier one whose id or key it shares."""
        first: dict[object, int] = {}
        same_as: dict[int, int] = {}
        for index, job in enumerate(self._jobs):
            keys: list[object] = [self._ids[index]]
            if self._hashes[index] is not None:
                keys.append((self._hashes[index], _holds(job)))
            earlier = next((first[key] for key in keys if key in first), None)
            if earlier is not None:
                same_as[index] = earlier
            else:
                first.update(dict.fromkeys(keys, index))
        return same_as


def _dedupe_hash(job: NewJob, tenant: TenantId) -> bytes | None:
    if job.dedupe is None:
        return None
    key = job.dedupe.key
    return dedupe.digest(dedupe.canonical_key(job.definition, tenant, job.payload) if key is None else key)


def _holds(job: NewJob) -> bool:
    return (job.dedupe or _NO_DEDUPE).holds_beyond_the_job
