"""The app of worker processes in the tests: each job writes one row, and dies or stops where its payload says."""

from typing import Any

from leasehold import Job, Leasehold, Steps
from leasehold.faults import arm, reach

app = Leasehold()

WRITE = "insert into public.effects (job, attempt) values ($1, $2)"


@app.job(max_attempts=50, backoff=Steps(0.05))
async def write(job: Job, faults: dict[str, str]) -> int:
    arm(faults.get(str(job.attempt), ""))
    async with job.transaction() as connection:
        await connection.execute(WRITE, job.id, str(job.attempt))
        reach("after_the_effect")
        await app.store.tenant(job.tenant).enqueue([follow_up.bind(of=job.id)], within=connection)
    return job.attempt


@app.job(max_attempts=50, backoff=Steps(0.05))
async def follow_up(job: Job, of: str) -> Any: ...
