"""The locks of a home, as clients use them. leasehold.embedded.guard documents each lock."""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from leasehold.embedded.guard.files import open_in_home, try_lock
from leasehold.errors import EmbeddedError

START_LIMIT = 60.0


@contextlib.contextmanager
def only_starter(home: Path) -> Iterator[None]:
    descriptor = open_lock(home, "start.lock")
    try:
        lock_within(START_LIMIT * 2, descriptor, fcntl.LOCK_EX, "another process that starts it")
        try:
            yield
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # explicitly, because a forked child may have the descriptor too
    finally:
        os.close(descriptor)


def take_reference(home: Path) -> int:
    """Takes a client's lock, with which no guard stops the server; waits for a guard that is stopping it already."""
    descriptor = open_lock(home, "clients.lock")
    try:
        lock_within(START_LIMIT, descriptor, fcntl.LOCK_SH, "the last server to stop")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def open_lock(home: Path, name: str) -> int:
    return open_in_home(home / name, os.O_RDWR | os.O_CREAT)


def lock_within(limit: float, descriptor: int, kind: int, whom: str) -> None:
    deadline = time.monotonic() + limit
    while not try_lock(descriptor, kind):
        if time.monotonic() > deadline:
            raise EmbeddedError(
                f"Waited {limit:.0f} s for {whom}.",
                fix="See guard.log and postgres.log in the home for what it is doing. Nothing was changed.",
            )
        time.sleep(0.01)


def is_locked(home: Path, name: str, *, against: int = fcntl.LOCK_SH) -> bool:
    """Returns whether another process holds a conflicting lock. Creates no file, because home may be deleted."""
    try:
        descriptor = open_in_home(home / name, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        if not try_lock(descriptor, against):
            return True
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        return False
    finally:
        os.close(descriptor)
