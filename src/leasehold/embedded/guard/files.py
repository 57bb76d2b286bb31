"""Files of a home. Another user may own the folder, and root may open the files."""

import errno
import fcntl
import os
import stat
from collections.abc import Mapping
from pathlib import Path


class CannotServe(Exception):
    """Postgres can't be started; the message is for the caller of start()."""


class UnsafeFile(CannotServe):
    """A file in a home is one that this process must not open."""


def open_in_home(path: Path, flags: int, mode: int = 0o600) -> int:
    """Opens a regular file; refuses links, FIFOs and files of other users without changing them.

    Without O_NONBLOCK, opening a FIFO would wait for its other end forever.
    """
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, mode)
    except OSError as problem:
        if problem.errno == errno.ELOOP:
            raise UnsafeFile(f"{path} is a symbolic link, and may lead to a file of another user.") from problem
        if problem.errno in (errno.ENXIO, errno.EISDIR):
            raise UnsafeFile(f"{path} is not a regular file.") from problem
        raise
    try:
        require_own_file(path, os.fstat(descriptor))
        os.set_blocking(descriptor, True)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def require_own_file(path: Path, found: os.stat_result) -> None:
    """Refuses a file unless root, this user, or the owner of the folder owns it.

    A second hard link is refused too: on a system without fs.protected_hardlinks, a user can link any file of the
    same disk into the home.
    """
    if stat.S_ISLNK(found.st_mode):
        raise UnsafeFile(f"{path} is a symbolic link, and may lead to a file of another user.")
    if not stat.S_ISREG(found.st_mode):
        raise UnsafeFile(f"{path} is not a regular file.")
    owners = {0, os.geteuid(), path.parent.stat().st_uid}
    if found.st_uid not in owners:
        raise UnsafeFile(f"{path} belongs to user {found.st_uid}, who is neither the owner of its folder nor root.")
    if found.st_nlink > 1:
        raise UnsafeFile(f"{path} is one of {found.st_nlink} names (hard links) of the same file.")


def read_in_home(path: Path, owner: int | None = None) -> str:
    """Reads a small file. With `owner`, refuses a file of any other user."""
    with open(open_in_home(path, os.O_RDONLY), "rb") as file:
        found = os.fstat(file.fileno()).st_uid
        if owner is not None and found != owner:
            raise UnsafeFile(f"{path} belongs to user {found}, but only a file of user {owner} is trusted.")
        return os.fsdecode(file.read(1_000_000))


def write_in_home(path: Path, text: str) -> None:
    """Writes a new file and replaces the old one by it."""
    unfinished = path.with_name(f"{path.name}.new")
    unfinished.unlink(missing_ok=True)
    with open(unfinished, "x") as file:  # x: never follows a link that another user made
        os.fchmod(file.fileno(), 0o644)
        file.write(text)
    unfinished.replace(path)


def make_folder(
    folder: Path, mode: int, owner: tuple[int, int] | None = None, files: Mapping[str, str] | None = None
) -> None:
    """Makes a folder with mode, owner and content, by its descriptor: another user may replace its name by a link."""
    folder.mkdir(mode=0o700)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(descriptor).st_uid != os.geteuid():
            raise UnsafeFile(f"{folder} was replaced by another user just now.")
        os.fchmod(descriptor, mode)
        for name, text in (files or {}).items():
            with open(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=descriptor), "w") as file:
                file.write(text)
        if owner is not None:
            os.fchown(descriptor, *owner)
    finally:
        os.close(descriptor)


def try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
