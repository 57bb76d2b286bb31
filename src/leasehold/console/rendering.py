"""Renders templates: Jinja2 with escaping of everything, and how values are written."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from shlex import quote
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from leasehold.config import VERSION, process_redactor
from leasehold.console.segments import segment_of
from leasehold.console.static_files import StaticFiles
from leasehold.model.duration import span, spell
from leasehold.model.status import DisplayState
from leasehold.operations import views

THEMES = ("auto", "light", "dark")
THEME = "leasehold-theme"
_TITLES = {
    DisplayState.BLOCKED: "Blocked",
    DisplayState.SCHEDULED: "Scheduled",
    DisplayState.RETRYING: "Retrying",
    DisplayState.READY: "Ready",
    DisplayState.RUNNING: "Running",
    DisplayState.SUCCEEDED: "Succeeded",
    DisplayState.FAILED: "Failed",
    DisplayState.CANCELED: "Canceled",
    DisplayState.DEAD_LETTER: "Dead letter",
}


class Renderer:
    """Renders the templates of the console. All values are escaped, also those of attributes."""

    def __init__(self, files: StaticFiles) -> None:
        self._files = files
        self._environment = Environment(
            loader=PackageLoader("leasehold.console"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters |= {
            "span": span,
            "iso": iso,
            "clock": clock,
            "ago": ago,
            "pretty": pretty,
            "visible": views.visible,
            "printable": views.printable,
            "compact": compact,
            "count": count_text,
            "redacted": lambda text: process_redactor().text(text),
            "redacted_document": lambda document: process_redactor().document(document),
            "segment": segment_of,
            "shell": quote,
            "sentence": sentence,
        }

    def answer(
        self,
        request: Request,
        template: str,
        facts: Mapping[str, Any],
        *,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        root = str(request.scope.get("root_path", "")).rstrip("/")
        theme = request.cookies.get(THEME, "auto")
        around = {
            "root": root,
            "static": f"{root}/static/{self._files.version}",
            "theme": theme if theme in THEMES else "auto",
            "now": datetime.now(UTC),
            "version": VERSION,
            "visit": None,
            "here": request.url.path + (f"?{request.url.query}" if request.url.query else ""),
        }
        text = self._environment.get_template(template).render({**around, **facts})
        return HTMLResponse(text, status, dict(headers or {}))


def state_title(state: DisplayState) -> str:
    return _TITLES[state]


def iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def clock(moment: datetime) -> str:
    """2026-11-18 14:03:22 UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def ago(moment: datetime, now: datetime) -> str:
    """`just now`, `4m ago`, `in 2h`: one unit is enough, since the whole moment stands in the title."""
    away = (now - moment).total_seconds()
    if abs(away) < 1:
        return "just now"
    text = _rough(timedelta(seconds=abs(away)))
    return f"{text} ago" if away > 0 else f"in {text}"


def _rough(length: timedelta) -> str:
    seconds = int(length.total_seconds())
    for unit, name in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= unit:
            return f"{seconds // unit}{name}"
    return f"{seconds}s"


def pretty(value: Any) -> str:
    """Writes a JSON document for people; control characters as pictures."""
    return views.printable(views.as_json(value, indented=True).decode())


def written(length: timedelta) -> str:
    """Writes a duration as people type it, and as it is read again: 20m, 30d, 1.5s."""
    seconds = length.total_seconds()
    return spell(length).replace(" ", "") if seconds.is_integer() else f"{seconds:f}".rstrip("0") + "s"


def compact(value: Any) -> str:
    """Writes a JSON document in one line."""
    return views.printable(views.as_json(value).decode())


def sentence(text: str) -> str:
    """Returns the text of an error as the beginning of a paragraph. A name that it begins with stays as it is."""
    first, _, _ = text.partition(" ")
    return text[:1].upper() + text[1:] if first.isalpha() else text


def count_text(number: int, cap: int) -> str:
    """`412`, `10 000+`: a count that has reached its cap says so."""
    return least_text(number, is_least=number >= cap)


def least_text(number: int, *, is_least: bool) -> str:
    """`412`, or `412+` if there may be more."""
    return f"{number:,}".replace(",", "\u202f") + ("+" if is_least else "")
