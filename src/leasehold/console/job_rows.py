"""Jobs as rows of a table."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from leasehold.api import shown
from leasehold.console.pages import Area, Visit
from leasehold.console.rendering import state_title
from leasehold.model.job import JobRecord
from leasehold.model.status import DisplayState, Status
from leasehold.operations import views

COLUMNS = {
    "state": "State",
    "job": "Job",
    "tenant": "Tenant",
    "id": "ID",
    "source": "Source",
    "tries": "Tries",
    "priority": "Priority",
    "queued": "Queued",
    "due": "Due",
    "started": "Started",
    "duration": "Duration",
    "finished": "Finished",
    "worker": "Worker",
    "correlation": "Correlation",
    "dedupe": "Dedupe key",
    "by": "Created by",
}
DEFAULT = ("state", "job", "id", "source", "tries", "queued", "started", "duration", "worker")
NUMBERS = frozenset({"tries", "priority", "duration"})
SHOWN_FIELDS = 3
LONGEST_VALUE = 40


@dataclass(frozen=True, slots=True)
class Row:
    """A job of a list."""

    job: JobRecord
    held_by: Sequence[str]
    href: str
    summary: str
    error: str

    @property
    def key(self) -> str:
        return f"{self.job.tenant}/{self.job.id}"

    @property
    def state(self) -> DisplayState:
        return self.job.display

    @property
    def title(self) -> str:
        if self.job.status is Status.RUNNING and self.job.cancel_requested_at:
            return "Canceling"
        return state_title(self.job.display)

    @property
    def hold(self) -> str:
        """The short reason why the job is held; empty if it is not."""
        return "; ".join(self.held_by)

    @property
    def short_id(self) -> str:
        """The end of the id: its beginning is the time, which jobs of one moment share."""
        return self.job.id[-8:]

    def duration(self, now: datetime) -> timedelta | None:
        if self.job.started_at is None or self.job.status in (Status.QUEUED, Status.BLOCKED):
            return None
        return max((self.job.finished_at or now) - self.job.started_at, timedelta())


def href_of(area: Area, job: JobRecord) -> str:
    whose = f"?{urlencode({'tenant': job.tenant})}" if area.tenant is None else ""
    return f"{area.base}/jobs/{job.id}{whose}"


def row_of(visit: Visit, job: JobRecord, held_by: Sequence[str] = ()) -> Row:
    document = shown.job(visit.context, job)
    error = ""
    if job.display in (DisplayState.RETRYING, DisplayState.FAILED, DisplayState.DEAD_LETTER):
        error = views.first_line(views.error_of(job.last_error_code, document["last_error"]))
    return Row(job, held_by, href_of(visit.area, job), summarize(document["payload"]), error)


def summarize(payload: Any) -> str:
    """Returns the first plain fields of a payload, which tell jobs of one definition apart."""
    if not isinstance(payload, Mapping):
        return ""
    plain = (
        (name, value)
        for name, value in payload.items()
        if value != "" and isinstance(value, str | int | float | bool)
    )
    return "  ".join(f"{name}={_shorten(value)}" for name, value in list(plain)[:SHOWN_FIELDS])


def _shorten(value: Any) -> str:
    text = " ".join(views.printable(str(value)).split())
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"


def read_columns(chosen: Iterable[str], *, all_tenants: bool) -> list[str]:
    """Returns the columns of a list, in their order; the defaults if none that exist were chosen."""
    wanted = set(known_columns(chosen)) or {*DEFAULT, *(["tenant"] if all_tenants else [])}
    return [name for name in COLUMNS if name in wanted | {"state", "job"}]


def known_columns(chosen: Iterable[str]) -> list[str]:
    """Returns the columns that exist, each once, however often an address names them."""
    named = set(chosen)
    return [name for name in COLUMNS if name in named]
