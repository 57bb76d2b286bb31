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

from leasehold.cli.format import STYLES, SYMBOLS, short
from leasehold.cli.news import DevMessage, JobChanged, JobQueued, JobsCounted, News, OfOneJob, Topic, WorkerKilled
from leasehold.model.job import LineKind, Source
from leasehold.model.status import AttemptStatus, DisplayState, Status
from leasehold.operations.views import counted, error_of, first_line, printable, span, visible
from leasehold.telemetry import (
    DefinitionChanged,
    JobDiscarded,
    JobEnded,
    JobGivenBack,
    JobReclaimed,
    JobSaid,
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

    def of(self, news: News) -> Text | None:
        """Returns None for an event that people don't need to see."""
        match news:
            case DevMessage():
                return _said(news)
            case WorkerKilled():
                killed = f"killed worker {news.pid} ({counted(news.running, 'job')} running)"
                return Text.assemble(_time(news.at), ("☠ ", "bold red"), killed)
            case DefinitionChanged(created=False):
                return Text.assemble(_time(news.at), ("≠ ", "yellow"), printable(news.text))
            case JobSaid():
                return Text.assemble(_time(news.at), ("│ ", "dim"), (f"{short(news.job)} ", "dim"), _spoken(news))
            case JobsCounted():
                return Text.assemble(_time(news.at), ("≡ ", "bold"), printable(news.text))
            case (
                JobQueued()
                | JobChanged()
                | JobStarted()
                | JobEnded()
                | JobGivenBack()
                | JobDiscarded()
                | JobReclaimed()
            ):
                return self._of_job(news, words_of(news))
            case WorkerJoined():
                self._definition = max(self._definition, *map(len, news.definitions), 0)
        return None

    def _of_job(self, news: OfOneJob, words: Words) -> Text:
        definition, tenant = visible(news.definition), visible(news.tenant)
        self._definition = max(self._definition, len(definition))
        self._tenant = max(self._tenant, len(tenant))
        line = Text.assemble(
            _time(news.at),
            (f"{words.symbol} ", words.style),
            (f"{short(news.job)} ", "dim"),
            (f"{definition:<{self._definition}} {tenant:<{self._tenant}}  ", ""),
            (words.text, words.style),
        )
        room = max(LEAST_OF_AN_ERROR, self._width - line.cell_len - len(words.after))
        line.append(_shortened(words.error, room))
        line.append(words.after, style="dim")
        if isinstance(news, JobEnded) and news.where:
            line.append(f"\n{BELOW_A_SYMBOL}{printable(news.where)}", style="dim")
        return line


def words_of(news: OfOneJob) -> Words:
    match news:
        case JobSaid():
            return Words("│", "dim", _spoken(news))
        case JobChanged():
            return _changed(news)
        case JobQueued(state=DisplayState.SCHEDULED):
            return _words(DisplayState.SCHEDULED, f"scheduled, in {_span(news.due_in)}{_by(news)}")
        case JobQueued(state=DisplayState.BLOCKED):
            return _words(DisplayState.BLOCKED, f"waits for other jobs{_by(news)}")
        case JobQueued():
            return _words(DisplayState.READY, f"queued{_by(news)}")
        case JobStarted():
            after = "" if news.waited is None else f" after {_span(news.waited)}"
            again = f" (try {news.tries}/{news.max_attempts})" if news.tries > 1 else ""
            return _words(DisplayState.RUNNING, f"started{after}", after=again)
        case JobGivenBack():
            return _words(DisplayState.READY, "given back", after=", its worker stops; no try is used")
        case JobDiscarded():
            return Words(
                "!", "yellow", "discarded", after=": its lease was lost, it is somebody else's now (LH-4001)"
            )
        case JobReclaimed():
            return _reclaimed(news)
        case JobEnded():
            return _ended(news)


def _ended(news: JobEnded) -> Words:
    code = None if news.error_code == "Fail" else news.error_code  # the state says the same
    error = printable(first_line(error_of(code, news.error)))
    match news.status, news.attempt_status:
        case Status.SUCCEEDED, _:
            return _words(DisplayState.SUCCEEDED, _span(news.seconds or 0.0))
        case Status.CANCELED, _:
            return _words(DisplayState.CANCELED, "canceled")
        case Status.QUEUED, AttemptStatus.SNOOZED:
            return _words(DisplayState.SCHEDULED, f"snoozed, again in {_span(news.retry_in or 0.0)}")
        case Status.QUEUED, _:
            after = f" ({_try(news)}, again in {_span(news.retry_in or 0.0)})"
            return Words(SYMBOLS[DisplayState.FAILED], STYLES[DisplayState.RETRYING], "", error, after)
        case Status.DEAD_LETTER, _:
            return _words(DisplayState.DEAD_LETTER, "dead letter: ", error, f" ({_try(news)})")
    return _words(DisplayState.FAILED, "failed: ", error)


def _changed(news: JobChanged) -> Words:
    """Describes a change by a worker that is not ours, or by a person."""
    error = printable(first_line(error_of(news.error_code, news.error)))
    on_worker = f" on worker {short(news.worker)}" if news.worker else ""
    match news.state:
        case DisplayState.RUNNING:
            again = f" ({_try(news)})" if news.tries > 1 else ""
            return _words(news.state, f"started{on_worker}", after=again)
        case DisplayState.SUCCEEDED:
            return _words(news.state, "succeeded" if news.seconds is None else _span(news.seconds), after=on_worker)
        case DisplayState.CANCELED:
            return _words(news.state, "canceled", after=on_worker)
        case DisplayState.FAILED | DisplayState.DEAD_LETTER:
            return _words(news.state, f"{news.state}: ", error, f" ({_try(news)}){on_worker}")
        case _:
            when = "" if news.retry_in is None else f", again in {_span(news.retry_in)}"
            return _words(news.state, "waits again: " if error else "waits again", error, f" ({_try(news)}{when})")


def _reclaimed(news: JobReclaimed) -> Words:
    if news.status is Status.QUEUED:
        again = f", again in {_span(news.retry_in or 0.0)}"
        return _words(DisplayState.RETRYING, "reclaimed: its worker died", after=f" ({_try(news)}{again})")
    state = DisplayState[news.status.name]
    return _words(state, f"reclaimed: its worker died; {state}", after=f" ({_try(news)})")


def _words(state: DisplayState, text: str, error: str = "", after: str = "") -> Words:
    return Words(SYMBOLS[state], STYLES[state], text, error, after)


def _try(news: JobChanged | JobEnded | JobReclaimed) -> str:
    return f"try {news.tries}/{news.max_attempts}"


def _by(news: JobQueued) -> str:
    if news.created_by:
        return f" by {visible(news.created_by)}"
    return f" by {news.source}" if news.source not in (None, Source.MANUAL) else ""


def _span(seconds: float) -> str:
    return span(timedelta(seconds=seconds))


def _time(moment: datetime) -> tuple[str, str]:
    """Returns the local time of day."""
    return f"{moment.astimezone():%H:%M:%S} ", "dim"


def _spoken(news: JobSaid) -> str:
    if news.kind is LineKind.PROGRESS and news.progress is not None:
        return printable(f"{news.progress:>4.0%} {news.text}".rstrip())
    return printable(news.text)


def _shortened(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 1] + "…"


_CHECKED = (Topic.DATABASE, Topic.MIGRATIONS, Topic.WORKER)
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


def _said(news: DevMessage) -> Text:
    text = printable(news.text)
    if news.topic in _CHECKED:
        return Text.assemble(("  ✓ ", "green"), f"{news.topic:<11} ", text)
    if news.topic is Topic.APP:
        return Text.assemble("  ", (text, "bold"))
    if news.topic is Topic.WATCHING:
        return Text.assemble("  ", (text, "dim"), "\n")
    symbol, style = _MARKS[news.topic]
    return Text.assemble(_time(news.at), (f"{symbol} ", style), text)


# For machines


def logfmt(news: News) -> str:
    """Writes `at=… event=… job=…`, for logs, without unknown values."""
    found = {field.name: getattr(news, field.name) for field in fields(news)}
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
