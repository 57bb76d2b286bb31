"""Reports what a worker does to its observer, and logs failures and changes."""

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from time import monotonic
from typing import Any

from leasehold.model.definition import Change, describe_changes
from leasehold.model.hidden import escape_hidden
from leasehold.model.job import Claim, LogLine
from leasehold.model.outcome import Outcome, Raised, Released, TimedOut, Verdict
from leasehold.model.status import Status
from leasehold.store import Registration, TriggerChange
from leasehold.telemetry import (
    DefinitionChanged,
    DefinitionUnavailable,
    Event,
    JobDiscarded,
    JobEnded,
    JobGivenBack,
    JobLogged,
    JobReclaimed,
    JobStarted,
    Observer,
    WorkerJoined,
    WorkerLeft,
    WorkerListening,
    WorkerRegistrationLost,
    ignore_events,
)

log = logging.getLogger("leasehold.worker")
# A logger of its own, so that a program that shows the events need not show them twice.
events_log = logging.getLogger("leasehold.worker.events")

SHOWN_ERROR = 500


class EventReporter:
    """Creates events for the observer; without one, creates none. Outlives the worker's sessions."""

    def __init__(self, observe: Observer) -> None:
        self._observe = observe
        self.is_observed = observe is not ignore_events
        self._began: dict[Claim, float] = {}
        self._complained = False

    def report_trigger_sync(self, changes: Sequence[TriggerChange]) -> None:
        for change in changes:
            if change.differs:
                events_log.info("%s", change.described())

    def report_sync(self, registration: Registration, changes: Sequence[Change]) -> None:
        for change in changes:
            for text in describe_changes([change]):
                events_log.info("%s", text)
                if self.is_observed:
                    self._tell(
                        DefinitionChanged(
                            **_of_worker(registration),
                            definition=change.key,
                            version=change.version,
                            created=change.created,
                            text=text,
                        )
                    )

    def report_problems(self, registration: Registration, problems: Mapping[str, str]) -> None:
        """Reports the definitions that this worker does not serve, each with the reason."""
        if self.is_observed:
            for key, why in problems.items():
                self._tell(DefinitionUnavailable(**_of_worker(registration), definition=key, why=why))

    def report_join(self, registration: Registration, slots: int, listens: bool) -> None:
        if self.is_observed:
            self._tell(
                WorkerJoined(
                    **_of_worker(registration),
                    pid=os.getpid(),
                    slots=slots,
                    definitions=registration.serves.definitions,
                    listens=listens,
                )
            )

    def report_listening(self, registration: Registration, listens: bool) -> None:
        if self.is_observed:
            self._tell(WorkerListening(**_of_worker(registration), listens=listens))

    def report_leave(self, registration: Registration) -> None:
        if self.is_observed:
            self._tell(WorkerLeft(**_of_worker(registration)))

    def report_registration_lost(self, registration: Registration, why: str) -> None:
        if self.is_observed:
            self._tell(WorkerRegistrationLost(**_of_worker(registration), why=why))

    def report_start(self, claim: Claim) -> None:
        if self.is_observed:
            self._began[claim] = monotonic()
            waited = (claim.started_at - claim.queued_at).total_seconds() if claim.attempt == 1 else None
            self._tell(JobStarted(**_of_job(claim), queued_at=claim.queued_at, waited=waited))

    def report_log(self, claim: Claim, line: LogLine) -> None:
        if self.is_observed:
            self._tell(JobLogged(**_of_job(claim), text=line.text, kind=line.kind, progress=line.progress))

    def report_end(self, claim: Claim, outcome: Outcome, verdict: Verdict) -> None:
        """Reports an end; called only once the verdict is written."""
        if verdict.error_code is not None:
            _log_failure(claim, verdict, _where(outcome))
        if not self.is_observed:
            return
        began = self._began.pop(claim, None)
        if isinstance(outcome, Released):
            self._tell(JobGivenBack(**_of_job(claim)))
        else:
            seconds = None if began is None else monotonic() - began
            self._tell(
                JobEnded(
                    **_of_job(claim),
                    **_fields_of(verdict),
                    attempt_status=verdict.attempt,
                    seconds=seconds,
                    where=_where(outcome),
                )
            )

    def report_reclaim(self, claim: Claim, verdict: Verdict, by: Registration) -> None:
        _log_failure(claim, verdict, None)
        if self.is_observed:
            self._tell(JobReclaimed(**_of_job(claim), **_fields_of(verdict), by=by.worker))

    def forget(self, claims: Iterable[Claim]) -> None:
        """Reports as discarded each attempt that was started and whose end was not written."""
        if self.is_observed:
            for claim in claims:
                if self._began.pop(claim, None) is not None:
                    self._tell(JobDiscarded(**_of_job(claim)))

    def _tell(self, event: Event) -> None:
        try:
            self._observe(event)
        except Exception:
            if not self._complained:
                log.exception("the observer raised at %s; it is told on, further errors are not logged", event.event)
            self._complained = True


def log_problems(problems: Mapping[str, str]) -> None:
    for key, why in problems.items():
        events_log.error("%s is not served by this worker: %s Its jobs wait for other workers.", key, why)


def _log_failure(claim: Claim, verdict: Verdict, where: str | None) -> None:
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


def _of_worker(registration: Registration) -> dict[str, Any]:
    return {"at": datetime.now(UTC), "worker": registration.worker}


def _of_job(claim: Claim) -> dict[str, Any]:
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


def _where(outcome: Outcome) -> str | None:
    trace = outcome.trace if isinstance(outcome, Raised | TimedOut) else None
    return trace.where if trace else None


def _fields_of(verdict: Verdict) -> dict[str, Any]:
    again = verdict.status is Status.QUEUED
    return {
        "status": verdict.status,
        "error": verdict.error,
        "error_code": verdict.error_code,
        "retry_in": verdict.delay.total_seconds() if again else None,
    }
