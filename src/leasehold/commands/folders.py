"""Working folders of commands: one for each run, removed with it. And locks, which tell that a guard is alive.

A run's guard removes its folder, also after kill -9 of the worker. If both were killed, the folder is left, and a
later worker on this host removes it. A lock tells that nothing uses it: the guard holds the lock of its folder as
long as it lives, and the kernel frees it with the process. The lock's file is made before the folder, removed after
it. It contains the mark of the run: processes with that mark in their environment are leftovers, too.
"""

import fcntl
import os
import secrets
import stat
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from leasehold.commands.folder_removal import remove_folder
from leasehold.commands.orphans import kill_marked

LOCK = ".lock"
LONGEST_MARK = 4096
LOOK_FOR_LEFTOVERS_EVERY = 3600.0


@dataclass(frozen=True, slots=True)
class Lock:
    """A locked file. `descriptor` is for the guard."""

    path: Path
    descriptor: int

    def release(self) -> None:
        """Closes the descriptor. The lock is free once the guard has ended, too."""
        os.close(self.descriptor)

    def remove(self) -> None:
        """Removes the file, if no guard does."""
        with suppress(OSError):
            self.path.unlink()


@dataclass(frozen=True, slots=True)
class WorkingFolder:
    """A new folder that only this user can read. `lock` is the descriptor of its locked file, for the guard."""

    path: Path
    lock_path: Path
    lock: int

    def write(self, name: str, content: bytes) -> Path:
        """Writes a file that only this user can read. Returns its path."""
        path = self.path / name
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as file:
            file.write(content)
        return path

    def release(self) -> None:
        """Closes the lock's descriptor. The lock is free once the guard has ended, too."""
        os.close(self.lock)

    def remove(self) -> None:
        """Removes the folder of a run without a guard."""
        with suppress(OSError):
            remove_folder(str(self.path))
            self.lock_path.unlink()


def parent_folder() -> Path:
    """Returns the folder of this user's working folders, and makes it. Raises OSError if others can write to it."""
    folder = _parent_path()
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise PermissionError(f"{folder} is not a folder that this user alone can read")
    return folder


def _parent_path() -> Path:
    return Path(tempfile.gettempdir(), f"leasehold-commands-{os.geteuid()}")


def make_folder(mark: bytes = b"") -> WorkingFolder:
    """Makes a working folder and locks it."""
    lock = make_lock(mark)
    path = lock.path.with_suffix("")
    try:
        path.mkdir(mode=0o700)
    except BaseException:
        lock.remove()
        lock.release()
        raise
    return WorkingFolder(path, lock.path, lock.descriptor)


def make_lock(mark: bytes) -> Lock:
    """Makes a file with the mark, and locks it."""
    parent = parent_folder()
    while True:
        path = parent / f"{secrets.token_hex(8)}{LOCK}"
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            if _is_ours(lock, path):
                os.write(lock, mark)
                return Lock(path, lock)
        except BaseException:  # the disk is full, for example
            Lock(path, lock).remove()
            os.close(lock)
            raise
        os.close(lock)


def _is_ours(lock: int, path: Path) -> bool:
    """Takes the lock; returns False if another process, which looks for leftovers, has taken or removed the file."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(lock), path.stat())
    except (BlockingIOError, FileNotFoundError):
        return False


class _Leftovers:
    looked_at = float("-inf")


def look_for_leftovers() -> None:
    """Removes what killed workers and guards left on this host, in a thread; at most once an hour."""
    if monotonic() < _Leftovers.looked_at + LOOK_FOR_LEFTOVERS_EVERY:
        return
    _Leftovers.looked_at = monotonic()
    with suppress(RuntimeError):  # the system has refused the thread
        threading.Thread(target=remove_leftovers, name="leasehold-leftovers", daemon=True).start()


def remove_leftovers() -> int:
    """Ends the processes and removes the folders of runs whose guard is gone. Returns how many runs."""
    removed = 0
    if not _parent_path().exists():
        return removed
    with suppress(OSError):
        for lock_path in parent_folder().glob(f"*{LOCK}"):
            removed += _remove_leftover(lock_path)
    return removed


def _remove_leftover(lock_path: Path) -> bool:
    try:
        lock = os.open(lock_path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if mark := os.read(lock, LONGEST_MARK):
            kill_marked(mark)
        with suppress(FileNotFoundError):
            remove_folder(str(lock_path.with_suffix("")))
        lock_path.unlink()
    except OSError:  # its run goes on, or a file can't be removed
        return False
    finally:
        os.close(lock)
    return True
