"""Reports failures to Sentry: with the job, its redacted payload and its traceback, grouped as our error groups are.

    sentry_sdk.init(dsn=…)
    app.observe(Sentry())

A thread of its own makes and sends the events: a failure costs its worker's event loop a few µs. It waits for the
transport, so that a burst of failures is sent as a whole. Events have no local variables, and no breadcrumbs or user
of another request. The same failure as a log line is kept from Sentry's logging integration.
"""

import atexit
import logging
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from queue import Empty, Queue
from typing import Any, Literal

from leasehold.config import process_redactor
from leasehold.errors import InvalidInput
from leasehold.model import payload as payloads
from leasehold.model.error_group import error_group
from leasehold.model.job import Claim
from leasehold.model.outcome import LeaseLost, Outcome, Raised, TimedOut, Verdict
from leasehold.model.secret_fields import hide_sealed
from leasehold.model.status import Status
from leasehold.telemetry.listeners import CLOSE_TIMEOUT, AttemptEnd, Listener

try:
    import sentry_sdk
    from sentry_sdk.integrations.logging import ignore_logger
except ModuleNotFoundError as error:
    raise InvalidInput(
        "Sentry needs the package sentry-sdk, which is not installed. Nothing was changed.",
        fix="Run: pip install 'leasehold[sentry]'",
    ) from error

log = logging.getLogger("leasehold")

Level = Literal["fatal", "error", "warning", "info", "debug"]
LEVELS = ("fatal", "error", "warning", "info", "debug")
LOG_OF_FAILURES = "leasehold.worker.events"

# Failures that wait to be sent, and the characters of their texts; further ones are dropped and counted.
MOST_WAITING, MOST_TEXT = 10_000, 64 * 2**20
# When texts of so many characters wait, payloads are left out, since a single one may have 256 KB.
MOST_TEXT_WITH_PAYLOADS = 16 * 2**20
LEFT_OUT = '"[left out: too many failures waited to be sent]"'
# The transport of the SDK drops events beyond 100 that wait: so many are handed to it, then their end is awaited.
AT_ONCE = 50
FLUSH_TIMEOUT = 30.0

_FRAME = re.compile(r'  File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>.+)')
_BETWEEN = re.compile(
    r"\n\n(?:The above exception was the direct cause of the following exception|"
    r"During handling of the above exception, another exception occurred):\n\n"
)


class Sentry(Listener):
    """Reports every failed attempt, crashes included, by the client that `sentry_sdk.init` has made.

    `retried` is the level of failures after which the job runs again, `final` that of failures by which a job ends.
    None: these are not reported.
    """

    wants = ()

    def __init__(self, *, retried: Level | None = "warning", final: Level | None = "error") -> None:
        for name, level in (("retried", retried), ("final", final)):
            if level is not None and level not in LEVELS:
                raise InvalidInput(
                    f"{name}={level!r:.40} is not a level of Sentry. Nothing was changed.",
                    fix=f"Write one of {', '.join(LEVELS)}, or None.",
                )
        self._retried, self._final = retried, final
        self._sender = _Sender()
        ignore_logger(LOG_OF_FAILURES)

    def on_ends(self, ends: Sequence[AttemptEnd]) -> None:
        for claim, verdict, seconds, outcome in ends:
            if verdict.error_code is not None:
                self._report(claim, verdict, seconds, outcome)

    def on_reclaims(self, ends: Sequence[AttemptEnd]) -> None:
        """Reports attempts of workers that are gone."""
        self.on_ends(ends)

    def flush(self, timeout: float = CLOSE_TIMEOUT) -> bool:
        """Waits until all failures so far are sent. Returns False if some are not when the time is over."""
        return self._sender.flush(timeout)

    def close(self) -> None:
        """Sends all failures so far, and what the app itself has captured: a worker ends without exit handlers."""
        self.flush(FLUSH_TIMEOUT)
        sentry_sdk.get_client().flush(FLUSH_TIMEOUT)

    def _report(self, claim: Claim, verdict: Verdict, seconds: float | None, outcome: Outcome) -> None:
        level = self._retried if verdict.status is Status.QUEUED else self._final
        if level is not None:
            if isinstance(outcome, Raised):
                outcome = replace(outcome, message="")  # the verdict has it, within bounds
            self._sender.put((level, claim, verdict, seconds, outcome))


_Failure = tuple[str, Claim, Verdict, float | None, Outcome]


def _text_of(failure: _Failure) -> int:
    """Returns the characters of the texts that a failure holds. Its trace is in the verdict's details, too."""
    _, claim, verdict, _, _ = failure
    return len(claim.payload) + len(verdict.error or "") + 2 * len(verdict.details or "")


def _without_payload(failure: _Failure) -> _Failure:
    level, claim, verdict, seconds, outcome = failure
    return level, replace(claim, payload=LEFT_OUT), verdict, seconds, outcome


