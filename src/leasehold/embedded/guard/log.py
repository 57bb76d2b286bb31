"""guard.log and postgres.log: writes notes, also on a full disk, and reads why postgres ended."""

import contextlib
import os
import time
from collections import deque
from pathlib import Path

from .files import open_in_home

LOG_LIMIT = 10 * 1024 * 1024
late_notes: deque[bytes] = deque(maxlen=100)


def note(message: str) -> None:
    """Writes a line to standard error, which is guard.log; if the disk is full, as soon as it has space again."""
    late_notes.append(f"{time.strftime('%Y-%m-%d %H:%M:%S')} [{os.getpid()}] {message}\n".encode(errors="replace"))
    write_late_notes()


def write_late_notes() -> None:
    with contextlib.suppress(OSError):
        while late_notes:
            written = os.write(2, late_notes[0])
            if rest := late_notes[0][written:]:
                late_notes[0] = rest
            else:
                late_notes.popleft()


def open_log(path: Path) -> int:
    """Opens a log for appending; truncates it first if it is larger than 10 MB."""
    log = open_in_home(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    if os.fstat(log).st_size > LOG_LIMIT:
        os.ftruncate(log, 0)
    return log


def size_of(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def read_from(path: Path, place: int) -> bytes:
    """Reads the text after `place`, or all of it if the log was truncated."""
    try:
        with open(open_in_home(path, os.O_RDONLY), "rb") as log:
            log.seek(place if os.fstat(log.fileno()).st_size >= place else 0)
            return log.read()
    except OSError:
        return b""


def end_of_log(path: Path) -> str:
    try:
        with open(open_in_home(path, os.O_RDONLY), "rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - 4096))
            lines = log.read().decode(errors="replace").splitlines()
    except OSError as problem:
        return f"{path} can't be read: {problem}."
    return f"{path} ends with:\n" + "\n".join(lines[-6:]) + "\n"


def last_error(log: bytes) -> str:
    """Returns why postgres ended, without the time and the process at the start, which differ every time."""
    lines = log.decode(errors="replace").splitlines()
    for line in reversed(lines):
        for level in ("PANIC:  ", "FATAL:  "):
            if level in line:
                return line[line.index(level) :].replace(":  ", ": ", 1)
    return lines[-1] if lines else ""
