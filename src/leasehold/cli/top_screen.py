"""The screen of `leasehold top`: totals, and tables of definitions, tenants and workers that fit the terminal.

leasehold top · 14:03:22 UTC · rates of the last 60 s
12 ready · 8 running of 20 slots · 2 workers · 41 enqueued/s · 40 done/s  ▁▂▅▇▆
0.5 failed tries/s · 0 gave up/s

DEFINITION     READY  RUNNING  DONE/S  FAILED TRIES/S  GAVE UP/S  WORKERS
develop-photo     12        6      31             0.5          0        2
"""

from collections import deque
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from leasehold.cli.format import ago, short, time_of_day
from leasehold.cli.tables import Cell, laid_out
from leasehold.control.protocol import Document
from leasehold.errors import LeaseholdError
from leasehold.operations.views import format_count, printable, visible

OF_JOBS = ["READY", "RUNNING", "DONE/S", "FAILED TRIES/S", "GAVE UP/S"]
OF_WORKERS = ["WORKER", "HOST:PID", "STATE", "RUNNING", "SLOTS", "SEEN", "WAKES", "SERVES"]
BARS = "▁▂▃▄▅▆▇█"
BARS_SHOWN = 30
# The title, two lines of totals, and for each of three tables an empty line, a heading and a line for the rest.
LINES_BESIDE_ROWS = 12
LEAST_ROWS = 1
_STYLES = {"live": "green", "late": "yellow", "stale": "red", "gone": "dim"}


class TopScreen:
    """Renders the latest look. It remembers the looks before: the rate of new jobs is a difference of two."""

    def __init__(self) -> None:
        self._found: Document = {}
        self._error: LeaseholdError | None = None
        self._enqueued_a_second: float | None = None
        self._done: deque[float] = deque(maxlen=BARS_SHOWN)

    def add(self, found: Document, error: LeaseholdError | None = None) -> None:
        self._error = error
        if error is not None:
            return
        if self._found:
            self._enqueued_a_second = _rate(self._found, found)
        self._found = found
        self._done.append(_done(found["totals"]) or 0.0)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in self.lines(options.max_width, options.height or console.height):
            line.truncate(options.max_width)
            yield line

    def lines(self, width: int, height: int | None) -> list[Text]:
        """Returns the whole screen. Tables are cut so that all of them fit the height; None: all rows are shown."""
        found = self._found
        tables = [
            (["DEFINITION", *OF_JOBS, "WORKERS"], [_definition(row) for row in found["definitions"]]),
            (["TENANT", *OF_JOBS, ""], [_tenant(row) for row in found["tenants"]]),
            (OF_WORKERS, [_worker(row, found["now"]) for row in found["workers"]]),
        ]
        hidden = [found["more_definitions"], found["more_tenants"], 0]
        rooms = shares(height and height - LINES_BESIDE_ROWS, [len(rows) for _, rows in tables])
        lines = self._head()
        for (columns, rows), room, more in zip(tables, rooms, hidden, strict=True):
            lines += [Text(), *laid_out(columns, rows[:room], width)]
            if left := len(rows) - room + more:
                lines.append(Text(f"+ {left:,} more", style="dim"))
        return lines

    def _head(self) -> list[Text]:
        found, totals = self._found, self._found["totals"]
        title = Text.assemble(("leasehold top", "bold"), f" · {time_of_day(_moment(found['now']))} UTC")
        if found["since"] is None:
            title.append(" · this engine keeps no rates", style="dim")
        else:
            seconds = (_moment(found["now"]) - _moment(found["since"])).total_seconds()
            title.append(f" · rates of the last {seconds:.3g} s", style="dim")
        if not found["is_whole"]:
            title.append(" · there are more jobs than were counted", style="yellow")
        if self._error is not None:
            title.append(f" · {printable(str(self._error).splitlines()[0])}", style="bold red")
        return [title, self._load(totals), self._ends(totals)]

    def _load(self, totals: Document) -> Text:
        of_slots = f"{totals['running']:,} running of {format_count(totals['slots'], 'slot')}"
        parts = [f"{totals['ready']:,} ready", of_slots, format_count(totals["workers"], "worker")]
        line = Text(" · ".join(parts))
        if not totals["workers"]:
            line.stylize("bold red")
        return line

    def _ends(self, totals: Document) -> Text:
        parts = [
            f"{number(self._enqueued_a_second)} enqueued/s",
            f"{number(_done(totals))} done/s",
            f"{number(totals['failed_tries'])} failed tries/s",
            f"{number(_gave_up(totals))} gave up/s",
        ]
        return Text.assemble(" · ".join(parts), (f"  {bars(self._done)}", "cyan"))


