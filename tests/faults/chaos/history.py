"""The history of all clients: one JSON line for each event, appended, so that kill -9 loses none."""

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any


class Event(StrEnum):
    JOINED = "joined"
    CLAIMED = "claimed"
    STARTED = "started"
    STOPPED = "stopped"
    ENDED = "ended"
    FINISHING = "finishing"
    FINISHED = "finished"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    ENQUEUING = "enqueuing"
    ENQUEUED = "enqueued"


@dataclass(frozen=True, slots=True)
class Entry:
    """`at` is CLOCK_MONOTONIC: one machine, one clock."""

    at: float
    event: Event
    by: str
    job: str = ""
    attempt: int = 0
    worker: str = ""
    status: str = ""

    @property
    def fence(self) -> tuple[str, int, str]:
        return self.job, self.attempt, self.worker


class History:
    def __init__(self, path: Path, by: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._by = by

    def add(self, event: Event, job: str = "", attempt: int = 0, worker: str = "", status: str = "") -> None:
        entry: dict[str, Any] = {"at": time.monotonic(), "event": event, "by": self._by}
        entry |= {"job": job, "attempt": attempt, "worker": worker, "status": status}
        os.write(self._file, json.dumps(entry).encode() + b"\n")

    def close(self) -> None:
        os.close(self._file)


def read(path: Path) -> Iterator[Entry]:
    """Read every whole line. A line under way is left out: a write is atomic to writers, but not to a reader."""
    if not path.exists():
        return
    for line in path.read_bytes().splitlines(keepends=True):
        if line.endswith(b"\n"):
            facts = json.loads(line)
            yield Entry(**{**facts, "event": Event(facts["event"])})
