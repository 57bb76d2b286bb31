"""Writes how attempts ended: flushes their log lines, decides, writes the verdicts, confirms them."""

import logging
from collections.abc import Callable, Sequence
from random import random

from leasehold.errors import ValueRefused
from leasehold.faults import reach
from leasehold.model.job import Claim
from leasehold.model.outcome import SUCCEEDED, Outcome, Verdict, decide_safely, with_process
from leasehold.store.reclaim import finish_refused
from leasehold.worker.attempt import Attempt
from leasehold.worker.claims import ClaimLedger
from leasehold.worker.events import EventReporter
from leasehold.worker.log_buffer import LogBuffer
from leasehold.worker.outcomes import NOTHING_RETURNED
from leasehold.worker.store_calls import StoreCalls, was_written

log = logging.getLogger("leasehold.worker")

Batch = Sequence[tuple[Attempt, Outcome]]

DISCARDED = "LH-4001: job %s try %d lost its lease; it was given to another worker, this result is discarded"


def verdict_on(outcome: Outcome, attempt: Attempt) -> Verdict:
    """Returns the verdict on one attempt. The most frequent outcome is known by identity, which saves 0.5 µs."""
    if outcome is NOTHING_RETURNED:
        return SUCCEEDED
    verdict = decide_safely(outcome, attempt.claim, random())
    process = attempt.job._process
    return verdict if process is None else with_process(verdict, process)


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
                await self._calls.in_time(self.finish(batch))
            except BaseException:
                self._ledger.put_back(batch)
                raise
            self.forget([attempt for attempt, _ in batch])

    async def write_lines(self) -> None:
        """Writes log lines of attempts that have not ended, until it is canceled."""
        await self.log_buffer.run(self._calls.store, self._calls.in_time)

    def forget(self, attempts: Sequence[Attempt]) -> None:
        """Removes attempts that are written or lost, and frees their room."""
        self._ledger.remove(attempts)  # first, or a thread that logs now would leave lines in the buffer for ever
        claims = [attempt.claim for attempt in attempts]
        self.log_buffer.forget(claims)
        self._events.forget(claims)

    async def finish(self, batch: Batch) -> None:
        """Writes a batch of outcomes; writes nothing if the lease does not hold any more.

        Sends no outcome of a lost claim, but asks the store whether an earlier try, whose answer was lost, wrote it.
        """
        if not batch or not self._holds():
            return
        await self.log_buffer.write(self._calls.store, [attempt.claim for attempt, _ in batch])
        reach("before_finish")
        done = [(attempt.claim, verdict_on(outcome, attempt)) for attempt, outcome in batch]
        lost = frozenset(attempt.claim for attempt, _ in batch if attempt.lost)
        to_write = [each for each in done if each[0] not in lost] if lost else done
        try:
            fenced = await self._calls.store.finish(to_write)
        except ValueRefused as error:
            written, fenced = await finish_refused(self._calls.store.finish, to_write, error)
            verdicts = dict(written)
            done = [(claim, verdicts.get(claim, verdict)) for claim, verdict in done]
        fenced |= lost
        reach("after_finish")
        if fenced or self._events.is_observed or any(verdict is not SUCCEEDED for _, verdict in done):
            await self._confirm(batch, [verdict for _, verdict in done], fenced)

    async def _confirm(self, batch: Batch, verdicts: Sequence[Verdict], fenced: frozenset[Claim]) -> None:
        """Reports each attempt whose end is written; a claim that was fenced off may have been written before."""
        for (attempt, outcome), verdict in zip(batch, verdicts, strict=True):
            claim = attempt.claim
            if not fenced or claim not in fenced or await was_written(self._calls.store, claim, verdict):
                self._events.report_end(claim, outcome, verdict)
            else:
                log.warning(DISCARDED, claim.job, claim.tries)
