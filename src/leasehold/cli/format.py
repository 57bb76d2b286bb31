"""How the command line writes states, times and tries: symbols, colours and short phrases."""

from datetime import UTC, datetime

from leasehold.model.duration import span
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
    """Returns the end of an id: its beginning is a time, which neighbours share."""
    return identity[-SHORT_ID:]


def ago(moment: datetime, now: datetime) -> str:
    """`12s ago`, `3m ago`, `5d ago`; `just now` if the server's clock is a little ahead of ours."""
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
    """`2/5`: the tries so far, of those that are allowed."""
    return f"{job.tries}/{job.max_attempts}"
