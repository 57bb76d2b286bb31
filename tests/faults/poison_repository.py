"""The entries of the poison run for the compatible repository, whose caller claims and marks jobs by hand."""

import asyncio
from dataclasses import dataclass
from typing import Any

from tests.faults import poison_app
from tests.faults.poison_app import NUMBERS, OBJECTS, TEXTS
from tests.faults.poison_run import VILLAIN, Call, Run
from tests.faults.poison_values import MOMENTS, PAYLOADS, WORDS

from leasehold import Leasehold
from leasehold.compat.jobs_repository import EnqueueJobInput, JobsRepository
from leasehold.model.job import tenant_id


@dataclass
class RepositoryEntries:
    run: Run
    url: str

    async def all(self) -> None:
        # Left out, since their bounds are checked elsewhere: the lease of a repository, and the limit of a claim.
        app = poison_app.app
        app.configure(url=self.url)
        async with app.open(), JobsRepository(app, types=["by_hand"]) as jobs:

            async def enqueue(**values: Any) -> None:
                await self._end_by_hand(jobs, EnqueueJobInput(**{"type": "by_hand", "org_id": VILLAIN} | values))

            def named(name: str) -> Call:
                return lambda value: enqueue(**{name: value})

            async def succeed(result: Any) -> None:
                job = EnqueueJobInput("by_hand", VILLAIN)
                await self._end_by_hand(jobs, job, lambda claim: jobs.mark_success(claim, result))

            async def fail(error: Any, code: Any) -> None:
                job = EnqueueJobInput("by_hand", VILLAIN)
                await self._end_by_hand(
                    jobs, job, lambda claim: jobs.mark_failure(claim, error, code=code, final=True)
                )

            verbs: list[tuple[list[Any], list[Call]]] = [
                (WORDS, [named("type"), named("org_id"), named("dedupe_key"), named("dedupe")]),
                (MOMENTS, [named("run_at")]),
                (PAYLOADS, [named("payload")]),
                ([*TEXTS, *NUMBERS, *OBJECTS], [succeed]),
                (WORDS, [lambda word: fail(word, "error"), lambda word: fail("why", word)]),
                (WORDS, [lambda word: _open_repository(app, word)]),
            ]
            await self.run.put_all("repository", verbs)

    async def _end_by_hand(self, jobs: JobsRepository, job: EnqueueJobInput, mark: Call | None = None) -> None:
        """Enqueues the job, claims it, and marks it; if the mark is refused, with one that is not."""
        placed = await jobs.enqueue(job)
        tenant = tenant_id(job.org_id) if job.org_id else tenant_id("default")
        await self.run.accepted(tenant, placed)
        for claim in await jobs.claim(10):
            try:
                await (mark or jobs.mark_success)(claim)
            except Exception:
                await jobs.mark_failure(claim, "refused", final=True)
                raise


async def _open_repository(app: Leasehold, word: Any) -> None:
    """Opens a repository of the type that the word names."""
    async with asyncio.timeout(30), JobsRepository(app, types=[word]):
        pass
