"""Why ready jobs do not start, read by one statement for all jobs that are shown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from leasehold.model.explain import waiting_reasons
from leasehold.model.job import JobRecord, TenantId
from leasehold.model.status import DisplayState
from leasehold.store import Administration


@dataclass(frozen=True, slots=True)
class Reasons:
    by_lane: Mapping[tuple[str, TenantId], Sequence[str]]

    def of(self, job: JobRecord) -> Sequence[str]:
        return self.by_lane.get((job.definition, job.tenant), ()) if job.display is DisplayState.READY else ()


async def read_reasons(store: Administration, jobs: Sequence[JobRecord]) -> Reasons:
    lanes = sorted({(job.definition, job.tenant) for job in jobs if job.display is DisplayState.READY})
    states = await store.lanes(lanes)
    return Reasons({lane: waiting_reasons(state) for lane, state in zip(lanes, states, strict=True)})
