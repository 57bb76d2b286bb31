"""Ten thousand jobs under two hundred faults: nothing lost, stuck or done twice; and a checker that would see it.

CHAOS_SEED, CHAOS_JOBS and CHAOS_FAULTS set another run; the seed is printed. The same seed brings the same faults in
the same order; what each of them meets is chance.
"""

import os
import random
import sys
import time
from typing import Any

import pytest
from tests.faults.chaos.harness import Chaos, run
from tests.faults.chaos.nemesis import Fault

pytestmark = [
    pytest.mark.faults,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(sys.platform != "linux", reason="whether a process is stopped is read from /proc"),
]

SEED = int(os.environ.get("CHAOS_SEED") or time.time())
JOBS = int(os.environ.get("CHAOS_JOBS", "10000"))
FAULTS = int(os.environ.get("CHAOS_FAULTS", "220"))
ENOUGH_STALE, ENOUGH_RECLAIMED = 20, 50


async def test_ten_thousand_jobs_survive_two_hundred_faults() -> None:
    sys.stdout.write(f"\nCHAOS_SEED={SEED} CHAOS_JOBS={JOBS} CHAOS_FAULTS={FAULTS}\n")
    report = await run(Chaos(SEED, JOBS, FAULTS))
    sys.stdout.write(report.as_text())
    assert report.findings.sound
    assert report.ended_by_themselves == []
    assert report.findings.figures["jobs acknowledged"] == JOBS
    scale = min(1.0, FAULTS / 200)
    assert report.struck.total() >= 200 * scale
    stale, reclaimed = int(ENOUGH_STALE * scale), int(ENOUGH_RECLAIMED * scale)
    assert report.findings.shortfalls(stale=stale, reclaimed=reclaimed) == []


async def test_a_fault_run_through_a_pooler_in_transaction_mode_is_sound() -> None:
    """Producers and workers connect through a real pgbouncer, and workers through a lossy network besides."""
    report = await run(Chaos(SEED, JOBS // 5, FAULTS // 5, pooled=True))
    sys.stdout.write(report.as_text())
    assert report.findings.sound
    assert report.ended_by_themselves == []
    assert report.findings.figures["jobs acknowledged"] == JOBS // 5


def slow_when_run_again(draw: random.Random, lease: float) -> dict[str, Any]:
    """So that another worker is still at it when the stale one finishes."""
    return {"seconds": draw.choice((0, 0.2)), "later_seconds": lease}


DIRECTED = {Fault.STOP_AT_FINISH: 1}


async def test_where_stale_finishes_are_certain_each_is_refused() -> None:
    report = await run(Chaos(SEED, 120, 9, lease=1.5, shares=DIRECTED, payload=slow_when_run_again))
    sys.stdout.write(report.as_text())
    assert report.findings.sound
    assert report.findings.shortfalls(stale=5, reclaimed=5) == []


async def test_the_checker_finds_a_finish_by_id_alone() -> None:
    """The same run on workers whose finish has no fence must be red, or all of the above has shown nothing."""
    report = await run(Chaos(SEED, 120, 9, lease=1.5, shares=DIRECTED, payload=slow_when_run_again, mutant=True))
    sys.stdout.write(report.as_text())
    assert "the result is another attempt's" in report.findings.violations
    assert "a finish that its claim never sent" in report.findings.violations
