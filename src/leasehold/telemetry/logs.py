"""Listeners that log events: by structlog, through the processors of the program, or quickly as lines of JSON."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, BinaryIO

import orjson

from leasehold.errors import InvalidInput
from leasehold.model.job import Claim
from leasehold.model.outcome import SUCCEEDED
from leasehold.telemetry.attempt_context import attempt_fields
from leasehold.telemetry.events import Event
from leasehold.telemetry.listeners import AttemptEnd, Listener
from leasehold.telemetry.log_lines import LEVELS, Line, item_id, line_of_claim, line_of_end, line_of_event

MOST_REMEMBERED = 10_000
# Characters of the fields of a claim that is remembered: those with a long item are made once more at its end.
LONGEST_REMEMBERED = 1000

# The claim of one attempt, for the process of its worker. The claim itself would keep its payload.
_fence_of = attrgetter("tenant", "job", "attempt", "batch")


def require_structlog() -> Any:
    """Returns structlog. Raises InvalidInput if it is not installed."""
    try:
        import structlog
    except ImportError as error:
        raise InvalidInput(
            "log lines by structlog need the package structlog. Nothing was started.",
            fix="Install it: pip install 'leasehold[logs]'",
        ) from error
    return structlog


def add_attempt(_logger: object, _method: str, event_dict: Any) -> Any:
    """Adds the facts of the attempt that runs here: a processor of structlog. Fields of the line itself win."""
    for name, value in attempt_fields().items():
        event_dict.setdefault(name, value)
    return event_dict


class EventLogs(Listener):
    """Logs events by structlog, as the program has configured it:

        app.observe(EventLogs())

    `logger` is a bound logger of structlog; by default that of the name leasehold.
    """

    wants = frozenset(LEVELS)

    def __init__(self, logger: Any = None) -> None:
        self._logger = require_structlog().get_logger("leasehold") if logger is None else logger

    def __call__(self, event: Event) -> None:
        self.write(line_of_event(event))

    def on_claims(self, claims: Sequence[Claim]) -> None:
        for claim in claims:
            self.write(line_of_claim(claim))

    def on_ends(self, ends: Sequence[AttemptEnd]) -> None:
        for end in ends:
            self.write(line_of_end(end))

    def write(self, line: Line) -> None:
        level, name, fields = line
        self._logger.log(level, name, **fields)


class JsonLines(EventLogs):
    """Logs as `EventLogs` does, but writes claims and successes, which come with every job, itself: one write for a
    batch. Each line is what structlog would render, for less than a hundredth of its time.
    """

    def __init__(self, logger: Any, stream: BinaryIO, redact: Callable[[str], str]) -> None:
        super().__init__(logger)
        self._stream = stream
        self._redact = redact
        self._known: dict[str, str] = {}
        self._facts: dict[tuple[Any, ...], str] = {}

    def on_claims(self, claims: Sequence[Claim]) -> None:
        beginning = f'{{"event":"job_claimed","level":"info","timestamp":"{_now()}",'
        if len(self._facts) > MOST_REMEMBERED:  # of claims that have ended in another way
            self._facts.clear()
        facts = list(map(self._describe, claims))
        self._facts.update(zip(map(_fence_of, claims), facts, strict=True))
        if max(map(len, facts), default=0) > LONGEST_REMEMBERED:
            for claim, each in zip(claims, facts, strict=True):
                if len(each) > LONGEST_REMEMBERED:
                    del self._facts[_fence_of(claim)]
        self._put([f"{beginning}{each}}}\n" for each in facts])

    def on_ends(self, ends: Sequence[AttemptEnd]) -> None:
        """Uses the fields of the claim again: to make them takes half of the time of a line."""
        beginning = f'{{"event":"job_completed","level":"info","timestamp":"{_now()}",'
        lines, remembered = [], self._facts.pop
        for claim, verdict, seconds, outcome in ends:
            facts = remembered(_fence_of(claim), None) or self._describe(claim)
            if verdict is SUCCEEDED and seconds is not None:
                lines.append(f'{beginning}{facts},"duration_ms":{seconds * 1000:.3f}}}\n')
            else:
                self.write(line_of_end((claim, verdict, seconds, outcome)))
        self._put(lines)

    def _describe(self, claim: Claim) -> str:
        """Returns the fields of a claim. Texts that repeat are redacted and escaped once; ids need neither."""
        known, tenant, key, attempt = self._known, claim.tenant, claim.definition.key, claim.attempt
        item = "null" if '"item_id"' not in claim.payload else orjson.dumps(item_id(claim, self._redact)).decode()
        return (
            f'"job_id":"{claim.job}","tenant_id":{known.get(tenant) or self._learn(tenant)},'
            f'"definition_key":{known.get(key) or self._learn(key)},"attempt_no":{attempt},'
            f'"worker_id":"{claim.worker}","item_id":{item},"attempt":{attempt}'
        )

    def _learn(self, text: str) -> str:
        if len(self._known) >= MOST_REMEMBERED:
            self._known.clear()
        self._known[text] = shown = orjson.dumps(self._redact(text)).decode()
        return shown

    def _put(self, lines: Sequence[str]) -> None:
        if lines:
            self._stream.write("".join(lines).encode())
            self._stream.flush()


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
