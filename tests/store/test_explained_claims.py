"""The blocking reasons of a job are none if, and only if, a live worker that serves it gets it.

Each history is a new tenant and a new definition in the same database. Jobs that are ahead of the job in a limited
scope come first: the worker claims and finishes them, and only then must the job have come.
"""

import asyncio
from itertools import count

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from tests.engines_under_test import EXPLAINED
from tests.store.bench import Bench, EngineUnderTest
from tests.store.hindrances import History, RowLocks, Stage, each_alone, histories

from leasehold.model.definition import Definition
from leasehold.model.explain import explain
from leasehold.model.job import tenant_id

_numbers = count()


async def gets_the_job(engine: EngineUnderTest, locks: RowLocks, history: History) -> bool:
    """Returns whether a worker gets the job, which the reasons must have told before."""
    number = next(_numbers)
    kind = f"kind-{number}"
    await engine.store.sync_definitions([Definition(kind, max_attempts=3), Definition("another")])
    mine, theirs = (Bench(engine, tenant_id(f"{name}-{number}")) for name in ("tenant", "beside"))
    stage = Stage(mine, theirs, kind, locks)
    job, worker = await stage.set_up(history)
    try:
        facts = await mine.jobs.facts(job)
        assert facts is not None
        reasons = [check.text for check in explain(facts).blocking]
        rounds = await stage.rounds_until_claimed(job, worker)
        assert (rounds is not None) == (not reasons), (reasons, rounds)
        if rounds is not None and not facts.ahead:
            assert rounds == 0
        return rounds is not None
    finally:
        await stage.clear_up(worker)


@pytest.mark.timeout(300)  # thousands of requests to the emulator
def test_reasons_are_none_exactly_if_a_worker_gets_the_job(
    engine: EngineUnderTest, engine_name: str, database_url: str
) -> None:
    abilities, outcomes = engine.store.abilities, set[bool]()
    with asyncio.Runner() as runner:
        store = runner.run(engine.open_again())
        opened = EngineUnderTest(store, engine.open_again, engine.move_clock)
        locks = runner.run(RowLocks.open(database_url, abilities))

        def check(history: History) -> None:
            outcomes.add(runner.run(gets_the_job(opened, locks, history)))

        check_all = given(history=histories(abilities))(check)
        for alone in each_alone(abilities):
            check_all = example(history=alone)(check_all)
        try:
            settings(
                max_examples=EXPLAINED[engine_name],
                phases=[Phase.explicit, Phase.generate],  # to shrink one takes minutes, and it is short as it is
                deadline=None,
                derandomize=True,
                database=None,
                suppress_health_check=[HealthCheck.too_slow],
            )(check_all)()
        finally:
            runner.run(locks.close())
            runner.run(store.close())
    assert outcomes == {True, False}