class _Sender:
    """A thread that turns failures into events. It is started by the first failure.

    While Sentry is away, failures wait within bounds: of their count, and of their size.
    """

    def __init__(self) -> None:
        self._waiting: Queue[_Failure] = Queue()
        self._text = 0
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._dropped = 0
        self._complained = False

    def put(self, failure: _Failure) -> None:
        if self._thread is None:
            self._start()
        with self._lock:
            if self._text + _text_of(failure) > MOST_TEXT_WITH_PAYLOADS:
                failure = _without_payload(failure)
            text = self._text + _text_of(failure)
            if self._waiting.qsize() >= MOST_WAITING or text > MOST_TEXT:
                self._dropped += 1
            else:
                self._text = text
                self._waiting.put_nowait(failure)

    def flush(self, timeout: float) -> bool:
        done = threading.Thread(target=self._waiting.join, daemon=True)
        done.start()
        done.join(timeout)
        return not done.is_alive()

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="leasehold-sentry", daemon=True)
                self._thread.start()
                atexit.register(self.flush, CLOSE_TIMEOUT)

    def _run(self) -> None:
        while True:
            batch = [self._waiting.get()]
            while len(batch) < AT_ONCE:
                try:
                    batch.append(self._waiting.get_nowait())
                except Empty:
                    break
            with self._lock:
                self._text -= sum(map(_text_of, batch))
            try:
                self._send(batch)
            except Exception:
                self._complain("failures can't be sent to Sentry; further errors are not logged")
            finally:
                for _ in batch:
                    self._waiting.task_done()

    def _send(self, batch: Sequence[_Failure]) -> None:
        client = sentry_sdk.get_client()
        if not client.is_active():
            self._complain("failures are not sent to Sentry: sentry_sdk.init was not called in this process")
            return
        for failure in batch:
            client.capture_event(event_of(*failure), scope=sentry_sdk.get_global_scope())
        client.flush(FLUSH_TIMEOUT)
        if dropped := self._dropped:
            self._dropped = 0
            log.warning("%d failures were not sent to Sentry: too many waited already", dropped)

    def _complain(self, text: str) -> None:
        if not self._complained:
            self._complained = True
            log.warning(text, exc_info=True)


def event_of(level: str, claim: Claim, verdict: Verdict, seconds: float | None, outcome: Outcome) -> dict[str, Any]:
    """Returns a failure as Sentry's event. Texts of errors are redacted already, the payload is redacted here."""
    definition, code = claim.definition.key, verdict.error_code or ""
    again = verdict.status is Status.QUEUED
    trace = outcome.trace if isinstance(outcome, Raised | TimedOut) else None
    traceback = None if trace is None else trace.traceback
    return {
        "level": level,
        "logger": LOG_OF_FAILURES,
        "transaction": definition,
        "fingerprint": ["leasehold", error_group(definition, code, verdict.error)],
        "exception": {"values": list(_exceptions(code, verdict.error or "", traceback, outcome))},
        "tags": {
            "job_id": claim.job,
            "job_type": definition,
            "tenant_id": claim.tenant,
            "error_code": code,
            "will_retry": "yes" if again else "no",
        },
        "contexts": {
            "job": {
                "job_id": claim.job,
                "job_type": definition,
                "tenant_id": claim.tenant,
                "attempt": claim.attempt,
                "try": claim.tries,
                "max_attempts": claim.max_attempts,
                "status": verdict.status.value,
                "attempt_status": verdict.attempt.value,
                "retry_in": verdict.delay.total_seconds() if again else None,
                "seconds": seconds,
                "worker_id": claim.worker,
                "correlation_id": claim.correlation_id,
                "queued_at": claim.queued_at.isoformat(),
                "started_at": claim.started_at.isoformat(),
            }
        },
        "extra": {"payload": shown_payload(claim), "traceback": traceback, "where": trace and trace.where},
    }


def shown_payload(claim: Claim) -> Any:
    """Returns the payload as every view shows it: without secrets."""
    try:
        return hide_sealed(process_redactor().document(payloads.decode(claim.payload)))
    except ValueError:
        return "[it can't be read]"


def _exceptions(code: str, message: str, traceback: str | None, outcome: Outcome) -> Iterator[Mapping[str, Any]]:
    """Yields the exceptions of a traceback, causes first; the last is the failure itself."""
    *causes, last = _BETWEEN.split(traceback) if traceback else [""]
    for cause in causes:
        kind, _, text = cause.rstrip().rpartition("\n")[2].partition(": ")
        yield {"type": kind, "value": text, "stacktrace": {"frames": frames_of(cause)}}
    failure: dict[str, Any] = {"type": code, "value": message, "mechanism": {"type": _MECHANISM, "handled": True}}
    if isinstance(outcome, LeaseLost):
        failure["mechanism"]["handled"] = False
    if frames := frames_of(last):
        failure["stacktrace"] = {"frames": frames}
    yield failure


_MECHANISM = "leasehold"


def frames_of(traceback: str) -> list[dict[str, Any]]:
    """Reads the frames of a traceback, the innermost last: only the redacted text of it is kept."""
    frames: list[dict[str, Any]] = []
    for line in traceback.splitlines():
        if found := _FRAME.fullmatch(line):
            frames.append(
                {
                    "filename": found["file"],
                    "lineno": int(found["line"]),
                    "function": found["function"],
                    "in_app": True,
                }
            )
        elif frames and "context_line" not in frames[-1] and line.startswith("    ") and line.strip(" ^~"):
            frames[-1]["context_line"] = line.strip()
    return frames