def _definition(row: Document) -> list[Cell]:
    workers = Text(str(row["workers"]), style="" if row["workers"] else "bold red")
    return [visible(row["key"]), *_of_jobs(row), _with_pause(workers, row)]


def _tenant(row: Document) -> list[Cell]:
    return [visible(row["key"]), *_of_jobs(row), _with_pause(Text(), row)]


def _with_pause(text: Text, row: Document) -> Text:
    why = row["paused_because"]
    return text if why is None else text.append(f" paused: {visible(why)}".lstrip(), style="yellow")


def _of_jobs(row: Document) -> list[Cell]:
    rates = [_done(row), row["failed_tries"], _gave_up(row)]
    texts = [f"{row['ready']:,}", f"{row['running']:,}", *map(number, rates)]
    alarming = [False, False, False, bool(rates[1]), bool(rates[2])]
    return [
        Text(text.rjust(len(title)), style="red" if alarms else "")
        for text, title, alarms in zip(texts, OF_JOBS, alarming, strict=True)
    ]


def _worker(row: Document, now: str) -> list[Cell]:
    state, listens = row["state"], row["listens"]
    return [
        short(row["id"]),
        visible(f"{row['host']}:{row['pid']}"),
        Text(state, style=_STYLES.get(state, "")),
        f"{row['running']:,}".rjust(7),
        f"{row['slots']:,}".rjust(5),
        ago(_moment(row["last_seen_at"]), _moment(now)),
        "–" if listens is None else "listens" if listens else "polls",
        visible(", ".join(row["definitions"])),
    ]


def shares(room: int | None, wanted: Sequence[int]) -> list[int]:
    """Divides lines among tables: each gets what it wants if all fit, else an even share of what others leave."""
    if room is None or sum(wanted) <= room:
        return list(wanted)
    given, left = [0] * len(wanted), room
    for rank, place in enumerate(sorted(range(len(wanted)), key=wanted.__getitem__)):
        given[place] = min(wanted[place], max(LEAST_ROWS, left // (len(wanted) - rank)))
        left -= given[place]
    return given


def number(rate: float | None) -> str:
    if rate is None:
        return "–"
    return f"{rate:,.0f}" if rate >= 10 or rate == int(rate) else f"{rate:.2g}"


def bars(rates: Sequence[float]) -> str:
    """Draws rates as bars of one line, the highest as high as the line."""
    most = max(rates, default=0.0)
    if not most:
        return ""
    return "".join(BARS[round(rate / most * (len(BARS) - 1))] for rate in rates)


def _done(row: Document) -> float | None:
    rate: float | None = row["succeeded"]
    return rate


def _gave_up(row: Document) -> float | None:
    return None if row["failed"] is None else row["failed"] + row["dead_letter"]


def _rate(before: Document, now: Document) -> float | None:
    if before["enqueued"] is None or now["enqueued"] is None:
        return None
    seconds = (_moment(now["now"]) - _moment(before["now"])).total_seconds()
    return max(0, now["enqueued"] - before["enqueued"]) / seconds if seconds > 0 else None


def _moment(text: Any) -> datetime:
    return datetime.fromisoformat(text)
