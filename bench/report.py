"""RESULTS.md: bars, all systems beside each other, costs, growth, and under which conditions."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.bars import AT_LEAST, Bar, bars, number
from bench.book import Book
from bench.measures.api import ALL as ALL_TENANTS
from bench.measures.api import LARGE, SMALL, Api, shown_measures
from bench.sizes import Sizes
from bench.systems import OURS, RAW

COLUMNS = (
    ("enqueue one by one /s", "enqueue"),
    ("bulk /s", "bulk"),
    ("drain /s", "drain"),
    ("latency p50 ms", "latency p50"),
    ("latency p99 ms", "latency p99"),
    ("idle statements/s", "idle"),
)
LESS_IS_BETTER = ("latency p50", "latency p99", "idle")
COSTS = (
    ("enqueue", "enqueue one by one"),
    ("bulk", "bulk"),
    ("drain", "drain"),
    ("latency p50", "one job, idle worker"),
)
SHORT_NAMES = {Api.name: "the HTTP API", "dynamodb": "DynamoDB", "rollup": "roll-ups", "telemetry": "listeners"}
VERDICTS = {
    (True, False): "met",
    (True, True): "within noise",
    (False, False): "**missed**",
    (False, True): "**missed**, within noise",
    (None, False): "not measured",
}


@dataclass(frozen=True)
class Circumstances:
    command: str
    day: str
    quick: bool
    rounds: int
    minutes: float
    machine: Mapping[str, str]
    postgres: str
    settings: Mapping[str, str]
    systems: Mapping[str, tuple[str, str]]
    missing: Mapping[str, str]


def added(book: Book, run: Circumstances, whole: Path) -> tuple[Book, Circumstances]:
    """Returns the whole results with the figures of this run, each with the command that measured it."""
    read = json.loads(whole.read_text())
    results, before = Book.of_json(read), Circumstances(**read["run"])
    rounds = "one round" if run.rounds == 1 else f"{run.rounds} rounds"
    results.take_over(book, f"`{run.command}` on {run.day}, {rounds}")
    return results, before


def markdown(book: Book, sizes: Sizes, run: Circumstances, plots: Sequence[tuple[str, str]]) -> str:
    parts = [
        *_heading(run, book),
        *_bars(list(bars(book, sizes))),
        *_systems(book, run),
        *_costs(book, run),
        *_dynamodb(book),
        *_api(book, sizes),
        *_growth(book, plots),
        *_slowest(book, sizes),
        *_failures(book),
        *_circumstances(run),
    ]
    return "\n".join(parts) + "\n"


def short_name(measure: str) -> str:
    """Names the figures of one measure together where they are many."""
    return SHORT_NAMES.get(measure.partition(", ")[0], measure)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


def _heading(run: Circumstances, book: Book) -> Iterator[str]:
    yield "# Benchmark results\n"
    if run.quick:
        yield "**A quick run: small sizes, to see that everything works. These figures say nothing.**\n"
    rounds = f"{run.rounds} rounds" if run.rounds > 1 else "one round"
    yield f"Made by `{run.command}` on {run.day} in {run.minutes:.0f} minutes, {rounds}: all systems"
    yield "on one Postgres, in turn. Figures are medians, with the lowest and the highest in brackets. Compare rows,"
    yield "not machines. [How to read and repeat it](../docs/how-to/benchmark.md).\n"
    if book.origins:
        yield "Some figures come from later runs:\n"
        for origin in dict.fromkeys(book.origins.values()):
            measures = (short_name(measure) for (measure, _), its in book.origins.items() if its == origin)
            yield f"- {origin}: {'; '.join(dict.fromkeys(measures))}"
        yield ""


def _bars(all_bars: Sequence[Bar]) -> Iterator[str]:
    met = sum(bar.met is True and not bar.within_noise for bar in all_bars)
    close = sum(bar.met is True and bar.within_noise for bar in all_bars)
    measured = sum(bar.met is not None for bar in all_bars)
    yield f"## Bars: {met} of {measured} met" + (f", {close} within noise" if close else "") + "\n"
    yield "Noise is how much the figure on the right side of a ratio differed from itself in this run. A bar that is"
    yield "cleared by less than that is within noise, not met.\n"
    yield from table(
        ("measure", "against", "bar", "measured", "figures", "noise", ""),
        (
            (
                bar.measure,
                bar.against,
                f"{bar.kind} {number(bar.limit)}{bar.unit}",
                _value(bar),
                bar.parts,
                "–" if bar.noise is None else f"±{100 * bar.noise:.0f} %",
                "figures of different runs" if bar.mixed else VERDICTS[bar.met, bar.within_noise],
            )
            for bar in all_bars
        ),
    )


def _value(bar: Bar) -> str:
    if bar.value is None:
        return "–"
    worse_by_rounding = bar.kind == AT_LEAST and bar.met is False
    digits = 3 if worse_by_rounding else 2
    return f"{bar.value:,.{digits if abs(bar.value) < 100 else 0}f}{bar.unit}"


def _systems(book: Book, run: Circumstances) -> Iterator[str]:
    yield "## All systems\n"
    rows = [
        (f"{name} {version}", *(_spread(book, measure, name) for _, measure in COLUMNS))
        for name, (version, _) in run.systems.items()
    ]
    blank = ("",) * (len(COLUMNS) - 1)
    rows += [(name, why, *blank) for name, why in run.missing.items()]
    rows.append(("**leasehold : raw**", *(_ratio(book, measure, RAW) for _, measure in COLUMNS)))
    rows.append(
        (
            "**leasehold : the best peer**",
            *(_ratio(book, measure, _best(book, run, measure)) for _, measure in COLUMNS),
        )
    )
    yield from table(("system", *(title for title, _ in COLUMNS)), rows)


def _best(book: Book, run: Circumstances, measure: str) -> str | None:
    peers = {name: book.value(measure, name) for name in run.systems if name not in (OURS, RAW)}
    measured = {name: value for name, value in peers.items() if value is not None}
    choose = min if measure in LESS_IS_BETTER else max
    return choose(measured, key=lambda name: measured[name], default=None)


def _ratio(book: Book, measure: str, to: str | None) -> str:
    ours, theirs = book.value(measure, OURS), book.value(measure, to or "")
    if ours is None or not theirs:
        return "–"
    return f"{number(ours / theirs)}×" + ("" if to == RAW else f" {to}")


def _spread(book: Book, measure: str, system: str) -> str:
    if spread := book.spread(measure, system):
        if spread.lowest == spread.highest:
            return number(spread.middle)
        return f"{number(spread.middle)} ({number(spread.lowest)}–{number(spread.highest)})"
    failed = (measure, system) in book.failures or (measure.partition(" ")[0], system) in book.failures
    return "failed, see below" if failed else "–"


def _costs(book: Book, run: Circumstances) -> Iterator[str]:
    yield "## Cost per job\n"
    yield "Processor time holds from machine to machine better than any rate does. The server's is that of all its"
    yield "processes, the client's that of the one process that enqueues or works.\n"
    head = ("step", "system", "statements", "commits", "WAL bytes", "client µs", "server µs")
    rows = []
    for measure, title in COSTS:
        for name in run.systems:
            if cost := book.cost(measure, name):
                figures = (cost.statements, cost.commits, cost.wal, cost.client, cost.server)
                rows.append((title, name, *("–" if each is None else number(each) for each in figures)))
    yield from table(head, rows)


def _dynamodb(book: Book) -> Iterator[str]:
    """Yields the rate on the emulator and the requests of a job, for each kind of job."""
    named = [measure.split(", ") for measure, _ in book.samples if measure.startswith("dynamodb, ")]
    if not named:
        return
    kinds, figures = dict.fromkeys(name[1] for name in named), list(dict.fromkeys(name[2] for name in named))
    yield "## On DynamoDB\n"
    yield "The rate is that of an emulator in one process, and says nothing about AWS. The requests of a job are the"
    yield "same there: ten jobs in a claim, each succeeds at its first attempt. Write units are computed, with those"
    yield "of indexes and transactions.\n"
    rows = [[kind, *(_spread(book, f"dynamodb, {kind}, {each}", OURS) for each in figures)] for kind in kinds]
    yield from table(["jobs", *figures], rows)


SHARES = ("p50", "p95", "processor")


def _api(book: Book, sizes: Sizes) -> Iterator[str]:
    """Yields milliseconds of each kind of request, for each kind of tenant."""
    kinds = shown_measures([measure for measure, _ in book.samples])
    if not kinds:
        return
    yield "## The HTTP API\n"
    requests, jobs, tenants = sizes.api_requests, f"{sizes.api_jobs:,}", f"{sizes.api_tenants:,}"
    yield f"Milliseconds of a request: p50 and p95 of {requests}, one after the other over HTTP on the same machine,"
    yield "and the middle of the processor time of the API and the database together. The database has"
    yield f"{jobs} jobs of {tenants} tenants. The large tenant has a tenth of them, and four in five jobs have ended."
    yield "A list of all tenants by a filter that few jobs match looks at all jobs: name a tenant there.\n"
    rows = []
    for key, measured_for in kinds.items():
        cells = [
            " / ".join(_spread(book, f"{Api.name}, {key}, {whose}, {share}", OURS) for share in SHARES)
            if whose in measured_for
            else "–"
            for whose in (LARGE, SMALL, ALL_TENANTS)
        ]
        rows.append([key, *cells])
    yield from table(["request", LARGE, SMALL, ALL_TENANTS], rows)


def _growth(book: Book, plots: Sequence[tuple[str, str]]) -> Iterator[str]:
    shown = {measure for _, measure in COLUMNS} | {
        each for each, _ in book.samples if each.startswith(("dynamodb, ", "api, "))
    }
    names = [(measure, name) for measure, name in book.samples if measure not in shown and name in (OURS, RAW)]
    if not names:
        return
    yield "## Leasehold as things grow\n"
    for title, file in plots:
        yield f"![{title}]({file})\n"
    yield from table(
        ("figure", "of", "value"), ((measure, name, _spread(book, measure, name)) for measure, name in names)
    )


def _slowest(book: Book, sizes: Sizes) -> Iterator[str]:
    if not book.slowest:
        return
    yield f"## Where the server's time goes in Leasehold's drain of {sizes.drain:,} jobs\n"
    rows = []
    for each in book.slowest:
        per_call, per_job = each["ms"] / each["calls"], 1000 * each["ms"] / sizes.drain
        name = str(each["name"]).replace("|", "¦")
        rows.append((f"`{name}`", number(each["calls"]), number(per_call), number(per_job)))
    yield from table(("statement", "calls", "ms each", "µs per job"), rows)


def _failures(book: Book) -> Iterator[str]:
    if book.failures:
        yield "## What could not be measured\n"
        yield from table(
            ("measure", "system", "why"),
            ((measure, name, why.replace("|", "¦")) for (measure, name), why in book.failures.items()),
        )


def _circumstances(run: Circumstances) -> Iterator[str]:
    yield "## Circumstances\n"
    yield from table(("", ""), [*run.machine.items(), ("database", run.postgres)])
    yield "Postgres: " + ", ".join(f"`{name} = {value}`" for name, value in run.settings.items()) + ".\n"
    yield from table(
        ("system", "version", "settings"),
        ((name, version, settings) for name, (version, settings) in run.systems.items()),
    )
