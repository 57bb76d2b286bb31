"""The figures of a run: every sample, so that each figure comes with its spread."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median, quantiles
from typing import Any


@dataclass(frozen=True, slots=True)
class Costs:
    """Of one job: statements, commits, bytes of WAL, and microseconds of processor time. None: can't be told here."""

    statements: float | None
    commits: float | None
    wal: float | None
    client: float | None
    server: float | None


@dataclass(frozen=True, slots=True)
class Spread:
    lowest: float
    middle: float
    highest: float


@dataclass
class Book:
    """Samples by (measure, system); series for plots; what could not be measured, and why.

    `origins` has the command and day of the figures that a later run replaced or added.
    """

    samples: dict[tuple[str, str], list[float]] = field(default_factory=lambda: defaultdict(list))
    costs: dict[tuple[str, str], list[Costs]] = field(default_factory=lambda: defaultdict(list))
    series: dict[str, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))
    failures: dict[tuple[str, str], str] = field(default_factory=dict)
    slowest: list[Mapping[str, Any]] = field(default_factory=list)
    origins: dict[tuple[str, str], str] = field(default_factory=dict)

    def add(self, measure: str, system: str, value: float, costs: Costs | None = None) -> None:
        self.samples[measure, system].append(value)
        if costs is not None:
            self.costs[measure, system].append(costs)

    def point(self, series: str, x: float, y: float) -> None:
        self.series[series].append((x, y))

    def failed(self, measure: str, system: str, why: str) -> None:
        self.failures[measure, system] = why

    def tried(self, measure: str, system: str) -> bool:
        return (measure, system) in self.samples or (measure, system) in self.failures

    def spread(self, measure: str, system: str) -> Spread | None:
        found = self.samples.get((measure, system))
        return Spread(min(found), median(found), max(found)) if found else None

    def value(self, measure: str, system: str) -> float | None:
        found = self.spread(measure, system)
        return found.middle if found else None

    def noise(self, measure: str, system: str) -> float | None:
        """Half of the range that holds the middle half of the samples, as a share of their middle; None: too few.

        That is how far two runs of the same thing differ. Of two or three samples the whole range counts.
        """
        found = self.samples.get((measure, system), [])
        if len(found) < 2 or not median(found):
            return None
        low, _, high = quantiles(found, n=4, method="inclusive") if len(found) > 3 else (min(found), 0, max(found))
        return (high - low) / 2 / abs(median(found))

    def cost(self, measure: str, system: str) -> Costs | None:
        """The middle of each, over all samples."""
        found = self.costs.get((measure, system))
        if not found:
            return None
        columns = {name: [getattr(costs, name) for costs in found] for name in asdict(found[0])}
        return Costs(**{name: _middle(values) for name, values in columns.items()})

    def take_over(self, other: "Book", origin: str) -> None:
        """Replaces figures by those of another run, which measured some again or more."""
        for key in dict.fromkeys((*other.samples, *other.failures)):
            for mine in (self.samples, self.costs, self.failures):
                mine.pop(key, None)
            self.origins[key] = origin
        self.samples.update(other.samples)
        self.costs.update(other.costs)
        self.series.update(other.series)
        self.failures.update(other.failures)
        self.slowest = other.slowest or self.slowest

    def are_of_one_run(self, *figures: tuple[str, str]) -> bool:
        return len({self.origins.get(figure) for figure in figures}) == 1

    @staticmethod
    def of_json(read: Mapping[str, Any]) -> "Book":
        book = Book(slowest=read["slowest"])
        for each in read["samples"]:
            book.samples[each["measure"], each["system"]] = each["values"]
            if "origin" in each:
                book.origins[each["measure"], each["system"]] = each["origin"]
        for each in read["costs"]:
            book.costs[each["measure"], each["system"]] = [Costs(**values) for values in each["values"]]
        for name, points in read["series"].items():
            book.series[name] = [(x, y) for x, y in points]
        for each in read["failures"]:
            book.failures[each["measure"], each["system"]] = each["why"]
        return book

    def as_json(self) -> dict[str, Any]:
        return {
            "samples": [
                {"measure": measure, "system": system, "values": values} | self._origin(measure, system)
                for (measure, system), values in self.samples.items()
            ],
            "costs": [
                {"measure": measure, "system": system, "values": [asdict(costs) for costs in values]}
                for (measure, system), values in self.costs.items()
            ],
            "series": self.series,
            "failures": [
                {"measure": measure, "system": system, "why": why} for (measure, system), why in self.failures.items()
            ],
            "slowest": self.slowest,
        }

    def _origin(self, measure: str, system: str) -> dict[str, str]:
        origin = self.origins.get((measure, system))
        return {} if origin is None else {"origin": origin}


def percentile(values: Sequence[float], share: float) -> float:
    """The value that `share` of them don't exceed: the nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, round(share * len(ordered)) - 1))]


def _middle(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
