"""The part of a traceback that is the app's own code. No I/O."""

import re
from collections.abc import Iterator

_FRAME = re.compile(r'^(\s*)File "([^"]*)", line \d+')
_LIBRARY = re.compile(r"[/\\](?:site-packages|dist-packages)[/\\]|[/\\]lib(?:64)?[/\\]python3[^/\\]*[/\\]|^<frozen ")


def own_code(traceback: str) -> str | None:
    """Returns the traceback without frames of libraries; None if that would leave all, or nothing, of it."""
    kept = list(_own_lines(traceback.splitlines()))
    has_frames = any(_FRAME.match(line) for line in kept)
    return "\n".join(kept) if has_frames and len(kept) < len(traceback.splitlines()) else None


def _own_lines(lines: list[str]) -> Iterator[str]:
    """Yields lines besides the frames of libraries, each of which lasts until a line is not deeper than its first."""
    dropped: int | None = None
    for line in lines:
        frame = _FRAME.match(line)
        if frame:
            dropped = len(frame[1]) if _LIBRARY.search(frame[2]) else None
        elif dropped is not None and len(line) - len(line.lstrip()) <= dropped:
            dropped = None
        if dropped is None:
            yield line
