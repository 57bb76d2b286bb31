"""Finds other processes of `leasehold dev` in the same folder: each holds the lock of a file of its own."""

import fcntl
import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from leasehold.embedded.places import own_folder
from leasehold.errors import EmbeddedError


class Presence:
    """This process among those that run `leasehold dev` in a folder.

    The files are in the temporary folder, since an app with a database URL has no .leasehold of its own. The lock of
    a file ends with its process, however that ends.
    """

    def __init__(self, folder: Path) -> None:
        self._descriptor: int | None = None
        self._told: set[int] = set()
        mark = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:16]
        with suppress(
            OSError, EmbeddedError
        ):  # another user owns a folder of that name: other processes stay unknown
            parent = own_folder(Path(tempfile.gettempdir(), f"leasehold-dev-{os.geteuid()}"), None)
            self._folder = own_folder(parent / mark, None)
            self._descriptor = self._lock(self._folder / str(os.getpid()))

    def changes(self) -> tuple[set[int], set[int]]:
        """Returns the ids of processes that have come and gone since the last call."""
        others = set(self._others())
        come, gone = others - self._told, self._told - others
        self._told = others
        return come, gone

    def end(self) -> None:
        if self._descriptor is not None:
            (self._folder / str(os.getpid())).unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = None
            with suppress(OSError):  # it is not empty
                self._folder.rmdir()

    def _lock(self, file: Path) -> int:
        """Creates and locks the file. Tries again if another process removed it as an abandoned one."""
        while True:
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), os.stat(file)):
                    return descriptor
            os.close(descriptor)

    def _others(self) -> Iterator[int]:
        if self._descriptor is None:
            return
        with suppress(FileNotFoundError):
            for name in os.listdir(self._folder):
                if name.isdecimal() and int(name) != os.getpid() and self._is_held(self._folder / name):
                    yield int(name)

    def _is_held(self, file: Path) -> bool:
        try:
            descriptor = os.open(file, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.unlink(missing_ok=True)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False
