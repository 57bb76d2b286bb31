"""Executes a handler in the caller's thread or on its loop, with JSON on both sides."""

import asyncio
from dataclasses import dataclass
from time import time
from typing import Any

from uuid_utils import uuid7

from leasehold.errors import BlockingCall, PayloadInvalid
from leasehold.model import payload as payloads
from leasehold.model.definition import Definition
from leasehold.model.job import Claim, JobId, LineKind, LogLine, NewJob, TenantId, WorkerId
from leasehold.model.outcome import Outcome, Raised, Rejected, Succeeded
from leasehold.model.process import ProcessEnd
from leasehold.operations.seal import seal
from leasehold.worker.handlers import Handler
from leasehold.worker.job import Job
from leasehold.worker.opened_payload import open_secrets
from leasehold.worker.outcomes import Snooze, outcome_of_error, outcome_of_result


@dataclass(frozen=True)
class Ran:
    """The outcome to write, the exception that the handler raised, and how a command's process ended."""

    outcome: Outcome
    raised: Exception | None = None
    process: ProcessEnd | None = None

    @property
    def error(self) -> Exception | None:
        """The exception for the caller; a snooze is not an error."""
        return None if isinstance(self.raised, Snooze) else self.raised


class Execution:
    """Reads the payload from JSON and writes the result as JSON. Has no timeout, for the sake of debuggers."""

    def __init__(self, handler: Handler, claim: Claim, state: Any) -> None:
        self.lines: list[tuple[Claim, LogLine]] = []
        self._handler = handler
        self._claim = claim
        self._job = Job(claim, self._append_line, state=state)

    def run(self) -> Ran:
        try:
            payload = self._payload()
            if not self._handler.is_async:
                return self._result(self._handler.call(self._job, payload))
            # With a loop factory, the runner leaves the thread's current loop as it is.
            with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
                return self._result(runner.run(self._handler.call(self._job, payload)))
        except Exception as error:
            return self._error(error)

    async def arun(self) -> Ran:
        try:
            payload = self._payload()
            if self._handler.is_async:
                return self._result(await self._handler.call(self._job, payload))
            return self._result(await asyncio.to_thread(self._handler.call, self._job, payload))
        except Exception as error:
            return self._error(error)

    def _payload(self) -> Any:
        text = self._claim.payload
        payload = payloads.decode(text)
        if self._claim.definition.secret_fields:
            payload = open_secrets(self._job, payload)
            text = payloads.encode_plain(payload)
        self._claim.definition.check(payload)
        return text if self._handler.reads_json else payload

    def _result(self, result: Any) -> Ran:
        outcome = outcome_of_result(result, self._job._redactor)
        if outcome is result:  # of a command
            failed = isinstance(outcome, Raised | Rejected)
            error = RuntimeError(f"{outcome.code}: {outcome.message}") if failed else None
            return Ran(outcome, error, self._job._process)
        if isinstance(outcome, Raised):
            try:
                payloads.encode_result(result)
            except PayloadInvalid as error:
                return Ran(outcome, error)
        return Ran(outcome)

    def _error(self, error: Exception) -> Ran:
        return Ran(outcome_of_error(error, self._job._redactor), error)

    def _append_line(self, claim: Claim, text: str, kind: LineKind, progress: float | None) -> bool:
        self.lines.append((claim, LogLine(len(self.lines) + 1, text, kind, progress)))
        return True


def make_claim(tenant: TenantId, definition: Definition, job: NewJob) -> Claim:
    """Returns a claim for a call without a queue: the first attempt of a job that is not in a database."""
    now = time()
    return Claim(
        tenant=tenant,
        job=JobId(str(uuid7())),
        attempt=1,
        worker=WorkerId("nobody"),
        batch=0,
        definition=definition,
        version=1,
        payload=payloads.encode(dict(seal(job, tenant).payload)),
        max_attempts=job.max_attempts or definition.max_attempts,
        free_attempts=0,
        queued=now,
        started=now,
    )


def result_of(ran: Ran) -> Any:
    """Returns the result as a reader of the job's record gets it."""
    if ran.raised is not None:
        raise ran.raised
    assert isinstance(ran.outcome, Succeeded)
    return None if ran.outcome.result is None else payloads.decode(ran.outcome.result)


def refuse_to_block(twin: str) -> None:
    """Raises BlockingCall on a running loop: blocked, the loop could never answer the handler."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise BlockingCall(
        "this would block the event loop that runs in this thread. Nothing was run.",
        fix=f"Await its twin: await leasehold.{twin}(…)",
    )
