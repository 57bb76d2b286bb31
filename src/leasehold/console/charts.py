"""Charts as shapes: figures over time become paths of an SVG, drawn by the server. No I/O."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil, log10

from leasehold.model.duration import span
from leasehold.model.series import Point

WIDTH, HEIGHT = 600, 140
_NICE = (1, 2, 5, 10)
_TOPS = (0.05, 0.1, 0.2, 0.5, 1.0)
_SHORTEST = 0.001


@dataclass(frozen=True, slots=True)
class Shape:
    """A series as a path. `style` is area or line; `dashed` tells two lines of one colour apart."""

    name: str
    state: str
    path: str
    style: str = "area"
    dashed: bool = False
    href: str | None = None


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawn chart, and the same as a table: a row for each step."""

    name: str
    title: str
    unit: str
    shapes: Sequence[Shape]
    top: str
    middle: str
    summary: str
    heads: Sequence[str]
    rows: Sequence[tuple[datetime, Sequence[str]]]

    @property
    def is_empty(self) -> bool:
        return not self.shapes


@dataclass(frozen=True, slots=True)
class Layer:
    """A figure of each point. Its colour is that of a state of jobs."""

    name: str
    state: str
    read: Callable[[Point], float | None]
    query: str | None = None
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a whole, by steps. Its colour is the name of one, not that of a state."""

    name: str
    colour: str
    values: Sequence[float]
    href: str | None = None


def stack(
    name: str, title: str, unit: str, layers: Sequence[Layer], points: Sequence[Point], links: Mapping[str, str]
) -> Chart:
    """Draws figures on top of each other, the first one at the bottom."""
    values = [[layer.read(point) or 0.0 for point in points] for layer in layers]
    most = nice_top(max((sum(step) for step in zip(*values, strict=True)), default=0))
    floor = [0.0] * len(points)
    shapes = []
    for layer, row in zip(layers, values, strict=True):
        ceiling = [low + value for low, value in zip(floor, row, strict=True)]
        if any(row):
            path = _band(floor, ceiling, most)
            shapes.append(Shape(layer.name, layer.state, path, href=links.get(layer.name)))
        floor = ceiling
    totals = {layer.name: sum(row) for layer, row in zip(layers, values, strict=True)}
    summary = ", ".join(
        f"{layer.name} up to {max(row, default=0):g}" for layer, row in zip(layers, values, strict=True)
    )
    texts = [[f"{value:g}" for value in row] for row in values]
    return Chart(
        *(name, title, unit, shapes if any(totals.values()) else [], f"{most:g}", f"{most / 2:g}", summary),
        *([layer.name for layer in layers], _rows(points, texts)),
    )


def durations(name: str, title: str, layers: Sequence[Layer], points: Sequence[Point]) -> Chart:
    """Draws durations as lines, on a logarithmic scale: a minute beside milliseconds. A step without
    jobs is a gap.
    """
    values = [[layer.read(point) for point in points] for layer in layers]
    known = [value for row in values for value in row if value is not None]
    top, low = max(known, default=1.0), max(min(known, default=_SHORTEST), _SHORTEST)
    high, low = 10 ** ceil(log10(max(top, _SHORTEST * 10))), 10 ** (ceil(log10(low)) - 1)
    scale = log10(high) - log10(low)

    def share(value: float) -> float:
        return (log10(max(value, low)) - log10(low)) / scale

    shapes = [
        Shape(layer.name, layer.state, _line([None if v is None else share(v) for v in row]), "line", layer.dashed)
        for layer, row in zip(layers, values, strict=True)
        if any(value is not None for value in row)
    ]
    texts = [["–" if value is None else _seconds(value) for value in row] for row in values]
    summary = ", ".join(
        f"{layer.name} up to {_seconds(max(known_of))}"
        for layer, row in zip(layers, values, strict=True)
        if (known_of := [value for value in row if value is not None])
    )
    middle = _seconds(float(10 ** ((log10(high) + log10(low)) / 2)))
    return Chart(
        *(name, title, "logarithmic", shapes, _seconds(float(high)), middle, summary),
        *([layer.name for layer in layers], _rows(points, texts)),
    )


def rates(name: str, title: str, layers: Sequence[Layer], points: Sequence[Point]) -> Chart:
    """Draws shares from 0 to 1 as lines, in per cent. A step without jobs is a gap."""
    values = [[layer.read(point) for point in points] for layer in layers]
    known = [value for row in values for value in row if value is not None]
    top = next((each for each in _TOPS if each >= max(known, default=0.0)), 1.0)
    shapes = [
        Shape(layer.name, layer.state, _line([None if v is None else v / top for v in row]), "line", layer.dashed)
        for layer, row in zip(layers, values, strict=True)
        if any(value is not None for value in row)
    ]
    texts = [["–" if value is None else f"{value:.1%}" for value in row] for row in values]
    summary = ", ".join(
        f"{layer.name} up to {max(known_of):.1%}"
        for layer, row in zip(layers, values, strict=True)
        if (known_of := [value for value in row if value is not None])
    )
    return Chart(
        *(name, title, "of tries that ended", shapes, f"{top:.0%}", f"{top * 50:g}%", summary),
        *([layer.name for layer in layers], _rows(points, texts)),
    )


def shares(name: str, title: str, unit: str, parts: Sequence[Part], moments: Sequence[datetime]) -> Chart:
    """Draws the share of each part in the whole of its step; a step without anything is empty."""
    wholes = [sum(step) for step in zip(*(part.values for part in parts), strict=True)]
    floor, shapes = [0.0] * len(moments), []
    texts: list[list[str]] = []
    for part in parts:
        row = [value / whole if whole else 0.0 for value, whole in zip(part.values, wholes, strict=True)]
        ceiling = [low + value for low, value in zip(floor, row, strict=True)]
        if any(row):
            shapes.append(Shape(part.name, part.colour, _band(floor, ceiling, 1.0), href=part.href))
        texts.append([f"{value:.0%}" if whole else "–" for value, whole in zip(row, wholes, strict=True)])
        floor = ceiling
    whole = sum(wholes)
    summary = ", ".join(f"{part.name} {sum(part.values) / whole:.0%}" for part in parts) if whole else "nothing"
    rows = [(at, [row[index] for row in texts]) for index, at in enumerate(moments)]
    return Chart(name, title, unit, shapes, "100%", "50%", summary, [part.name for part in parts], rows)


def nice_top(value: float) -> float:
    """Returns the next round number: 1, 2, 5, 10, 20 …"""
    if value <= 1:
        return 1.0
    power = 10 ** int(log10(value))
    return float(next(each * power for each in _NICE if each * power >= value))


def _rows(points: Sequence[Point], texts: Sequence[Sequence[str]]) -> list[tuple[datetime, Sequence[str]]]:
    return [(point.at, [row[index] for row in texts]) for index, point in enumerate(points)]


def _band(floor: Sequence[float], ceiling: Sequence[float], most: float) -> str:
    """Returns the area between two lines, in steps: a figure counts for its whole step."""
    over = _steps([value / most for value in ceiling])
    under = list(reversed(_steps([value / most for value in floor])))
    return "M" + "L".join([*over, *under]) + "Z"


def _steps(shares: Sequence[float]) -> list[str]:
    wide = WIDTH / max(len(shares), 1)
    found = []
    for index, share in enumerate(shares):
        found += [f"{index * wide:.1f} {_y(share)}", f"{(index + 1) * wide:.1f} {_y(share)}"]
    return found


def _line(shares: Sequence[float | None]) -> str:
    wide, parts, pen = WIDTH / max(len(shares), 1), [], False
    for index, share in enumerate(shares):
        if share is None:
            pen = False
            continue
        begin, end = f"{index * wide:.1f}", f"{(index + 1) * wide:.1f}"
        parts.append(f"{'L' if pen else 'M'}{begin} {_y(share)}L{end} {_y(share)}")
        pen = True
    return "".join(parts)


def _y(share: float) -> str:
    return f"{HEIGHT - min(max(share, 0), 1) * HEIGHT:.1f}"


def _seconds(value: float) -> str:
    return span(timedelta(seconds=value))
