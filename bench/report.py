"""RESULTS.md: bars, all systems beside each other, costs, growth, and under which conditions."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.bars import AT_LEAST, Bar, bars, number
from bench.book import Book
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


def markdown(book: Book, sizes: Sizes, run: Circumstances, plots: Sequence[tuple[str, str]]) -> str:
    parts = [
        *_heading(run),
        *_bars(list(bars(book, sizes))),
        *_systems(book, run),
        *_costs(book, run),
        *_growth(book, plots),
        *_slowest(book, sizes),
        *_failures(book),
        *_circumstances(run),
    ]
    return "\n".join(parts) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


def _heading(run: Circumstances) -> Iterator[str]:
    yield "# Benchmark results\n"
    if run.quick:
        yield "**A quick run: small sizes, to see that everything works. These figures say nothing.**\n"
    rounds = f"{run.rounds} rounds" if run.rounds > 1 else "one round"
    yield f"Made by `{run.command}` on {run.day} in {run.minutes:.0f} minutes, {rounds}: all systems"
    yield "on one Postgres, in turn. Figures are medians, with the lowest and the highest in brackets. Compare rows,"
    yield "not machines. [How to read and repeat it](../docs/how-to/benchmark.md).\n"


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
                VERDICTS[bar.met, bar.within_noise],
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


def _growth(book: Book, plots: Sequence[tuple[str, str]]) -> Iterator[str]:
    compared = {measure for _, measure in COLUMNS}
    names = [(measure, name) for measure, name in book.samples if measure not in compared and name in (OURS, RAW)]
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
