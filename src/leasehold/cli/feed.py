"""What `leasehold dev` shows: which events are news, and each as a line for people, as logfmt, or as JSON.

14:00:41 ▷ 6f46a1d8 sync_folder acme  queued
14:00:41 ◐ 6f46a1d8 sync_folder acme  started after 9 ms
14:00:42 │ 6f46a1d8 syncing / for acme
14:00:42 ✓ 6f46a1d8 sync_folder acme  0.8 s
14:03:10 ✕ 9c1e77b0 sync_folder acme  TimeoutError: GET … (attempt 1/5, again in 30 s)
           app.py:14 in fetch
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Literal

import orjson
from rich.text import Text

from leasehold.cli.words import STYLES, SYMBOLS, counted, error_of, first_line, printable, short, span
from leasehold.model.job import JobId, JobRecord, LineKind, Source, TenantId
from leasehold.model.status import AttemptStatus, DisplayState, Status
from leasehold.telemetry import (
    DefinitionChanged,
    Event,
    Happened,
    JobDiscarded,
    JobEnded,
    JobGivenBack,
    JobReclaimed,
    JobSaid,
    JobStarted,
    WorkerJoined,
)

REMEMBERED = 10_000
LEAST_OF_AN_ERROR = 40
BELOW_A_SYMBOL = " " * len("14:00:41 ✕ ")


# What happens around the workers, beside what they tell themselves


@dataclass(frozen=True, slots=True, kw_only=True)
class JobQueued(Happened):
    """Seen in the database. `due_in`: how long after its enqueue it is due."""

    event: Literal["job.queued"] = "job.queued"
    tenant: TenantId
    job: JobId
    definition: str
    state: DisplayState
    due_in: float
    source: Source | None
    created_by: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerKilled(Happened):
    event: Literal["worker.killed"] = "worker.killed"
    pid: int
    running: int


class Topic(StrEnum):
    """What the supervisor speaks of. First the checklist of a start, then what comes up later."""

    APP = "app"
    DATABASE = "database"
    MIGRATIONS = "migrations"
    WORKER = "worker"
    WATCHING = "watching"
    CHANGED = "changed"
    READY = "ready"
    BROKEN = "broken"
    NO_JOBS = "no_jobs"
    ENDED = "ended"
    STOPPING = "stopping"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class DevSaid(Happened):
    event: Literal["dev.said"] = "dev.said"
    topic: Topic
    text: str


News = Event | JobQueued | WorkerKilled | DevSaid


class Feed:
    """Which of what is heard and seen is news, in an order that makes sense: queued comes before started."""

    def __init__(self) -> None:
        self._due_in: dict[tuple[TenantId, JobId], float] = {}

    def know(self, jobs: Iterable[JobRecord]) -> None:
        """These were there before: they are no news."""
        for job in jobs:
            self._remember(job.tenant, job.id, (job.scheduled_for - job.queued_at).total_seconds())

    def seen(self, jobs: Iterable[JobRecord]) -> Iterator[News]:
        """Jobs as the database lists them, newest first."""
        fresh = [job for job in jobs if (job.tenant, job.id) not in self._due_in]
        for job in reversed(fresh):
            self.know([job])
            yield _queued(job)

    def heard(self, event: Event) -> Iterator[News]:
        """Who was faster than our look at the database is announced now. Who was scheduled waited from then on."""
        if isinstance(event, JobStarted):
            place = (event.tenant, event.job)
            if place not in self._due_in:
                self._remember(*place, 0.0)
                if event.attempt == 1:
                    yield _queued_before(event)
            if event.waited is not None:
                event = replace(event, waited=max(0.0, event.waited - max(0.0, self._due_in[place])))
        yield event

    def _remember(self, tenant: TenantId, job: JobId, due_in: float) -> None:
        self._due_in[tenant, job] = due_in
        if len(self._due_in) > REMEMBERED:
            del self._due_in[next(iter(self._due_in))]


def _queued(job: JobRecord) -> JobQueued:
    """What has been claimed meanwhile was ready once."""
    return JobQueued(
        at=job.queued_at,
        tenant=job.tenant,
        job=job.id,
        definition=job.definition,
        state=job.display if job.status in (Status.QUEUED, Status.BLOCKED) else DisplayState.READY,
        due_in=max(0.0, (job.scheduled_for - job.queued_at).total_seconds()),
        source=job.source,
        created_by=job.created_by,
    )


def _queued_before(started: JobStarted) -> JobQueued:
    return JobQueued(
        at=started.queued_at,
        tenant=started.tenant,
        job=started.job,
        definition=started.definition,
        state=DisplayState.READY,
        due_in=0.0,
        source=None,
        created_by=None,
    )


# For people


@dataclass(frozen=True, slots=True)
class Words:
    """A symbol, its colour, and what to say; of an error as much as there is room for, and then what follows it."""

    symbol: str
    style: str
    text: str
    error: str = ""
    after: str = ""


class Lines:
    """News as lines for people. Columns become as wide as what they have held."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._definition = self._tenant = 0

    def of(self, news: News) -> Text | None:
        """None: nothing that people need to be told."""
        match news:
            case DevSaid():
                return _said(news)
            case WorkerKilled():
                killed = f"killed worker {news.pid} ({counted(news.running, 'job')} running)"
                return Text.assemble(_time(news.at), ("☠ ", "bold red"), killed)
            case DefinitionChanged(created=False):
                return Text.assemble(_time(news.at), ("≠ ", "yellow"), printable(news.text))
            case JobSaid():
                return Text.assemble(_time(news.at), ("│ ", "dim"), (f"{short(news.job)} ", "dim"), _spoken(news))
            case JobQueued() | JobStarted() | JobEnded() | JobGivenBack() | JobDiscarded() | JobReclaimed():
                return self._of_job(news, words_of(news))
            case WorkerJoined():
                self._definition = max(self._definition, *map(len, news.definitions), 0)
        return None

    def _of_job(
        self, news: JobQueued | JobStarted | JobEnded | JobGivenBack | JobDiscarded | JobReclaimed, words: Words
    ) -> Text:
        definition, tenant = printable(news.definition), printable(news.tenant)
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


