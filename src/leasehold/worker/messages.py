"""Messages between a worker and the processes of its handlers: JSON, each after its length.

To the process: a plan, then calls with their number, cancels, `taken` for each batch of lines, and a stop. From the
process: ready or failed, then for each call `begun` with the processor time before it, batches of log lines, and one
outcome with the processor time of the call.
"""

import json
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from leasehold.model.definition import Definition
from leasehold.model.job import Claim
from leasehold.model.outcome import Outcome, Raised, Released, Snoozed, Succeeded, Trace

Message = dict[str, Any]

HEADER = 4
MICROSECOND = timedelta(microseconds=1)
# The facts of a claim that a job shows. Its definition is known to the process, its payload comes with the call.
FACTS = (
    *("tenant", "job", "attempt", "worker", "batch", "version", "max_attempts", "free_attempts"),
    *("queued", "started", "correlation_id", "priority", "trace_context"),
)


def encode(message: Mapping[str, Any]) -> bytes:
    """Not by orjson, which refuses lone surrogates: handlers may log anything."""
    body = json.dumps(message).encode()
    return len(body).to_bytes(HEADER) + body


class MessageReader:
    """Splits a stream of bytes into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Message]:
        self._buffer += data
        while len(self._buffer) >= HEADER:
            end = HEADER + int.from_bytes(self._buffer[:HEADER])
            if len(self._buffer) < end:
                return
            body = bytes(self._buffer[HEADER:end])
            del self._buffer[:end]
            yield json.loads(body)


def facts_of(claim: Claim) -> Message:
    return {name: getattr(claim, name) for name in FACTS}


def claim_of(facts: Mapping[str, Any], definition: Definition) -> Claim:
    return Claim(**facts, definition=definition, payload="")


def outcome_as_message(outcome: Outcome) -> Message:
    match outcome:
        case Succeeded():
            return {"succeeded": outcome.result}
        case Snoozed():
            return {"snoozed": outcome.delay // MICROSECOND}
        case Raised():
            trace = outcome.trace and [outcome.trace.where, outcome.trace.traceback]
            retry_in = None if outcome.retry_in is None else outcome.retry_in // MICROSECOND
            return {"raised": [outcome.code, outcome.message, retry_in, outcome.final, trace]}
        case _:  # a handler can choose no other one
            return {"released": True}


def outcome_of_message(message: Mapping[str, Any]) -> Outcome:
    if "succeeded" in message:
        return Succeeded(message["succeeded"])
    if "snoozed" in message:
        return Snoozed(message["snoozed"] * MICROSECOND)
    if "raised" in message:
        code, text, retry_in, final, trace = message["raised"]
        delay = None if retry_in is None else retry_in * MICROSECOND
        return Raised(code, text, delay, final, trace and Trace(*trace))
    return Released()
