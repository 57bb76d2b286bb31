"""The bars that Leasehold has to clear, each a ratio of two figures of the same run or a plain figure of its own."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from bench.book import Book
from bench.listeners import ALL
from bench.measures.api import LONG
from bench.measures.telemetry import DRAINED, ONE_BY_ONE
from bench.sizes import Sizes
from bench.systems import OURS, RAW

AT_LEAST, AT_MOST = "at least", "at most"

_LONG = "|".join(map(re.escape, LONG))
# The slowest request of each group counts.
API_BARS = (
    ("lists of a tenant", 300, re.compile("api, list, .* tenant, p95")),
    ("lists of all tenants", 300, re.compile(f"api, (?!({_LONG}),)list, .*, all tenants, p95")),
    ("lists of all tenants by a filter that few jobs match", 300, re.compile(f"api, ({_LONG}), all tenants, p95")),
    ("summary of a tenant", 300, re.compile("api, summary, .*, p95")),
    ("charts", 500, re.compile("api, series, .*, p95")),
    ("lists of the console", 300, re.compile("api, console, list, .*, p95")),
    ("overview of the console", 500, re.compile("api, console, overview, .*, p95")),
)


@dataclass(frozen=True)
class Bar:
    """`value` None: it was not measured. `parts` says in figures what it was made of.

    `noise` is how much the figure that it is compared with differs from itself in this run; None: unknown. A bar is
    `mixed` if its figures come from different runs: it is not decided, since one of them may be less disturbed.
    """

    measure: str
    against: str
    kind: str
    limit: float
    value: float | None
    parts: str = ""
    unit: str = "×"
    noise: float | None = None
    mixed: bool = False

    @property
    def met(self) -> bool | None:
        if self.value is None or self.mixed:
            return None
        return self.value >= self.limit if self.kind == AT_LEAST else self.value <= self.limit

    @property
    def within_noise(self) -> bool:
        """Whether another run could as well have come out on the other side of the limit."""
        if self.value is None or self.noise is None or self.mixed:
            return False
        return abs(self.value / self.limit - 1) <= self.noise


def bars(book: Book, sizes: Sizes) -> Iterator[Bar]:
    yield from _throughput(book, sizes)
    yield from _fairness(book, sizes)
    yield from _producers(book, sizes)
    yield from _waiting(book)
    yield from _resting(book, sizes)
    yield from _asking(book, sizes)


def _throughput(book: Book, sizes: Sizes) -> Iterator[Bar]:
    drain = f"drain, {sizes.drain:,} jobs of 100 tenants, one process"
    yield _ratio(book, drain, "pgqueuer", AT_LEAST, 2, "drain", OURS, "drain", "pgqueuer")
    yield _ratio(book, drain, "graphile-worker", AT_LEAST, 1, "drain", OURS, "drain", "graphile-worker")
    for tenants in sizes.drain_tenants:
        measure = f"drain, {sizes.drain:,} jobs of {tenants} tenant{'s' if tenants > 1 else ''}"
        ours = f"drain, {tenants} tenants"
        yield _ratio(book, measure, "graphile-worker", AT_LEAST, 1, ours, OURS, "drain", "graphile-worker")
    yield _ratio(book, drain, "our own SQL driven raw", AT_LEAST, 0.5, "drain", OURS, "drain", RAW)
    yield _ratio(
        book, f"{drain}, woken", "one that polls", AT_LEAST, 0.95, "drain, woken", OURS, "drain, polling", OURS
    )
    backlog, history = sizes.backlogs[-1], sizes.histories[-1]
    yield _of_the_drain(book, f"drain with {backlog:,} queued", f"backlog {backlog}")
    yield _of_the_drain(book, f"drain with {history:,} finished", f"history {history}")
    yield _of_the_drain(book, f"drain of {sizes.snapshot:,} under an old snapshot", "snapshot")
    first, last = "snapshot, a claim in the first quarter", "snapshot, a claim in the last quarter"
    yield _ratio(
        book, "a claim under an old snapshot", "itself at the beginning", AT_MOST, 1.5, last, OURS, first, OURS
    )
    lanes = sizes.lanes[-1]
    yield _of_the_drain(book, f"drain of {lanes:,} lanes", f"lanes {lanes}")
    yield _of_the_drain(book, f"drain of {lanes:,} lanes under an old snapshot", f"lanes {lanes}, old snapshot")


def _fairness(book: Book, sizes: Sizes) -> Iterator[Bar]:
    flood = f"{sizes.flood:,} jobs of one tenant before 10 of each of {sizes.flooded}"
    late = book.value("flood, the flooder's starts before every tenant's first", OURS)
    yield Bar(f"{flood}: its starts before every other's first", "", AT_MOST, 2_000, late, unit=" jobs")
    alone = "flood, one tenant alone"
    yield _ratio(book, f"{flood}: throughput", "the one tenant alone", AT_LEAST, 0.8, "flood", OURS, alone, OURS)
    for tenants in ("one tenant", "100 tenants"):
        urgent, claim = f"urgent, {tenants}, p99", f"urgent, {tenants}, a claim takes"
        measure = f"an urgent job behind {sizes.urgent_backlog:,} of {tenants}, commit to start, p99"
        yield _ratio(book, measure, "the claim's own time", AT_MOST, 5, urgent, OURS, claim, OURS)


def _producers(book: Book, sizes: Sizes) -> Iterator[Bar]:
    yield _ratio(
        book, "enqueue one by one", "a raw autocommit insert", AT_LEAST, 0.75, "enqueue", OURS, "enqueue", RAW
    )
    asleep, none = "enqueue, a worker sleeps, ms", "enqueue, no worker sleeps, ms"
    yield _ratio(book, "enqueue while a worker sleeps", "while none does", AT_MOST, 1.8, asleep, OURS, none, OURS)
    emit, plain = "emit", "emit, an enqueue"
    measure = "emit without a matching trigger, its time"
    yield _ratio(book, measure, "a plain enqueue", AT_MOST, 1.3, plain, OURS, emit, OURS)
    yield _ratio(book, "bulk", "pgqueuer", AT_LEAST, 1.5, "bulk", OURS, "bulk", "pgqueuer")
    listed, taken = "one call, MB for a list of the jobs", "one call, MB for the call"
    measure = f"{sizes.one_call:,} jobs in one call, memory"
    yield _ratio(book, measure, "a list of the jobs", AT_MOST, 2, taken, OURS, listed, OURS)
    measure = f"{sizes.producers} producers at once, wakes on"
    on, off = "producers, wakes on", "producers, wakes off"
    yield _ratio(book, measure, "wakes off", AT_LEAST, 0.9, on, OURS, off, OURS)
    on, off = "producers, wakes on, a worker listens", "producers, wakes off, a worker polls"
    yield _ratio(book, f"{measure}, a worker listens", "wakes off, it polls", AT_LEAST, 0.9, on, OURS, off, OURS)


def _waiting(book: Book) -> Iterator[Bar]:
    measure = "latency, enqueue call to handler's start, idle worker"
    p50, p99 = "latency p50", "latency p99"
    yield _ratio(book, f"{measure}, p50", "raw LISTEN and claim", AT_MOST, 1.5, p50, OURS, p50, RAW)
    yield _ratio(book, f"{measure}, p99", "raw's p99", AT_MOST, 1.5, p99, OURS, p99, RAW)
    for peer in ("pgqueuer", "graphile-worker"):
        yield _ratio(book, f"{measure}, p50", peer, AT_MOST, 1, p50, OURS, p50, peer)
    for share in ("p50", "p99"):
        wake = f"wake to start {share}"
        yield _ratio(book, f"wake to handler's start, {share}", "raw", AT_MOST, 1.5, wake, OURS, wake, RAW)
    hundred = book.value("100 jobs, seconds", OURS)
    yield Bar("100 jobs by one call, idle worker, until all are done", "", AT_MOST, 5, hundred, unit=" s")
    alone, within = "commit to start, enqueued alone, p50", "commit to start, within a transaction, p50"
    measure = "commit to handler's start, within the caller's transaction, p50"
    yield _ratio(book, measure, "an enqueue of its own", AT_MOST, 1, within, OURS, alone, OURS)
    fired = book.value("fires, late p99", OURS)
    yield Bar("schedules: how late they fire, p99", "", AT_MOST, 100, fired, unit=" ms")
    yield Bar("jobs for later: how late they start, p99", "", AT_MOST, 50, book.value("due p99", OURS), unit=" ms")


def _resting(book: Book, sizes: Sizes) -> Iterator[Bar]:
    yield Bar("idle, statements", "", AT_MOST, 0.1, book.value("idle", OURS), unit="/s")
    grown = book.value("memory, MB grown", OURS)
    yield Bar(f"memory grown by {sizes.memory:,} jobs", "", AT_MOST, 20, grown, unit=" MB")


def _asking(book: Book, sizes: Sizes) -> Iterator[Bar]:
    filled = f"API, {sizes.api_jobs:,} jobs of {sizes.api_tenants:,} tenants"
    for what, limit, wanted in API_BARS:
        slowest = max((book.value(*each) or 0 for each in book.samples if wanted.fullmatch(each[0])), default=None)
        yield Bar(f"{filled}: {what}, p95", "", AT_MOST, limit, slowest, unit=" ms")
    for jobs, figure in (("one by one", " that is enqueued alone"), ("drained", "")):
        share = book.value(f"rollup, % of the processor time of a job{figure}", OURS)
        measure = f"figures for charts, jobs {jobs}, processor time to add up a job"
        yield Bar(measure, "its own", AT_MOST, 2, share, unit=" %")
    for kind in (ONE_BY_ONE, DRAINED):
        added = book.value(f"telemetry, {kind}, % added by {ALL}", OURS)
        measure = f"logs, metrics, Sentry and traces of 1 % of the jobs, jobs {kind}, processor time"
        yield Bar(measure, "no listeners", AT_MOST, 2, added, unit=" %")


def _of_the_drain(book: Book, measure: str, figure: str) -> Bar:
    return _ratio(book, measure, "the drain", AT_LEAST, 0.7, figure, OURS, "drain", OURS)


def _ratio(
    book: Book, measure: str, against: str, kind: str, limit: float, over: str, of: str, under: str, to: str
) -> Bar:
    upper, lower = book.value(over, of), book.value(under, to)
    if upper is None or not lower:
        return Bar(measure, against, kind, limit, None)
    parts = f"{number(upper)} : {number(lower)}"
    mixed = not book.are_of_one_run((over, of), (under, to))
    return Bar(measure, against, kind, limit, upper / lower, parts, noise=book.noise(under, to), mixed=mixed)


def number(value: float) -> str:
    """Three digits that count, and thousands set apart."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
