"""How times, states and errors read to people. Values in, words out."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from leasehold.model.hidden import escaped
from leasehold.model.job import JobRecord
from leasehold.model.status import AttemptStatus, DisplayState

SYMBOLS = {
    DisplayState.BLOCKED: "⏸",
    DisplayState.SCHEDULED: "◷",
    DisplayState.RETRYING: "↻",
    DisplayState.READY: "▷",
    DisplayState.RUNNING: "◐",
    DisplayState.SUCCEEDED: "✓",
    DisplayState.FAILED: "✕",
    DisplayState.CANCELED: "⊘",
    DisplayState.DEAD_LETTER: "✕",
}
STYLES = {
    DisplayState.BLOCKED: "dim",
    DisplayState.SCHEDULED: "dim",
    DisplayState.RETRYING: "yellow",
    DisplayState.READY: "blue",
    DisplayState.RUNNING: "cyan",
    DisplayState.SUCCEEDED: "green",
    DisplayState.FAILED: "red",
    DisplayState.CANCELED: "magenta",
    DisplayState.DEAD_LETTER: "bold red",
}
ATTEMPT_STYLES = {
    AttemptStatus.RUNNING: "cyan",
    AttemptStatus.SUCCEEDED: "green",
    AttemptStatus.FAILED: "red",
    AttemptStatus.TIMEOUT: "red",
    AttemptStatus.CRASHED: "red",
    AttemptStatus.CANCELED: "magenta",
    AttemptStatus.SNOOZED: "dim",
    AttemptStatus.GIVEN_BACK: "dim",
}
SHORT_ID = 8


def utc_now() -> datetime:
    return datetime.now(UTC)


def short(identity: str) -> str:
    """The end of an id: its beginning is a time, which neighbours share."""
    return identity[-SHORT_ID:]


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def span(length: timedelta) -> str:
    """`9 ms`, `0.8 s`, `42 s`, `2m 40s`, `3h 5m`, `2d 4h`."""
    seconds = max(length.total_seconds(), 0)
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for big, name, small, lesser in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= big:
            rest = whole % big // small
            return f"{whole // big}{name}" + (f" {rest}{lesser}" if rest else "")
    return f"{whole} s"


def ago(moment: datetime, now: datetime) -> str:
    """`12s ago`, `3m ago`, `5d ago`. A clock that is a little ahead of ours makes nothing lie in the future."""
    seconds = int((now - moment).total_seconds())
    for size, name in ((86400, "d"), (3600, "h"), (60, "m"), (1, "s")):
        if seconds >= size:
            return f"{seconds // size}{name} ago"
    return "just now"


def relative(moment: datetime, now: datetime) -> str:
    return f"in {span(moment - now)}" if moment > now else ago(moment, now)


def at(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def time_of_day(moment: datetime | None) -> str:
    return f"{moment.astimezone(UTC):%H:%M:%S}" if moment else "--:--:--"


def tries(job: JobRecord) -> str:
    """Tries of the allowed ones."""
    return f"{job.tries}/{job.max_attempts}"


def error_of(code: str | None, message: str | None) -> str:
    return ": ".join(part for part in (code, message) if part)


def why(job: JobRecord, now: datetime, held_by: Sequence[str] = ()) -> str:
    """Says in one line what people ask next about a job in this state; `held_by` are the reasons of a ready job."""
    error = first_line(error_of(job.last_error_code, job.last_error))
    match job.display:
        case DisplayState.SCHEDULED:
            return f"due in {span(job.scheduled_for - now)}"
        case DisplayState.RETRYING:
            return f"due in {span(job.scheduled_for - now)}" + (f", after {error}" if error else "")
        case DisplayState.READY:
            return ("; ".join(held_by) or "waits for a free slot") + (f", after {error}" if error else "")
        case DisplayState.RUNNING if job.started_at:
            asked = ", asked to stop" if job.cancel_requested_at else ""
            return f"for {span(now - job.started_at)}{asked}"
        case DisplayState.SUCCEEDED if job.started_at and job.finished_at:
            return f"took {span(job.finished_at - job.started_at)}"
    return error


def first_line(text: str) -> str:
    first, _, rest = text.strip().partition("\n")
    return f"{first} …" if rest.strip() else first


def printable(text: str) -> str:
    """With pictures for control characters: what a handler said must not move a terminal's cursor, or title it."""
    return text.translate(_PICTURES)


def visible(name: str) -> str:
    """Writes characters of an id or a key that people can't see as \\u200b, line breaks among them."""
    return escaped(printable(name))


_PICTURES = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"} | {
    0x7F: 0x2421,
    **dict.fromkeys(range(0x80, 0xA0), 0xFFFD),
}
