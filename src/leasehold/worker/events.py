"""Reports what a worker does to its listeners, and logs failures and changes."""

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from leasehold.model.definition import Change, describe_changes
from leasehold.model.hidden import escape_hidden
from leasehold.model.job import Claim, LogLine
from leasehold.model.outcome import SUCCEEDED, Outcome, Raised, Released, TimedOut, Verdict
from leasehold.runtime.outage import health_log
from leasehold.store import Registration, TriggerChange
from leasehold.telemetry import (
    AttemptEnd,
    DefinitionChanged,
    DefinitionUnavailable,
    HeartbeatLate,
    JobClaimed,
    JobDiscarded,
    JobEnded,
    JobGivenBack,
    JobLogged,
    JobStarted,
    LeaseLost,
    Listeners,
    LoopBlocked,
    LoopLag,
    Observer,
    Polled,
    StaleFinishRefused,
    WakeReceived,
    WorkerJoined,
    WorkerLeft,
    WorkerListening,
    WorkerRegistrationLost,
)
from leasehold.telemetry.attempt_events import (
    events_log,
    fields_of_job,
    fields_of_verdict,
    log_failure,
    report_reclaim,
)

log = logging.getLogger("leasehold.worker")


class EventReporter:
    """Creates the events that listeners want, and no others. Outlives the worker's sessions."""

    def __init__(self, observe: Observer) -> None:
        self.listeners = observe if isinstance(observe, Listeners) else Listeners([observe])
        self._tell = self.listeners.tell
        self._wants = self.listeners.wants
        self._makes_started = self._wants(JobStarted)
        self._makes_claimed = self._wants(JobClaimed)
        self._makes_ended = self._wants(JobEnded)
        self.takes_ends = self._makes_ended or bool(self.listeners.on_ends) or self._wants(JobGivenBack)
        """Whether a listener takes ends. Only then attempts are timed."""

    # ------------------------------------------------------------------------------------------------------- workers

    def report_trigger_sync(self, changes: Sequence[TriggerChange]) -> None:
        for change in changes:
            if change.differs:
                events_log.info("%s", change.described())

    def report_sync(self, registration: Registration, changes: Sequence[Change]) -> None:
        for change in changes:
            for text in describe_changes([change]):
                events_log.info("%s", text)
                if self._wants(DefinitionChanged):
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
        if self._wants(DefinitionUnavailable):
            for key, why in problems.items():
                self._tell(DefinitionUnavailable(**_of_worker(registration), definition=key, why=why))

    def report_join(self, registration: Registration, slots: int, listens: bool) -> None:
        if self._wants(WorkerJoined):
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
        if self._wants(WorkerListening):
            self._tell(WorkerListening(**_of_worker(registration), listens=listens))

    def report_leave(self, registration: Registration) -> None:
        if self._wants(WorkerLeft):
            self._tell(WorkerLeft(**_of_worker(registration)))

    def report_registration_lost(self, registration: Registration, why: str) -> None:
        if self._wants(WorkerRegistrationLost):
            self._tell(WorkerRegistrationLost(**_of_worker(registration), why=why))

    def report_wake(self, registration: Registration, channel: str) -> None:
        self.listeners.tell_directly(self.listeners.on_wake, "wake.received", channel)
        if self._wants(WakeReceived):
            self._tell(WakeReceived(**_of_worker(registration), channel=channel))

    def report_poll(self, registration: Registration, reason: str, claimed: int) -> None:
        self.listeners.tell_directly(self.listeners.on_poll, "worker.polled", reason, claimed)
        if self._wants(Polled):
            self._tell(Polled(**_of_worker(registration), reason=reason, claimed=claimed))

    def report_late_heartbeat(self, registration: Registration, late_by: float) -> None:
        if self._wants(HeartbeatLate):
            self._tell(HeartbeatLate(**_of_worker(registration), late_by=late_by))

    def report_lag(self, registration: Registration, seconds: float) -> None:
        """Reports how long the event loop took to answer. May be called by any thread."""
        if self._wants(LoopLag):
            self._tell(LoopLag(**_of_worker(registration), seconds=seconds))

    def report_blocked_loop(
        self, registration: Registration, seconds: float, claim: Claim | None, where: str | None
    ) -> None:
        """Warns that code has blocked the event loop. May be called by any thread."""
        by = "code that is not a handler's" if claim is None else f"{claim.definition.key}, job {claim.job}"
        health_log.log(
            logging.INFO if claim is None else logging.WARNING,
            "the event loop of this worker did not run for %.1f s: it is blocked by %s%s. Nothing else runs "
            "meanwhile. Await in the handler, or make it a plain function, which runs in a thread",
            seconds,
            escape_hidden(by),
            f" ({where})" if where else "",
        )
        if self._wants(LoopBlocked):
            self._tell(
                LoopBlocked(
                    **_of_worker(registration),
                    seconds=seconds,
                    definitions=() if claim is None else (claim.definition.key,),
                    jobs=() if claim is None else (claim.job,),
                    where=where,
                )
            )

    # ---------------------------------------------------------------------------------------------------------- jobs

    def report_claims(self, claims: Sequence[Claim]) -> None:
        listeners = self.listeners
        if listeners.on_claims:
            listeners.tell_directly(listeners.on_claims, "job.claimed", claims)
        if self._makes_claimed:
            for claim in claims:
                self._tell(JobClaimed(**fields_of_job(claim), queued_at=claim.queued_at, waited=_waited(claim)))

    def report_start(self, claim: Claim) -> None:
        if self._makes_started:
            self._tell(JobStarted(**fields_of_job(claim), queued_at=claim.queued_at, waited=_waited(claim)))

    def report_log(self, claim: Claim, line: LogLine) -> None:
        self._tell(JobLogged(**fields_of_job(claim), text=line.text, kind=line.kind, progress=line.progress))

    def report_ends(self, ends: Sequence[AttemptEnd]) -> None:
        """Reports ends; called only once their verdicts are written, and once for each."""
        plain = [end for end in ends if end[1] is SUCCEEDED]
        if len(plain) < len(ends):
            for claim, verdict, _, outcome in ends:
                if verdict.error_code is not None:
                    log_failure(claim, verdict, _where(outcome))
                elif isinstance(outcome, Released) and self._wants(JobGivenBack):
                    self._tell(JobGivenBack(**fields_of_job(claim)))
            ends = [end for end in ends if not isinstance(end[3], Released)]
        if ends and self.listeners.on_ends:
            self.listeners.tell_directly(self.listeners.on_ends, "job.ended", ends)
        if self._makes_ended:
            for claim, verdict, seconds, outcome in ends:
                self._tell(
                    JobEnded(
                        **fields_of_job(claim),
                        **fields_of_verdict(verdict),
                        attempt_status=verdict.attempt,
                        seconds=seconds,
                        where=_where(outcome),
                    )
                )

    def report_reclaim(self, claim: Claim, verdict: Verdict, by: Registration) -> None:
        report_reclaim(self.listeners, claim, verdict, by.worker)

    def report_lease_lost(self, claim: Claim) -> None:
        if self._wants(LeaseLost):
            self._tell(LeaseLost(**fields_of_job(claim)))

    def report_refusal(self, claim: Claim) -> None:
        """Reports that the store has refused an end, because the claim was lost meanwhile."""
        if self._wants(StaleFinishRefused):
            self._tell(StaleFinishRefused(**fields_of_job(claim)))

    def report_discarded(self, claims: Iterable[Claim]) -> None:
        """Reports attempts that were started, and whose end is not written."""
        if self._wants(JobDiscarded):
            for claim in claims:
                self._tell(JobDiscarded(**fields_of_job(claim)))


def log_problems(problems: Mapping[str, str]) -> None:
    for key, why in problems.items():
        events_log.error("%s is not served by this worker: %s Its jobs wait for other workers.", key, why)


def _of_worker(registration: Registration) -> dict[str, Any]:
    return {"at": datetime.now(UTC), "worker": registration.worker}


def _waited(claim: Claim) -> float | None:
    """Returns the seconds from the enqueue to the first claim; None for later claims."""
    return round(claim.started - claim.queued, 6) if claim.attempt == 1 else None


def _where(outcome: Outcome) -> str | None:
    trace = outcome.trace if isinstance(outcome, Raised | TimedOut) else None
    return trace.where if trace else None
