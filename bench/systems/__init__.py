"""The systems under measure: each is a set of parts, and each part is a process of its own."""

import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from typing import Any, Protocol

from bench.tape import Tape

RAW, OURS = "raw", "leasehold"
ALL = (RAW, OURS, "pgqueuer", "procrastinate", "oban", "graphile-worker", "pg-boss")

How = Mapping[str, Any]


class System(Protocol):
    """A system as the harness uses it. `settings` is printed, so that its users can judge the comparison."""

    @property
    def name(self) -> str: ...

    @property
    def settings(self) -> str: ...

    @property
    def unfinished(self) -> str:
        """A query that counts what is queued or runs: zero when all is done."""

    def why_not(self) -> str | None:
        """Why it can't be measured here; None if it can."""

    def version(self) -> str: ...

    def command(self, part: str, url: str, *arguments: str) -> Sequence[str]:
        """The process that does a part: install, work or produce. bench/part.py says what they hear and answer."""


class Producer(Protocol):
    async def one(self, number: int, how: How) -> int | None:
        """Enqueues a job by a call of its own. Returns when its commit was sent, if that was not the call itself."""

    async def many(self, numbers: range, how: How) -> None:
        """Enqueues jobs by one call."""


class Parts(Protocol):
    """A system that is written in Python, inside of its own processes."""

    async def install(self, url: str) -> None:
        """Makes its tables in an empty database."""

    def work(self, url: str, tape: Tape, how: How) -> None:
        """Works until SIGTERM. Each handler notes its start on the tape and does nothing else."""

    def producer(self, url: str, how: How) -> AbstractAsyncContextManager[Producer]: ...


@dataclass(frozen=True)
class PythonSystem:
    """Its parts are in bench/systems/<name>.py, and `python -m bench.part` runs them."""

    name: str
    distribution: str
    settings: str
    unfinished: str
    interpreter: str = sys.executable

    def why_not(self) -> str | None:
        return None

    def version(self) -> str:
        return version(self.distribution)

    def command(self, part: str, url: str, *arguments: str) -> Sequence[str]:
        return [self.interpreter, "-m", "bench.part", self.name, part, url, *arguments]


def system(name: str) -> System:
    """Raises CannotMeasure with the reason."""
    try:
        found: System = import_module(_module(name)).SYSTEM
    except ModuleNotFoundError as missing:
        raise CannotMeasure(f"not installed: needs the package {missing.name}") from missing
    if reason := found.why_not():
        raise CannotMeasure(reason)
    return found


class CannotMeasure(Exception):
    """A system can't be measured here, or did not do what it was asked to in time."""


def parts(name: str) -> Parts:
    found: Parts = import_module(_module(name)).PARTS
    return found


def _module(name: str) -> str:
    return f"bench.systems.{name.replace('-', '_')}"
