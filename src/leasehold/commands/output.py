"""Reads the output of a command: keeps its beginning and end, and makes lines of it, within bounds."""

import re
from typing import Protocol

from leasehold.model.job import LineKind
from leasehold.model.process import SHOWN_HEAD, SHOWN_TAIL, KeptOutput
from leasehold.model.redaction import StreamRedactor

LONGEST_LINE = 8_000
CUT = "… ({size:,} bytes, the first {kept:,} are kept)"

PROGRESS = re.compile(rb"::progress[ \t]+(\d{1,3}(?:\.\d{0,9})?|\.\d{1,9})(?:[ \t]+(.*))?", re.DOTALL)


class LineLog(Protocol):
    """Takes the lines of one job. `append` returns False if the line is not kept because too many wait."""

    def append(self, text: str, kind: LineKind, progress: float | None) -> bool: ...
    def drop(self, count: int) -> None: ...


class HeadAndTail:
    """Keeps the first and the last bytes of a stream, and counts all."""

    def __init__(self) -> None:
        self.size = 0
        self._head = b""
        self._tail = b""

    def feed(self, chunk: bytes) -> None:
        if len(self._head) < SHOWN_HEAD:
            self._head += chunk[: SHOWN_HEAD - len(self._head)]
        self._tail = (self._tail + chunk)[-SHOWN_TAIL:] if len(chunk) < SHOWN_TAIL else chunk[-SHOWN_TAIL:]
        self.size += len(chunk)

    def kept(self) -> KeptOutput:
        """Returns text: bytes that are not UTF-8 are replaced. A short output is its own tail, and has no head."""
        missing = self.size - len(self._tail)
        head = self._head[:missing].decode(errors="replace")
        return KeptOutput(self.size, head, self._tail.decode(errors="replace"))


class Lines:
    """Cuts a stream into lines. A line that is too long is cut and marked; those that the log refuses are counted."""

    def __init__(self, log: LineLog, kind: LineKind, progress: bool) -> None:
        self._log = log
        self._kind = kind
        self._progress = progress
        self._line = b""
        self._size = 0  # of the whole line

    def feed(self, chunk: bytes) -> None:
        """Once the log is full, only counts the rest of the chunk: 5 GB of short lines are 2.5 billion calls."""
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            self._extend(chunk, start, end)
            start = end + 1
            if not self._end_line():
                if count := chunk.count(b"\n", start):
                    self._log.drop(count)
                    start = chunk.rfind(b"\n") + 1
                break
        self._extend(chunk, start, len(chunk))

    def end(self) -> None:
        if self._size:
            self._end_line()

    def _extend(self, chunk: bytes, start: int, end: int) -> None:
        if (room := LONGEST_LINE - len(self._line)) > 0:
            self._line += chunk[start : min(end, start + room)]
        self._size += end - start

    def _end_line(self) -> bool:
        line, size = self._line, self._size
        self._line, self._size = b"", 0
        if self._progress and line.startswith(b"::progress") and (found := PROGRESS.fullmatch(line.rstrip(b"\r"))):
            text = (found[2] or b"").decode(errors="replace")
            return self._log.append(text, LineKind.PROGRESS, min(1.0, float(found[1])))
        text = line.removesuffix(b"\r").decode(errors="replace")
        if size > len(line):
            text += CUT.format(size=size, kept=len(line))
        return self._log.append(text, self._kind, None)


class Output:
    """One stream of a command: redacted first, then kept and cut into lines."""

    def __init__(self, log: LineLog, kind: LineKind, redactor: StreamRedactor, *, progress: bool = True) -> None:
        self._redactor = redactor
        self._ends = HeadAndTail()
        self._lines = Lines(log, kind, progress)
        self._size = 0

    def feed(self, chunk: bytes) -> None:
        self._size += len(chunk)
        self._take(self._redactor.feed(chunk))

    def end(self) -> None:
        self._take(self._redactor.flush())
        self._lines.end()

    def kept(self) -> KeptOutput:
        kept = self._ends.kept()
        return KeptOutput(self._size, kept.head, kept.tail)

    def _take(self, chunk: bytes) -> None:
        if chunk:
            self._ends.feed(chunk)
            self._lines.feed(chunk)
