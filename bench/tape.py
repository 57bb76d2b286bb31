"""Start times that handlers write to shared memory: cheap for every system, readable while it runs.

A tape is a file of records of three little-endian 64-bit integers: when the handler started, when the job was sent,
both in nanoseconds of the machine's monotonic clock, and the job's number. Unwritten records are zero.
"""

import mmap
import struct
from bisect import bisect_left
from pathlib import Path
from time import monotonic_ns
from typing import NamedTuple

RECORD = struct.Struct("<qqq")


class Start(NamedTuple):
    at: int
    sent: int
    number: int

    @property
    def waited_ms(self) -> float:
        return (self.at - self.sent) / 1e6


class Tape:
    """Written by one process, read by another."""

    def __init__(self, path: Path | str) -> None:
        with open(path, "r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)
        self._written = 0

    @staticmethod
    def blank(path: Path, records: int) -> "Tape":
        with path.open("wb") as file:
            file.truncate(records * RECORD.size)
        return Tape(path)

    def note(self, number: int, sent: int) -> None:
        RECORD.pack_into(self._memory, self._written * RECORD.size, monotonic_ns(), sent, number)
        self._written += 1

    def __len__(self) -> int:
        """How many records are written: they have no gaps, so the first blank one is searched by halves."""
        return bisect_left(range(len(self._memory) // RECORD.size), True, key=self._is_blank)

    def __getitem__(self, place: int) -> Start:
        return Start(*RECORD.unpack_from(self._memory, place * RECORD.size))

    def starts(self) -> list[Start]:
        written = self._memory[: len(self) * RECORD.size]
        return [Start(*record) for record in RECORD.iter_unpack(written)]

    def close(self) -> None:
        self._memory.close()

    def _is_blank(self, place: int) -> bool:
        return self[place].at == 0
