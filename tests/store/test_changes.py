"""Changes for live pages: a watcher names the jobs that have changed between two looks."""

from tests.store.bench import Bench
from tests.tenant_kit import ACME, OTHER

from leasehold.model.job import JobId, NewJob
from leasehold.store import ChangeWatcher, Watched

OF_ACME = Watched(frozenset({ACME}))
OF_ALL = Watched(frozenset(), everything=True)


async def seen_by(watcher: ChangeWatcher) -> set[JobId]:
    changed = await watcher.look(OF_ACME)
    assert changed.jobs.keys() <= {ACME}
    return set(changed.jobs.get(ACME, ()))


async def test_each_step_of_a_job_is_told_once(bench: Bench) -> None:
    watcher = bench.store.watch_changes()
    assert not (await watcher.look(OF_ACME)).jobs
    job = await bench.enqueue()
    assert await seen_by(watcher) == {job}
    assert not await seen_by(watcher)
    claim = await bench.claim_one()
    assert await seen_by(watcher) == {job}
    await bench.succeed(claim)
    assert await seen_by(watcher) == {job}
    assert not await seen_by(watcher)


async def test_a_failed_try_and_a_cancel_are_told(bench: Bench) -> None:
    claim, waiting = await bench.running(max_attempts=3), await bench.enqueue()
    watcher = bench.store.watch_changes()
    await watcher.look(OF_ACME)
    await bench.fail(claim)
    assert await seen_by(watcher) == {claim.job}
    await bench.store.tenant(ACME).cancel([waiting])
    assert await seen_by(watcher) == {waiting}


async def test_a_watcher_of_a_tenant_sees_no_other(bench: Bench) -> None:
    watcher = bench.store.watch_changes()
    await watcher.look(OF_ACME)
    await bench.store.tenant(OTHER).enqueue([NewJob(definition="report")])
    assert not await seen_by(watcher)


async def test_a_watcher_of_all_sees_every_tenant(bench: Bench) -> None:
    """New jobs of tenants that are not named may be told without their ids."""
    watcher = bench.store.watch_changes()
    await watcher.look(OF_ALL)
    job = await bench.enqueue()
    changed = await watcher.look(OF_ALL)
    assert changed.elsewhere or changed.jobs == {ACME: {job}}
    await bench.succeed(await bench.claim_one())
    assert (await watcher.look(OF_ALL)).jobs == {ACME: {job}}
