"""How the process of a command ended, as it is recorded in the attempt."""

from dataclasses import dataclass
from typing import Any

import orjson

from leasehold.model.payload import make_storable

SHOWN_HEAD = 16 * 1024
"""Bytes of the beginning of an output that are kept, if it is longer than its tail."""
SHOWN_TAIL = 64 * 1024
"""Bytes of the end of an output that are kept."""
SHOWN_ARGUMENTS = 4_000
SHOWN_ARGUMENT = 400


@dataclass(frozen=True, slots=True)
class KeptOutput:
    """The end of an output, its beginning if that is not part of the end, and how many bytes it had."""

    size: int = 0
    head: str = ""
    tail: str = ""


@dataclass(frozen=True, slots=True)
class ProcessEnd:
    """The end of a command's process: an exit code, or the signal that ended it; neither, if it was never executed.

    stopped      whether the worker ended it, because of a timeout, a cancel, a shutdown or a lost lease
    cpu          seconds of processor time that the program and all that it started used; None: unknown
    max_memory   bytes of memory that the program had at most
    leftovers    how many of its processes were still alive when it ended; they were ended then
    """

    argv: tuple[str, ...]
    pid: int | None = None
    exit_code: int | None = None
    signal: str | None = None
    stopped: bool = False
    stdout: KeptOutput = KeptOutput()
    stderr: KeptOutput = KeptOutput()
    cpu: float | None = None
    max_memory: int | None = None
    leftovers: int = 0

    def as_json(self) -> str:
        """Returns the attempt's details as JSON that can always be stored, however hostile the output is."""
        details: dict[str, Any] = {
            "argv": _shorten(self.argv),
            "pid": self.pid,
            "signal": self.signal,
            "cpu_seconds": self.cpu,
            "max_memory": self.max_memory,
            "leftovers": self.leftovers or None,
        }
        for name, kept in (("stdout", self.stdout), ("stderr", self.stderr)):
            details[f"{name}_bytes"] = kept.size
            details[f"{name}_head"] = make_storable(kept.head, SHOWN_HEAD) or None
            details[f"{name}_tail"] = make_storable(kept.tail, SHOWN_TAIL)
        return orjson.dumps({name: value for name, value in details.items() if value is not None}).decode()


def _shorten(argv: tuple[str, ...]) -> list[str]:
    """Returns the arguments; long ones are cut, and the last ones left out if all are too long."""
    shown: list[str] = []
    left = SHOWN_ARGUMENTS
    for argument in argv:
        if left <= 0:
            return [*shown, f"… and {len(argv) - len(shown)} more"]
        shown.append(make_storable(argument, SHOWN_ARGUMENT))
        left -= len(shown[-1])
    return shown
