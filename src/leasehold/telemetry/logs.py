"""Listeners that log events: by structlog, through the processors of the program, or quickly as lines of JSON."""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import repeat
from time import gmtime, strftime, time_ns
from typing import Any, BinaryIO

import orjson

from leasehold.errors import InvalidInput
from leasehold.model.job import Claim
from leasehold.model.outcome import SUCCEEDED
from leasehold.telemetry.attempt_context import attempt_fields
from leasehold.telemetry.events import Event
from leasehold.telemetry.listeners import AttemptEnd, Listener
from leasehold.telemetry.log_lines import ITEM_FIELD, LEVELS, Line, item_id, line_of_claim, line_of_end, line_of_event

MOST_REMEMBERED = 10_000


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

    Texts that repeat are redacted and escaped once; ids need neither.
    """

    def __init__(self, logger: Any, stream: BinaryIO, redact: Callable[[str], str]) -> None:
        super().__init__(logger)
        self._stream = stream
        self._redact = redact
        self._tenants = _Texts(lambda tenant: f'","tenant_id":{self._shown(tenant)},"definition_key":')
        self._keys = _Texts(lambda key: f'{self._shown(key)},"attempt_no":')
        self._tries = _Texts(lambda of: _describe_try(of[0], of[1], "null"))

    def on_claims(self, claims: Sequence[Claim]) -> None:
        self._put("job_claimed", claims, repeat("}\n"))

    def on_ends(self, ends: Sequence[AttemptEnd]) -> None:
        claims, ends_of_lines = list[Claim](), list[str]()
        for claim, verdict, seconds, outcome in ends:
            if verdict is SUCCEEDED and seconds is not None:
                claims.append(claim)
                ends_of_lines.append(f',"duration_ms":{1000 * seconds:.3f}}}\n')
            else:
                self.write(line_of_end((claim, verdict, seconds, outcome)))
        if claims:
            self._put("job_completed", claims, ends_of_lines)

    def _put(self, event: str, claims: Sequence[Claim], ends_of_lines: Iterable[str]) -> None:
        """Writes a line for each claim. Adding whole texts in one expression takes a fifth of a µs for a line."""
        beginning = f'{{"event":"{event}","level":"info","timestamp":"{_now()}","job_id":"'
        tenants, keys, tries = self._tenants, self._keys, self._tries
        lines = [
            f"{beginning}{claim.job}{tenants[claim.tenant]}{keys[claim.definition.key]}"
            f"{tries[claim.attempt, claim.worker] if ITEM_FIELD not in claim.payload else self._with_item(claim)}"
            f"{end}"
            for claim, end in zip(claims, ends_of_lines, strict=False)
        ]
        self._stream.write("".join(lines).encode())
        self._stream.flush()

    def _with_item(self, claim: Claim) -> str:
        return _describe_try(claim.attempt, claim.worker, orjson.dumps(item_id(claim, self._redact)).decode())

    def _shown(self, text: str) -> str:
        return orjson.dumps(self._redact(text)).decode()


class _Texts(dict[Any, Any]):
    """Makes what is missing, and remembers so many."""

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self._make = make

    def __missing__(self, key: Any) -> Any:
        if len(self) >= MOST_REMEMBERED:
            self.clear()
        made = self[key] = self._make(key)
        return made


def _describe_try(number: int, worker: str, item: str) -> str:
    return f'{number},"worker_id":"{worker}","item_id":{item},"attempt":{number}'


def _now() -> str:
    """Returns what structlog renders, in a third of the time: two lines of a second differ in their end only."""
    seconds, nanoseconds = divmod(time_ns(), 1_000_000_000)
    return f"{_second(seconds)}{nanoseconds // 1000:06d}Z"


@lru_cache(maxsize=2)
def _second(seconds: int) -> str:
    return strftime("%Y-%m-%dT%H:%M:%S.", gmtime(seconds))
