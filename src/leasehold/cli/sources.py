"""Watches an app's folder for changed Python files, each folder of the tree by itself.

A recursive watch of the whole tree ends at the first folder that it may not read. If it is told to ignore that error,
it misses the folders that come after it, without a word (watchfiles 1.3).
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

NOT_WALKED = "site-packages"
# A folder may vanish between the walk and the watch; the tree is walked again after this many seconds.
WALK_AGAIN = 0.5
# The watch has surely begun after this many milliseconds; then files that changed before are searched.
BEGUN_AFTER = 5_000
# A file's time comes from a clock that moves in steps of up to 10 ms: it can be earlier than the moment of the write.
CLOCK_TICK = 0.02


@dataclass(frozen=True, slots=True)
class Tree:
    """The folders below one folder, itself included: those to watch, and those that may not be read."""

    folders: tuple[str, ...]
    unreadable: tuple[str, ...]


def walk(top: Path, skipped: Sequence[str]) -> Tree:
    """Walks a tree along links, each folder once."""
    folders, unreadable = list[str](), list[str]()
    visited = set[tuple[int, int]]()

    def refuse(error: OSError) -> None:
        if isinstance(error, PermissionError):
            unreadable.append(str(error.filename))

    for place, names, _ in os.walk(os.path.abspath(top), onerror=refuse, followlinks=True):
        try:
            status = os.stat(place)
        except OSError:
            names.clear()
            continue
        if (identity := (status.st_dev, status.st_ino)) in visited:
            names.clear()
            continue
        visited.add(identity)
        folders.append(place)
        names[:] = sorted(name for name in names if name not in skipped)
    return Tree(tuple(folders), tuple(unreadable))


async def changed_files(
    top: Path, warn: Callable[[Sequence[str]], None], also: Path | None = None
) -> AsyncIterator[list[str]]:
    """Yields the names of changed files, for ever: those of Python, and `also`, if it is below the folder.

    Calls `warn` with folders that it can't read, once for each.
    """
    from watchfiles import DefaultFilter, PythonFilter, awatch

    class Watched(PythonFilter):
        """Python files, and folders: a new one has to be watched, too."""

        ignore_dirs = (*PythonFilter.ignore_dirs, ".leasehold")
        folders: frozenset[str] = frozenset()

        def __call__(self, change: object, path: str) -> bool:
            if not DefaultFilter.__call__(self, change, path):  # type: ignore[arg-type]
                return False
            return path.endswith(self.extensions) or path in self.folders or os.path.isdir(path)

    besides = [] if also is None else [also.name]
    watched, warned = Watched(extra_extensions=[f"{os.sep}{name}" for name in besides]), set[str]()
    names = ("*.py", *besides)
    skipped = (*watched.ignore_dirs, NOT_WALKED)
    unwatched_since: float | None = time.time()
    tree = await asyncio.to_thread(walk, top, skipped)
    while True:
        if unreadable := [place for place in tree.unreadable if place not in warned]:
            warned.update(unreadable)
            warn(unreadable)
        watched.folders = frozenset(tree.folders)
        try:
            watch = partial(awatch, watch_filter=watched, recursive=False, yield_on_timeout=True)
            async for changes in watch(*tree.folders, rust_timeout=BEGUN_AFTER):
                paths = {path for _, path in changes}
                files = {path for path in paths if path.endswith(watched.extensions)}
                if unwatched_since is not None:
                    missed = await asyncio.to_thread(_files_since, unwatched_since, tree.folders, names)
                    paths, files, unwatched_since = paths | missed, files | missed, None
                if files:
                    yield sorted(files)
                if len(files) < len(paths):
                    break
            else:
                return
        except (FileNotFoundError, PermissionError):
            await asyncio.sleep(WALK_AGAIN)
        unwatched_since = time.time()
        tree = await asyncio.to_thread(walk, top, skipped)
        if fresh := await asyncio.to_thread(_files_since, 0.0, set(tree.folders) - watched.folders, names):
            yield sorted(fresh)


def _files_since(moment: float, folders: Iterable[str], names: Sequence[str]) -> set[str]:
    """Returns files of these names that were modified since then: their folder may not have been watched."""
    found = set[str]()
    for file in (file for place in folders for name in names for file in Path(place).glob(name)):
        with suppress(OSError):
            if file.stat().st_mtime >= moment - CLOCK_TICK:
                found.add(str(file))
    return found
