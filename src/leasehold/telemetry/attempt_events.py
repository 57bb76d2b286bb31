"""The fields of events of an attempt, its line in the log, and the report of a reclaim, by workers and servers."""

import logging
from datetime import UTC, datetime
from typing import Any

from leasehold.model.hidden import escape_hidden
from leasehold.model.job import Claim, WorkerId
from leasehold.model.outcome import LeaseLost, Verdict
from leasehold.model.status import Status
from leasehold.telemetry.events import JobReclaimed
from leasehold.telemetry.listeners import Listeners

# A logger of its own, so that a program that shows the events need not show them twice.
events_log = logging.getLogger("leasehold.worker.events")

CRASHED = LeaseLost()
SHOWN_ERROR = 500


def fields_of_job(claim: Claim) -> dict[str, Any]:
    """Returns the fields of a `JobEvent`."""
    return {
        "at": datetime.now(UTC),
        "worker": claim.worker,
        "tenant": claim.tenant,
        "job": claim.job,
        "definition": claim.definition.key,
        "attempt": claim.attempt,
        "tries": claim.tries,
        "max_attempts": claim.max_attempts,
    }


def fields_of_verdict(verdict: Verdict) -> dict[str, Any]:
    again = verdict.status is Status.QUEUED
    return {
        "status": verdict.status,
        "error": verdict.error,
        "error_code": verdict.error_code,
        "retry_in": verdict.delay.total_seconds() if again else None,
    }


def report_reclaim(listeners: Listeners, claim: Claim, verdict: Verdict, by: WorkerId | None) -> None:
    """Reports and logs an attempt of a worker that is gone. `by` is None if a server has written the verdict."""
    log_failure(claim, verdict, None)
    if listeners.on_reclaims:
        listeners.tell_directly(listeners.on_reclaims, "job.reclaimed", [(claim, verdict, None, CRASHED)])
    if listeners.wants(JobReclaimed):
        listeners.tell(JobReclaimed(**fields_of_job(claim), **fields_of_verdict(verdict), by=by))


def log_failure(claim: Claim, verdict: Verdict, where: str | None) -> None:
    """Logs a failed attempt for people, in one line."""
    again = verdict.status is Status.QUEUED
    events_log.log(
        logging.WARNING if again else logging.ERROR,
        "job %s of %s, %s: %s at try %d/%d: %s: %s%s%s",
        claim.job,
        escape_hidden(claim.tenant),
        escape_hidden(claim.definition.key),
        "failed" if again else verdict.status.value.replace("_", " "),
        claim.tries,
        claim.max_attempts,
        verdict.error_code,
        _on_one_line(verdict.error or ""),
        f" ({where})" if where else "",
        f"; again in {verdict.delay.total_seconds():.1f} s" if again else "; not tried again",
    )


def _on_one_line(text: str) -> str:
    """Returns the text without line breaks and without characters that move a terminal's cursor."""
    shown = text if len(text) <= SHOWN_ERROR else text[: SHOWN_ERROR - 1] + "…"
    return "".join(letter if letter.isprintable() else " " for letter in shown)
