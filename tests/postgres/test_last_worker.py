"""The worker that was the last to end a job of a definition, for jobs that no worker serves."""

from tests.store.bench import Bench


async def test_the_last_worker_of_a_definition_is_found(bench: Bench) -> None:
    await bench.succeeded(definition="report")
    await bench.succeeded(definition="email")
    last = await bench.worker()
    await bench.store.leave(last)
    facts = await bench.jobs.facts(await bench.enqueue(definition="report"))
    assert facts is not None
    assert facts.last_worker is not None
    assert facts.last_worker.id == last.worker
    assert facts.last_worker.name
