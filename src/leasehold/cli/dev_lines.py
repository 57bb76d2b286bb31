"""Shows the events of `leasehold dev`: each as a line for people, or as logfmt.

14:00:41 ▷ 6f46a1d8 sync_folder acme  queued
14:00:41 ◐ 6f46a1d8 sync_folder acme  started after 9 ms
14:00:42 │ 6f46a1d8 syncing / for acme
14:00:42 ✓ 6f46a1d8 sync_folder acme  0.8 s
14:03:10 ✕ 9c1e77b0 sync_folder acme  TimeoutError: GET … (try 1/5, again in 30 s)
           app.py:14 in fetch
"""

from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any

import orjson
from rich.text import Text

from leasehold.cli.dev_events import (
    DevEvent,
    DevMessage,
    JobChanged,
    JobQueued,
    JobsCounted,
    SingleJobEvent,
    Topic,
    WorkerKilled,
)
from leasehold.cli.format import STYLES, SYMBOLS, short
from leasehold.model.duration import span
from leasehold.model.job import LineKind, Source
from leasehold.model.status import AttemptStatus, DisplayState, Status
from leasehold.operations.views import error_of, first_line, format_count, printable, visible
from leasehold.telemetry import (
    DefinitionChanged,
    DefinitionUnavailable,
    JobDiscarded,
    JobEnded,
    JobGivenBack,
    JobLogged,
    JobReclaimed,
    JobStarted,
    WorkerJoined,
)

LEAST_OF_AN_ERROR = 40
BELOW_A_SYMBOL = " " * len("14:00:41 ✕ ")


# For people


@dataclass(frozen=True, slots=True)
class Words:
    """A symbol, its colour, a text, an error that is cut to fit the line, and the text after it."""

    symbol: str
    style: str
    text: str
    error: str = ""
    after: str = ""


class Lines:
    """Makes lines for people. Columns become as wide as their widest value so far."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._definition = self._tenant = 0

    def of(self, event: DevEvent) -> Text | None:
        """Returns None for an event that people don't need to see."""
        match event:
            case DevMessage():
                return _message_line(event)
            case WorkerKilled():
                killed = f"killed worker {event.pid} ({format_count(event.running, 'job')} running)"
                return Text.assemble(_time(event.at), ("☠ ", "bold red"), killed)
            case DefinitionChanged(created=False):
                return Text.assemble(_time(event.at), ("≠ ", "yellow"), printable(event.text))
            case DefinitionUnavailable():
                why = printable(f"{event.definition} is not served: {event.why}")
                return Text.assemble(_time(event.at), ("! ", "yellow"), why)
            case JobLogged():
                job = (f"{short(event.job)} ", "dim")
                return Text.assemble(_time(event.at), ("│ ", "dim"), job, _log_text(event))
            case JobsCounted():
                return Text.assemble(_time(event.at), ("≡ ", "bold"), printable(event.text))
            case (
                JobQueued()
                | JobChanged()
                | JobStarted()
                | JobEnded()
                | JobGivenBack()
                | JobDiscarded()
                | JobReclaimed()
            ):
                return self._of_job(event, words_of(event))
            case WorkerJoined():
                self._definition = max(self._definition, *map(len, event.definitions), 0)
        return None

    def _of_job(self, event: SingleJobEvent, words: Words) -> Text:
        definition, tenant = visible(event.definition), visible(event.tenant)
        self._definition = max(self._definition, len(definition))
        self._tenant = max(self._tenant, len(tenant))
        line = Text.assemble(
            _time(event.at),
            (f"{words.symbol} ", words.style),
            (f"{short(event.job)} ", "dim"),
            (f"{definition:<{self._definition}} {tenant:<{self._tenant}}  ", ""),
            (words.text, words.style),
        )
        room = max(LEAST_OF_AN_ERROR, self._width - line.cell_len - len(words.after))
        line.append(_shorten(words.error, room))
        line.append(words.after, style="dim")
        if isinstance(event, JobEnded) and event.where:
            line.append(f"\n{BELOW_A_SYMBOL}{printable(event.where)}", style="dim")
        return line


def words_of(event: SingleJobEvent) -> Words:
    match event:
        case JobLogged():
            return Words("│", "dim", _log_text(event))
        case JobChanged():
            return _words_of_change(event)
        case JobQueued(state=DisplayState.SCHEDULED):
            return _words(DisplayState.SCHEDULED, f"scheduled, in {_span(event.due_in)}{_by(event)}")
        case JobQueued(state=DisplayState.BLOCKED):
            return _words(DisplayState.BLOCKED, f"waits for other jobs{_by(event)}")
        case JobQueued():
            return _words(DisplayState.READY, f"queued{_by(event)}")
        case JobStarted():
            after = "" if event.waited is None else f" after {_span(event.waited)}"
            again = f" (try {event.tries}/{event.max_attempts})" if event.tries > 1 else ""
            return _words(DisplayState.RUNNING, f"started{after}", after=again)
        case JobGivenBack():
            return _words(DisplayState.READY, "given back", after=", its worker stops; no try is used")
        case JobDiscarded():
            return Words(
                "!", "yellow", "discarded", after=": its lease was lost, it is somebody else's now (LH-4001)"
            )
        case JobReclaimed():
            return _words_of_reclaim(event)
        case JobEnded():
            return _words_of_end(event)


