"""Ten thousand jobs under two hundred faults: nothing lost, stuck or done twice; and a checker that would see it.

CHAOS_SEED, CHAOS_JOBS and CHAOS_FAULTS set another run; the seed is printed. The same seed brings the same faults in
the same order; what each of them meets is chance. On DynamoDB there are a twentieth of the jobs and a fifth of
the faults: each query of an index reads the whole table of the emulator. CHAOS_LEASE sets the seconds of a lease
there: a machine that is busy otherwise needs longer ones.
"""

import os
import random
import sys
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any

import pytest
from tests.faults.chaos.harness import Chaos, run
from tests.faults.chaos.nemesis import Fault
from tests.faults.chaos.on_dynamodb import dynamodb
from tests.faults.chaos.on_postgres import postgres
from tests.faults.chaos.servers import ChaosServer

pytestmark = [
    pytest.mark.faults,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(sys.platform != "linux", reason="whether a process is stopped is read from /proc"),
]

SEED = int(os.environ.get("CHAOS_SEED") or time.time())
JOBS = int(os.environ.get("CHAOS_JOBS", "10000"))
FAULTS = int(os.environ.get("CHAOS_FAULTS", "220"))
ENOUGH_STALE, ENOUGH_RECLAIMED = 20, 50

# The emulator answers one request at a time, and a heartbeat has some: leases are longer there.
EMULATED_LEASE = float(os.environ.get("CHAOS_LEASE", "8"))

MakeServer = Callable[[], AbstractAsyncContextManager[ChaosServer]]
on_both = pytest.mark.parametrize(
    ("server", "lease"), [(postgres, 1.5), (dynamodb, EMULATED_LEASE)], ids=["postgres", "dynamodb"]
)


async def test_ten_thousand_jobs_survive_two_hundred_faults() -> None:
    await run_and_check(Chaos(postgres, SEED, JOBS, FAULTS))


async def test_five_hundred_jobs_on_dynamodb_survive_forty_faults() -> None:
    """Two in a hundred requests are throttled besides, and the emulator stands still now and then."""
    await run_and_check(Chaos(dynamodb, SEED, JOBS // 20, FAULTS // 5, lease=EMULATED_LEASE))


async def run_and_check(chaos: Chaos) -> None:
    sys.stdout.write(f"\nCHAOS_SEED={SEED} CHAOS_JOBS={JOBS} CHAOS_FAULTS={FAULTS}\n")
    report = await run(chaos)
    sys.stdout.write(report.as_text())
    assert report.findings.sound
    assert report.ended_by_themselves == []
    assert report.findings.figures["jobs acknowledged"] == chaos.jobs
    scale = min(1.0, chaos.faults / 200)
    assert report.struck.total() >= 150 * scale
    stale, reclaimed = int(ENOUGH_STALE * scale), int(ENOUGH_RECLAIMED * scale)
    assert report.findings.shortfalls(stale=stale, reclaimed=reclaimed) == []


async def test_a_fault_run_through_a_pooler_in_transaction_mode_is_sound() -> None:
    """Producers and workers connect through a real pgbouncer, and workers through a lossy network besides."""
    report = await run(Chaos(partial(postgres, pooled=True), SEED, JOBS // 5, FAULTS // 5))
    sys.stdout.write(report.as_text())
    assert report.findings.sound
    assert report.ended_by_themselves == []
    assert report.findings.figures["jobs acknowledged"] == JOBS // 5


def slow_when_run_again(draw: random.Random, lease: float) -> dict[str, Any]:
    """So that another worker is still at it when the stale one finishes."""
    return {"seconds": draw.choice((0, 0.2)), "later_seconds": lease}


DIRECTED = {Fault.STOP_AT_FINISH: 1}


@on_both
async def test_where_stale_finishes_are_certain_each_is_refused(server: MakeServer, lease: float) -> None:
    report = await run(Chaos(server, SEED, 120, 9, lease=lease, shares=DIRECTED, payload=slow_when_run_again))
    sys.stdout.write(report.as_text())
    assert report.findings.sound
    assert report.findings.shortfalls(stale=5, reclaimed=5) == []


@on_both
async def test_the_checker_finds_a_finish_by_id_alone(server: MakeServer, lease: float) -> None:
    """The same run on workers whose finish has no fence must be red, or all of the above has shown nothing."""
    report = await run(
        Chaos(server, SEED, 120, 9, lease=lease, shares=DIRECTED, payload=slow_when_run_again, mutant=True)
    )
    sys.stdout.write(report.as_text())
    assert "the result is another attempt's" in report.findings.violations
    assert "a finish that its claim never sent" in report.findings.violations
