"""Prints the processor time that each listener of the benchmark takes for a job, without a database.

    python -m tools.measure_listeners

Claims and ends come in batches, as a worker that drains a queue reports them, and one by one with a wake and two
looks for work, as a worker does that gets a job now and then. Each figure is the least of many rounds.
"""

import gc
from collections.abc import Callable, Sequence
from time import process_time
from uuid import uuid4

from bench.listeners import ALL, LISTENERS, listeners_named

from leasehold.model.definition import Definition
from leasehold.model.job import Claim, JobId, TenantId, WorkerId
from leasehold.model.outcome import SUCCEEDED
from leasehold.store import Registration, Subscription
from leasehold.worker.events import EventReporter
from leasehold.worker.outcomes import NOTHING_RETURNED

BATCH, ROUNDS = 500, 60
WORKER = WorkerId(str(uuid4()))
REGISTRATION = Registration(WORKER, Subscription(("bench",), None))
DEFINITION = Definition("bench")


def main() -> None:
    claims = [a_claim(number) for number in range(BATCH)]
    gc.disable()
    print("| listener | µs a job, in batches of 500 | µs a job, one by one |")  # noqa: T201
    print("|---|---|---|")  # noqa: T201
    for name in [*LISTENERS, ALL]:
        reporter = EventReporter(listeners_named(name))
        batches = least(lambda reporter=reporter: report(reporter, claims))  # type: ignore[misc]
        alone = least(lambda reporter=reporter: report_one_by_one(reporter, claims))  # type: ignore[misc]
        print(f"| {name} | {batches:.2f} | {alone:.1f} |")  # noqa: T201


def a_claim(number: int) -> Claim:
    return Claim(
        tenant=TenantId(f"tenant-{number % 100}"),
        job=JobId(str(uuid4())),
        attempt=1,
        worker=WORKER,
        batch=1,
        definition=DEFINITION,
        version=1,
        payload='{"number": 1}',
        max_attempts=5,
        free_attempts=0,
        queued=1e9,
        started=1e9,
    )


def report(reporter: EventReporter, claims: Sequence[Claim]) -> None:
    """Reports claims, enters and leaves the context of each handler, and reports the ends."""
    reporter.report_claims(claims)
    if reporter.listeners.around:
        for claim in claims:
            for manager in reporter.listeners.managers_around(claim):
                with manager:
                    pass
    if reporter.takes_ends:
        reporter.report_ends([(claim, SUCCEEDED, 0.0001, NOTHING_RETURNED) for claim in claims])


def report_one_by_one(reporter: EventReporter, claims: Sequence[Claim]) -> None:
    for claim in claims:
        reporter.report_wake(REGISTRATION, "jobs")
        reporter.report_poll(REGISTRATION, "wake", 1)
        report(reporter, [claim])
        reporter.report_poll(REGISTRATION, "busy", 0)


def least(run: Callable[[], None]) -> float:
    """Returns the least processor time of many runs, in µs for each job."""
    times = []
    for _ in range(ROUNDS):
        began = process_time()
        run()
        times.append(process_time() - began)
    return 1e6 * min(times) / BATCH


if __name__ == "__main__":
    main()