def words_of(news: JobQueued | JobStarted | JobEnded | JobGivenBack | JobDiscarded | JobReclaimed) -> Words:
    match news:
        case JobQueued(state=DisplayState.SCHEDULED):
            return _words(DisplayState.SCHEDULED, f"scheduled, in {_span(news.due_in)}{_by(news)}")
        case JobQueued(state=DisplayState.BLOCKED):
            return _words(DisplayState.BLOCKED, f"waits for other jobs{_by(news)}")
        case JobQueued():
            return _words(DisplayState.READY, f"queued{_by(news)}")
        case JobStarted():
            after = "" if news.waited is None else f" after {_span(news.waited)}"
            again = f" (attempt {news.execution}/{news.max_attempts})" if news.execution > 1 else ""
            return _words(DisplayState.RUNNING, f"started{after}", after=again)
        case JobGivenBack():
            return _words(DisplayState.READY, "given back", after=", its worker stops; the attempt costs nothing")
        case JobDiscarded():
            return Words(
                "!", "yellow", "discarded", after=": its lease was lost, it is somebody else's now (LH-4001)"
            )
        case JobReclaimed():
            return _reclaimed(news)
        case JobEnded():
            return _ended(news)


def _ended(news: JobEnded) -> Words:
    code = None if news.error_code == "Fail" else news.error_code  # it says no more than the state does
    error = printable(first_line(error_of(code, news.error)))
    match news.status, news.attempt_status:
        case Status.SUCCEEDED, _:
            return _words(DisplayState.SUCCEEDED, _span(news.seconds or 0.0))
        case Status.CANCELED, _:
            return _words(DisplayState.CANCELED, "canceled")
        case Status.QUEUED, AttemptStatus.SNOOZED:
            return _words(DisplayState.SCHEDULED, f"snoozed, again in {_span(news.retry_in or 0.0)}")
        case Status.QUEUED, _:
            after = f" ({_attempt(news)}, again in {_span(news.retry_in or 0.0)})"
            return Words(SYMBOLS[DisplayState.FAILED], STYLES[DisplayState.RETRYING], "", error, after)
        case Status.DEAD_LETTER, _:
            return _words(DisplayState.DEAD_LETTER, "dead letter: ", error, f" ({_attempt(news)})")
    return _words(DisplayState.FAILED, "failed: ", error)


def _reclaimed(news: JobReclaimed) -> Words:
    if news.status is Status.QUEUED:
        again = f", again in {_span(news.retry_in or 0.0)}"
        return _words(DisplayState.RETRYING, "reclaimed: its worker died", after=f" ({_attempt(news)}{again})")
    state = DisplayState[news.status.name]
    return _words(state, f"reclaimed: its worker died; {state}", after=f" ({_attempt(news)})")


def _words(state: DisplayState, text: str, error: str = "", after: str = "") -> Words:
    return Words(SYMBOLS[state], STYLES[state], text, error, after)


def _attempt(news: JobEnded | JobReclaimed) -> str:
    return f"attempt {news.execution}/{news.max_attempts}"


def _by(news: JobQueued) -> str:
    if news.created_by:
        return f" by {printable(news.created_by)}"
    return f" by {news.source}" if news.source not in (None, Source.MANUAL) else ""


def _span(seconds: float) -> str:
    return span(timedelta(seconds=seconds))


def _time(moment: datetime) -> tuple[str, str]:
    """On the wall of whoever looks."""
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
    Topic.STOPPING: ("·", "dim"),
    Topic.STOPPED: ("✓", "green"),
}


def _said(news: DevSaid) -> Text:
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
    """`at=… event=… job=…`: for logs. What is unknown is left out."""
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
