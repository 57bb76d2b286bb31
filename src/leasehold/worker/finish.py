"""Writes how attempts ended: flushes their log lines, decides, writes the verdicts, confirms them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import random

from leasehold.errors import ValueRefused
from leasehold.faults import reach
from leasehold.model.job import Claim
from leasehold.model.outcome import SUCCEEDED, Outcome, Verdict, decide_safely, with_cpu, with_process
from leasehold.model.status import AttemptStatus
from leasehold.model.trace_context import with_span
from leasehold.runtime.outage import health_log
from leasehold.store.reclaim import finish_refused
from leasehold.worker.attempt import Attempt
from leasehold.worker.claims import ClaimLedger
from leasehold.worker.events import EventReporter
from leasehold.worker.log_buffer import LogBuffer
from leasehold.worker.outcomes import NOTHING_RETURNED
from leasehold.worker.store_calls import StoreCalls, was_written

Batch = Sequence[tuple[Attempt, Outcome]]

DISCARDED = "LH-4001: job %s try %d lost its lease; it was given to another worker, this result is discarded"


def verdict_on(outcome: Outcome, attempt: Attempt) -> Verdict:
    """Returns the verdict on one attempt. The most frequent outcome is known by identity, which saves 0.5 µs."""
    if outcome is NOTHING_RETURNED:
        return SUCCEEDED
    verdict = decide_safely(outcome, attempt.claim, random())
    job = attempt.job
    if job._process is not None:
        verdict = with_process(verdict, job._process)
    elif job._cpu is not None:
        verdict = with_cpu(verdict, job._cpu)
    if verdict.attempt is not AttemptStatus.SUCCEEDED and (span := attempt.span) is not None:
        return replace(verdict, details=with_span(verdict.details, span))
    return verdict


class Finisher:
    """Writes the outcomes of attempts in batches, and confirms which of them were written."""

    def __init__(
        self,
        calls: StoreCalls,
        ledger: ClaimLedger,
        log_buffer: LogBuffer,
        events: EventReporter,
        holds: Callable[[], bool],
    ) -> None:
        self._calls = calls
        self._ledger = ledger
        self.log_buffer = log_buffer
        self._events = events
        self._holds = holds

    async def run(self) -> None:
        """Writes all done attempts as soon as the batch before is written: one at low load, hundreds at high load.

        A batch that can't be written goes back to the ledger, and is written again.
        """
        while True:
            await self._ledger.any_done.wait()
            batch = self._ledger.take_done()
            try:
                unwritten = await self._calls.in_time(self.finish(batch))
            except BaseException:
                self._ledger.put_back(batch)
                raise
            self.forget([attempt for attempt, _ in batch])
            if unwritten:
                self._events.report_discarded(attempt.claim for attempt in unwritten if attempt.started)

    async def write_lines(self) -> None:
        """Writes log lines of attempts that have not ended, until it is canceled."""
        await self.log_buffer.run(self._calls.store, self._calls.in_time)

    def forget(self, attempts: Sequence[Attempt]) -> None:
        """Removes attempts that are written or lost, and frees their room."""
        self._ledger.remove(attempts)  # first, or a thread that logs now would leave lines in the buffer for ever
        self.log_buffer.forget([attempt.claim for attempt in attempts])

    def discard(self, attempts: Sequence[Attempt]) -> None:
        """Removes attempts whose end is not written, and reports those that were started."""
        self.forget(attempts)
        self._events.report_discarded(attempt.claim for attempt in attempts if attempt.started)

    async def finish(self, batch: Batch) -> Sequence[Attempt]:
        """Writes a batch of outcomes; writes nothing if the lease does not hold any more.

        Sends no outcome of a lost claim, but asks the store whether an earlier try, whose answer was lost, wrote it.
        Returns the attempts whose end is not written.
        """
        if not batch or not self._holds():
            return [attempt for attempt, _ in batch]
        await self.log_buffer.write(self._calls.store, [attempt.claim for attempt, _ in batch])
        reach("before_finish")
        done = [(attempt.claim, verdict_on(outcome, attempt)) for attempt, outcome in batch]
        lost = frozenset(attempt.claim for attempt, _ in batch if attempt.lost)
        to_write = [each for each in done if each[0] not in lost] if lost else done
        try:
            refused = await self._calls.store.finish(to_write)
        except ValueRefused as error:
            written, refused = await finish_refused(self._calls.store.finish, to_write, error)
            verdicts = dict(written)
            done = [(claim, verdicts.get(claim, verdict)) for claim, verdict in done]
        reach("after_finish")
        unwritten = await self._unwritten(done, refused | lost) if refused or lost else frozenset[Claim]()
        if self._events.takes_ends or unwritten or any(verdict is not SUCCEEDED for _, verdict in done):
            self._report(batch, done, unwritten, refused)
        return [attempt for attempt, _ in batch if attempt.claim in unwritten] if unwritten else ()

    async def _unwritten(self, done: Sequence[tuple[Claim, Verdict]], fenced: frozenset[Claim]) -> frozenset[Claim]:
        """Returns the claims whose end is not written; one that was fenced off may have been written before.

        Asks about all of them before anything is reported: if an answer is missing, the whole batch is tried again.
        """
        return frozenset(
            [
                claim
                for claim, verdict in done
                if claim in fenced and not await was_written(self._calls.store, claim, verdict)
            ]
        )

    def _report(
        self,
        batch: Batch,
        done: Sequence[tuple[Claim, Verdict]],
        unwritten: frozenset[Claim],
        refused: frozenset[Claim],
    ) -> None:
        for claim in unwritten:
            health_log.warning(DISCARDED, claim.job, claim.tries)
            if claim in refused:
                self._events.report_refusal(claim)
        self._events.report_ends(
            [
                (claim, verdict, attempt.seconds, outcome)
                for (attempt, outcome), (claim, verdict) in zip(batch, done, strict=True)
                if not unwritten or claim not in unwritten
            ]
        )
