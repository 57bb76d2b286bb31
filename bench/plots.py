"""Growth curves, as SVG: plain lines, both axes named, the spread as a band."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")
from matplotlib import pyplot as plt

from bench.book import Book
from bench.sizes import Sizes
from bench.systems import OURS, RAW

COLORS = {OURS: "#1f6f5c", RAW: "#9a9a9a"}
LABELS = {OURS: "leasehold", RAW: "its SQL driven raw"}
mpl.rcParams |= {
    "svg.hashsalt": "leasehold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "figure.figsize": (7, 3.6),
    "figure.constrained_layout.use": True,
}


def draw(book: Book, sizes: Sizes, folder: Path) -> list[tuple[str, str]]:
    """Draws what was measured; returns title and file of each plot."""
    folder.mkdir(exist_ok=True)
    drawn = [
        _curve(book, folder, "backlog", "queued jobs", sizes.backlogs, "log"),
        _curve(book, folder, "history", "finished jobs", sizes.histories, "symlog"),
        _curve(book, folder, "lanes", "lanes (tenant × definition) with work", sizes.lanes, "log"),
        _curve(book, folder, "processes", "worker processes", sizes.processes, "linear"),
        _snapshot(book, folder),
        _flood(book, sizes, folder),
    ]
    return [plot for plot in drawn if plot is not None]


def _curve(
    book: Book, folder: Path, name: str, grows: str, values: Sequence[int], scale: str
) -> tuple[str, str] | None:
    figure, axes = plt.subplots()
    for system in (OURS, RAW):
        spreads = [(value, book.spread(f"{name} {value}", system)) for value in values]
        points = [(value, spread) for value, spread in spreads if spread is not None]
        if not points:
            continue
        x = [value for value, _ in points]
        axes.plot(x, [s.middle for _, s in points], "o-", color=COLORS[system], label=LABELS[system])
        low, high = [s.lowest for _, s in points], [s.highest for _, s in points]
        axes.fill_between(x, low, high, color=COLORS[system], alpha=0.2, linewidth=0)
    if scale == "symlog":
        axes.set_xscale("symlog", linthresh=max(1, min(value for value in values if value)))
    else:
        axes.set_xscale(scale)
    axes.set_xticks(list(values), [f"{value:,}" for value in values])
    axes.minorticks_off()
    return _saved(figure, axes, folder, name, f"Drain against {grows}", grows, "jobs per second")


def _snapshot(book: Book, folder: Path) -> tuple[str, str] | None:
    figure, axes = plt.subplots()
    for system in (OURS, RAW):
        if points := book.series.get(f"snapshot, {system}"):
            axes.plot(*zip(*points, strict=True), "-", color=COLORS[system], label=LABELS[system])
    title = "Drain while somebody holds an old snapshot"
    return _saved(figure, axes, folder, "snapshot", title, "seconds since the drain began", "jobs per second")


def _flood(book: Book, sizes: Sizes, folder: Path) -> tuple[str, str] | None:
    figure, axes = plt.subplots()
    if points := book.series.get("flood"):
        tenants, places = zip(*points, strict=True)
        axes.plot(tenants, places, ".", color=COLORS[OURS], markersize=3)
        axes.set_yscale("log")
    title = f"One tenant has {sizes.flood:,} jobs queued before everybody else's: when do the others start?"
    return _saved(
        figure, axes, folder, "flood", title, "small tenant", "place of its first job in the order of starts"
    )


def _saved(
    figure: Any, axes: Any, folder: Path, name: str, title: str, grows: str, measured: str
) -> tuple[str, str] | None:
    try:
        if not axes.lines:
            return None
        axes.set_title(title, fontsize=10, loc="left")
        axes.set_xlabel(grows)
        axes.set_ylabel(measured)
        if axes.get_yscale() == "linear":
            axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter("{x:,.0f}")
        if axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False)
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
        return title, f"{folder.name}/{name}.svg"
    finally:
        plt.close(figure)
