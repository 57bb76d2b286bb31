"""Finishes: each verdict is one conditional write of its job, fenced by the claim."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from leasehold.engines.dynamodb import items, tally
from leasehold.engines.dynamodb.clock import Clock
from leasehold.engines.dynamodb.errors import ConditionFailed
from leasehold.engines.dynamodb.holds import HoldStore
from leasehold.engines.dynamodb.keys import job_key, job_pk, timestamp
from leasehold.engines.dynamodb.ledger import Ledgers
from leasehold.engines.dynamodb.limits import RunningLimits, places_of
from leasehold.engines.dynamodb.table import Put, Table, Update, gather
from leasehold.model.job import Claim
from leasehold.model.outcome import Verdict
from leasehold.model.status import AttemptStatus, Status
from leasehold.model.trace_context import after_attempt, span_of

# An item holds 400 KB. Results and details that would not fit beside the payload go to the item of the attempt.
MOST_IN_JOB = 350_000


class Finishing:
    def __init__(self, table: Table, clock: Clock, holds: HoldStore, limits: RunningLimits, ledgers: Ledgers) -> None:
        self._table = table
        self._clock = clock
        self._holds = holds
        self._limits = limits
        self._ledgers = ledgers

    async def finish(self, done: Sequence[tuple[Claim, Verdict]]) -> frozenset[Claim]:
        """Writes verdicts. Returns the claims that were fenced off. Each is written on its own: one stale claim must
        not keep the others from being written.
        """
        if not done:
            return frozenset()
        now = await self._clock.now()
        written = await gather(self._finish_one(claim, verdict, now) for claim, verdict in done)
        claims = [claim for claim, _ in done]
        for (claim, verdict), accepted in zip(done, written, strict=True):
            if accepted:
                used = tally.ended(claim.tenant, claim.definition.key, claim.started_at, now, verdict.details)
                self._ledgers.note_over(claim.worker, {(job_pk(claim.tenant, claim.job), claim.batch): used})
        ended = [claim for claim, accepted in zip(claims, written, strict=True) if accepted]
        await self._limits.release(places_of(ended), await self._holds.latest())
        return frozenset(claim for claim, accepted in zip(claims, written, strict=True) if not accepted)

    async def _finish_one(self, claim: Claim, verdict: Verdict, now: datetime) -> bool:
        if verdict.status.final:
            return await self._end(claim, verdict, now)
        try:
            await self._queue_again(claim, verdict, now)
            return True
        except ConditionFailed as failed:
            if not items.holds(failed.item, claim):
                return False
        # A cancel was requested: then it ends here, if its fence still holds.
        return await self._end(claim, replace(verdict, status=Status.CANCELED), now)

    async def _end(self, claim: Claim, verdict: Verdict, now: datetime) -> bool:
        """Ends a job. Its last attempt is told by the job itself, unless its details don't fit there."""
        keep = claim.definition.retention.keep(verdict.status)
        place = items.Place(claim.tenant, claim.job, self._table.shards)
        end, ended_at = _attempt_end(verdict), {"finished_at": timestamp(now)}
        sets = {**place.ended(verdict.status, now, keep), **end, **_last_error(verdict), "result": verdict.result}
        condition, values = items.FENCE, items.fence_values(claim)
        key = job_key(claim.tenant, claim.job)
        try:
            if _size(claim, verdict) <= MOST_IN_JOB:
                await self._table.update(Update(key, sets, condition, values), returns="NONE")
            else:
                attempt = items.attempt_item(self._running_item(claim), {**end, **ended_at, "result": verdict.result})
                apart = {**sets, "error": None, "details": None, "result": None, "last_attempt": attempt["SK"]}
                await self._table.transact([Update(key, apart, condition, values), Put(attempt)])
        except ConditionFailed:
            return False
        return True

    async def _queue_again(self, claim: Claim, verdict: Verdict, now: datetime) -> None:
        """Makes the job wait again, and writes down the attempt. Raises ConditionFailed, also if a cancel is
        requested.
        """
        place = items.Place(claim.tenant, claim.job, self._table.shards)
        failed = verdict.attempt in _FAILURES
        sets = {
            "status": items.RETRYING if failed else items.PENDING,
            "free_attempts": claim.free_attempts + verdict.free_attempts,
            "locked_by": None,
            "lock_expires_at": None,
            **place.waiting(claim.definition.key, now + verdict.delay),
            **_last_error(verdict),
            **_traced(claim, verdict),
        }
        condition = f"{items.FENCE} AND attribute_not_exists(#cancel_requested_at)"
        end = {**_attempt_end(verdict), "finished_at": timestamp(now)}
        attempt = items.attempt_item(self._running_item(claim), end)
        await self._table.transact(
            [
                Update(job_key(claim.tenant, claim.job), sets, condition, items.fence_values(claim)),
                Put(attempt),
            ]
        )

    def _running_item(self, claim: Claim) -> dict[str, Any]:
        """Returns what an attempt's item needs of its job, as it was while it ran."""
        host, pid = self._ledgers.names.get(claim.worker, (None, None))
        return {
            "PK": job_pk(claim.tenant, claim.job),
            "attempts": claim.attempt,
            "job_type": claim.definition.key,
            "worker_id": claim.worker,
            "claim_batch": claim.batch,
            "worker_host": host,
            "worker_pid": pid,
            "started_at": timestamp(claim.started_at),
        }


_FAILURES = frozenset({AttemptStatus.FAILED, AttemptStatus.TIMEOUT, AttemptStatus.CRASHED})


def _attempt_end(verdict: Verdict) -> dict[str, Any]:
    return {
        "attempt_status": verdict.attempt.value,
        "error": verdict.error,
        "error_code": verdict.error_code,
        "exit_code": verdict.exit_code,
        "details": verdict.details,
    }


def _last_error(verdict: Verdict) -> Mapping[str, Any]:
    """Returns the error of this attempt, if it has one: else the job keeps that of an earlier attempt."""
    found = {"last_error": verdict.error, "last_error_code": verdict.error_code}
    return {name: value for name, value in found.items() if value is not None}


def _traced(claim: Claim, verdict: Verdict) -> Mapping[str, Any]:
    """Returns the trace context after this attempt, if it was traced."""
    span = span_of(verdict.details)
    return {} if span is None else {"trace_context": after_attempt(claim.trace_context, span)}


def _size(claim: Claim, verdict: Verdict) -> int:
    texts = (claim.payload, verdict.result, verdict.error, verdict.error, verdict.details)
    return sum(len(text.encode()) for text in texts if text is not None)
