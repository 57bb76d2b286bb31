"""Jobs in each state, for tests of the commands that show them."""

from tests.store.bench import Bench
from tests.tenant_kit import HOUR

from leasehold.model.job import JobId


async def one_of_each(bench: Bench) -> dict[str, JobId]:
    """A job in each state that people see."""
    jobs = {
        "succeeded": await bench.succeeded(),
        "failed": await bench.failed(),
        "canceled": await bench.canceled(),
        "dead letter": await bench.dead_lettered(),
    }
    tried = await bench.running()
    await bench.fail(tried, "no jitter")
    jobs["retrying"] = tried.job
    jobs["running"] = (await bench.running()).job
    jobs["scheduled"] = await bench.enqueue(delay=HOUR)
    jobs["ready"] = await bench.enqueue()
    return jobs
