"""Makes log lines of events: a level, a name, and fields. Readers of logs rely on names and fields as they are."""

import logging
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import orjson

from leasehold.model.job import Claim
from leasehold.model.outcome import Raised, Snoozed, TimedOut
from leasehold.model.status import Status
from leasehold.telemetry.attempt_context import fields_of_claim
from leasehold.telemetry.events import (
    DatabaseBack,
    DatabaseLost,
    DefinitionChanged,
    DefinitionUnavailable,
    Event,
    HeartbeatLate,
    JobDiscarded,
    JobEvent,
    JobGivenBack,
    JobReclaimed,
    LeaseLost,
    LoopBlocked,
    StaleFinishRefused,
    TriggerDecided,
    WorkerJoined,
    WorkerLeft,
    WorkerListening,
    WorkerRegistrationLost,
)
from leasehold.telemetry.listeners import AttemptEnd

Line = tuple[int, str, dict[str, Any]]
"""Level, name, fields."""
ITEM_FIELD = '"item_id"'
"""Stands in every payload that has this field, and in few others."""

LEVELS: dict[type[Any], int] = {
    DatabaseBack: logging.WARNING,
    DatabaseLost: logging.WARNING,
    DefinitionChanged: logging.INFO,
    DefinitionUnavailable: logging.ERROR,
    HeartbeatLate: logging.WARNING,
    JobDiscarded: logging.WARNING,
    JobGivenBack: logging.INFO,
    JobReclaimed: logging.WARNING,
    LeaseLost: logging.WARNING,
    LoopBlocked: logging.WARNING,
    StaleFinishRefused: logging.WARNING,
    TriggerDecided: logging.INFO,
    WorkerJoined: logging.INFO,
    WorkerLeft: logging.INFO,
    WorkerListening: logging.INFO,
    WorkerRegistrationLost: logging.WARNING,
}
"""The events that are logged one by one. Claims and ends are logged in batches."""
_RENAMED = {
    "worker": "worker_id",
    "tenant": "tenant_id",
    "job": "job_id",
    "definition": "definition_key",
    "attempt": "attempt_no",
}
_LEFT_OUT = {"at", "event", "tries", "max_attempts"}


def line_of_event(event: Event) -> Line:
    """Returns the line of an event that is logged by itself. A name has no dots: `job_lease_lost`."""
    level = LEVELS[type(event)]
    if isinstance(event, WorkerListening) and not event.listens:
        level = logging.WARNING
    told = {
        _RENAMED.get(each.name, each.name): getattr(event, each.name)
        for each in fields(event)
        if each.name not in _LEFT_OUT
    }
    if isinstance(event, JobEvent):
        told["attempt"] = event.attempt
    if isinstance(event, JobReclaimed):
        told["will_retry"] = event.status is Status.QUEUED
        told["status"] = event.status.value
    return level, event.event.replace(".", "_"), told


def line_of_claim(claim: Claim) -> Line:
    return logging.INFO, "job_claimed", _of_claim(claim)


def line_of_end(end: AttemptEnd) -> Line:
    """Returns the line of an attempt: job_completed, job_failed, job_snoozed or job_canceled."""
    claim, verdict, seconds, outcome = end
    told = {**_of_claim(claim), "duration_ms": duration_ms(seconds)}
    if verdict.error_code is not None:
        again = verdict.status is Status.QUEUED
        told |= {
            "error_code": verdict.error_code,
            "will_retry": again,
            "error": verdict.error,
            "status": verdict.status.value,
            "retry_in_ms": round(verdict.delay.total_seconds() * 1000) if again else None,
            "where": _where(outcome),
        }
        return logging.WARNING if again else logging.ERROR, "job_failed", told
    if isinstance(outcome, Snoozed):
        return logging.INFO, "job_snoozed", {**told, "retry_in_ms": round(verdict.delay.total_seconds() * 1000)}
    return logging.INFO, "job_canceled" if verdict.status is Status.CANCELED else "job_completed", told


def duration_ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)


def item_id(claim: Claim, redact: Callable[[str], str] = str) -> str | int | float | bool | None:
    """Returns the field `item_id` of the payload, if it is a scalar; most payloads have none, and are not read."""
    if ITEM_FIELD not in claim.payload:
        return None
    try:
        found = orjson.loads(claim.payload)
    except ValueError:
        return None
    item = found.get("item_id") if isinstance(found, dict) else None
    if isinstance(item, str):
        return redact(item)
    return item if isinstance(item, int | float) else None


def _of_claim(claim: Claim) -> dict[str, Any]:
    return {**fields_of_claim(claim), "item_id": item_id(claim), "attempt": claim.attempt}


def _where(outcome: object) -> str | None:
    return outcome.trace.where if isinstance(outcome, Raised | TimedOut) and outcome.trace else None