def _words_of_end(event: JobEnded) -> Words:
    code = None if event.error_code == "Fail" else event.error_code  # the state says the same
    error = printable(first_line(error_of(code, event.error)))
    match event.status, event.attempt_status:
        case Status.SUCCEEDED, _:
            return _words(DisplayState.SUCCEEDED, _span(event.seconds or 0.0))
        case Status.CANCELED, _:
            return _words(DisplayState.CANCELED, "canceled")
        case Status.QUEUED, AttemptStatus.SNOOZED:
            return _words(DisplayState.SCHEDULED, f"snoozed, again in {_span(event.retry_in or 0.0)}")
        case Status.QUEUED, _:
            after = f" ({_try(event)}, again in {_span(event.retry_in or 0.0)})"
            return Words(SYMBOLS[DisplayState.FAILED], STYLES[DisplayState.RETRYING], "", error, after)
        case Status.DEAD_LETTER, _:
            return _words(DisplayState.DEAD_LETTER, "dead letter: ", error, f" ({_try(event)})")
    return _words(DisplayState.FAILED, "failed: ", error)


def _words_of_change(event: JobChanged) -> Words:
    """Describes a change by a worker that is not ours, or by a person."""
    error = printable(first_line(error_of(event.error_code, event.error)))
    on_worker = f" on worker {short(event.worker)}" if event.worker else ""
    match event.state:
        case DisplayState.RUNNING:
            again = f" ({_try(event)})" if event.tries > 1 else ""
            return _words(event.state, f"started{on_worker}", after=again)
        case DisplayState.SUCCEEDED:
            took = "succeeded" if event.seconds is None else _span(event.seconds)
            return _words(event.state, took, after=on_worker)
        case DisplayState.CANCELED:
            return _words(event.state, "canceled", after=on_worker)
        case DisplayState.FAILED | DisplayState.DEAD_LETTER:
            return _words(event.state, f"{event.state}: ", error, f" ({_try(event)}){on_worker}")
        case _:
            when = "" if event.retry_in is None else f", again in {_span(event.retry_in)}"
            return _words(event.state, "waits again: " if error else "waits again", error, f" ({_try(event)}{when})")


def _words_of_reclaim(event: JobReclaimed) -> Words:
    if event.status is Status.QUEUED:
        again = f", again in {_span(event.retry_in or 0.0)}"
        return _words(DisplayState.RETRYING, "reclaimed: its worker died", after=f" ({_try(event)}{again})")
    state = DisplayState[event.status.name]
    return _words(state, f"reclaimed: its worker died; {state}", after=f" ({_try(event)})")


def _words(state: DisplayState, text: str, error: str = "", after: str = "") -> Words:
    return Words(SYMBOLS[state], STYLES[state], text, error, after)


def _try(event: JobChanged | JobEnded | JobReclaimed) -> str:
    return f"try {event.tries}/{event.max_attempts}"


def _by(event: JobQueued) -> str:
    if event.created_by:
        return f" by {visible(event.created_by)}"
    return f" by {event.source}" if event.source not in (None, Source.MANUAL) else ""


def _span(seconds: float) -> str:
    return span(timedelta(seconds=seconds))


def _time(moment: datetime) -> tuple[str, str]:
    """Returns the local time of day."""
    return f"{moment.astimezone():%H:%M:%S} ", "dim"


def _log_text(event: JobLogged) -> str:
    if event.kind is LineKind.PROGRESS and event.progress is not None:
        return printable(f"{event.progress:>4.0%} {event.text}".rstrip())
    return printable(event.text)


def _shorten(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 1] + "…"


_CHECKED = (Topic.DATABASE, Topic.MIGRATIONS, Topic.WORKER, Topic.API, Topic.CONSOLE)
_MARKS = {
    Topic.CHANGED: ("↻", "yellow"),
    Topic.READY: ("✓", "green"),
    Topic.BROKEN: ("✕", "red"),
    Topic.NO_JOBS: ("!", "bold yellow"),
    Topic.ENDED: ("!", "yellow"),
    Topic.UNREADABLE: ("!", "yellow"),
    Topic.OTHER_DEV: ("!", "bold yellow"),
    Topic.STOPPING: ("·", "dim"),
    Topic.STOPPED: ("✓", "green"),
}


def _message_line(event: DevMessage) -> Text:
    text = printable(event.text)
    if event.topic in _CHECKED:
        return Text.assemble(("  ✓ ", "green"), f"{event.topic:<11} ", text)
    if event.topic is Topic.APP:
        return Text.assemble("  ", (text, "bold"))
    if event.topic is Topic.WATCHING:
        return Text.assemble("  ", (text, "dim"), "\n")
    symbol, style = _MARKS[event.topic]
    return Text.assemble(_time(event.at), (f"{symbol} ", style), text)


# For machines


def logfmt(event: DevEvent) -> str:
    """Writes `at=… event=… job=…`, for logs, without unknown values."""
    found = {field.name: getattr(event, field.name) for field in fields(event)}
    first = {"at": found.pop("at"), "event": found.pop("event")}
    return " ".join(f"{name}={_value(value)}" for name, value in (first | found).items() if value is not None)


def _value(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case datetime():
            return value.isoformat()
        case tuple():
            return _value(",".join(value))
    text = str(value)
    plain = text and text.isprintable() and not any(character in text for character in ' "=')
    return text if plain else orjson.dumps(text).decode()
