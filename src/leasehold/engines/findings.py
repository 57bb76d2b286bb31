"""Findings of `leasehold doctor` that all engines have in common."""

from collections.abc import Sequence
from datetime import timedelta

from leasehold.engine import Finding, Severity
from leasehold.model.duration import span

TOLERATED_FIRE_LAG = timedelta(minutes=1)
SHOWN_DEFINITIONS = 5


def examine_fires(overdue: timedelta | None) -> Finding:
    """Tells whether schedules fire in time. `overdue`: how long ago the next one should have; None: none is set."""
    if overdue is None:
        return Finding("scheduler", Severity.OK, "no schedule waits for one")
    if overdue <= TOLERATED_FIRE_LAG:
        return Finding("scheduler", Severity.OK, "no schedule is late")
    return Finding(
        "scheduler",
        Severity.PROBLEM,
        f"a schedule should have fired {span(overdue)} ago: no scheduler runs, or it can't keep up",
        fix="Start a worker without --no-scheduler, or: leasehold scheduler.",
    )


def examine_leases(workers: int, jobs: int, living: int) -> Finding:
    """Tells of workers whose lease has run out, and of running jobs without a live worker."""
    if not workers and not jobs:
        return Finding("leases", Severity.OK, "no job is held by a worker that is gone")
    gone = "1 worker has" if workers == 1 else f"{workers:,} workers have"
    held = "1 running job has" if jobs == 1 else f"{jobs:,} running jobs have"
    return Finding(
        "leases",
        Severity.WARNING,
        f"{gone} not renewed a lease in time; {held} no live worker",
        fix="A live worker takes such jobs back at its next heartbeat, within a minute."
        if living
        else "Start a worker: it takes such jobs back. leasehold worker TARGET.",
    )


def list_names(definitions: Sequence[str]) -> str:
    more = len(definitions) - SHOWN_DEFINITIONS
    shown = ", ".join(definitions[:SHOWN_DEFINITIONS])
    return f"{shown} and {more} more" if more > 0 else shown
