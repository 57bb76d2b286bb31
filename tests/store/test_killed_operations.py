"""An operation whose runner is killed in the middle of a batch: another process goes on."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from dataclasses import replace

import pytest
from tests.store.bench import Bench
from tests.store.test_operations import RETRY, run
from tests.store.test_tenant_removal import DELETE

from leasehold.model.operation import OperationState, Pace
from leasehold.model.status import Status
from leasehold.store import Filter, NewOperation

RUNNER = """
import asyncio, sys
from leasehold.engines import engine_for
from leasehold.operations import bulk

async def main() -> None:
    store = await engine_for(sys.argv[1]).open()
    async for _ in bulk.run(store, await bulk.get(store, sys.argv[2])):
        print("a batch", flush=True)

asyncio.run(main())
"""


async def stopped_in_a_batch(url: str, operation: str) -> Process:
    """Starts a runner, and returns once it has stopped itself before the end of its first batch."""
    fault = {"LEASEHOLD_FAULT": "before_batch_saved:stop"}
    runner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", RUNNER, url, operation, env=os.environ | fault, stdout=PIPE
    )
    # Returns as soon as the process has changed its state: it has stopped, or ended by mistake.
    state = await asyncio.to_thread(os.waitid, os.P_PID, runner.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    assert state is not None
    assert state.si_code == os.CLD_STOPPED
    return runner


@pytest.mark.parametrize("new", [replace(RETRY, pace=Pace(2)), DELETE], ids=["retry", "removal"])
async def test_another_process_ends_what_a_killed_one_began(
    bench: Bench, database_url: str, new: NewOperation
) -> None:
    jobs = [await bench.dead_lettered() for _ in range(5)]
    operation = await bench.store.operations.begin(new)
    runner = await stopped_in_a_batch(database_url, operation.id)
    held = await bench.store.operations.step(operation.id)
    assert held.operation is None  # its batch is the runner's
    runner.send_signal(signal.SIGKILL)
    await runner.wait()
    ended = await run(bench, operation)
    assert ended.state is OperationState.DONE
    if new is DELETE:
        assert list((await bench.jobs.find(Filter(), None, 10)).jobs) == []
    else:
        # Without transactions, the jobs of the killed batch are changed once, and not counted.
        assert ended.done == len(jobs) - (0 if bench.store.abilities.caller_transaction else 2)
        assert {job.status for job in await bench.jobs.get_many(jobs)} == {Status.QUEUED}
