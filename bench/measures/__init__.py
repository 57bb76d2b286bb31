"""The measures. Each takes one round at a time, so that the rounds of all of them can take turns."""

from typing import Protocol

from bench.stage import Stage


class Measure(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def once(self) -> bool:
        """Whether one round is enough: it is long, and averages by itself."""

    @property
    def compares(self) -> bool:
        """Whether it compares systems, or looks at ours alone."""

    async def round(self, stage: Stage) -> None:
        """One sample for each system that it compares."""
