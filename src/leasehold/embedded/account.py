"""The account that runs postgres. Postgres refuses to run as root, so root uses another account."""

import os
import pwd
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path

from leasehold.embedded.guard.files import UnsafeFile
from leasehold.errors import EmbeddedError


@dataclass(frozen=True)
class Account:
    name: str
    uid: int
    gid: int

    def can_run(self, command: list[str]) -> bool:
        """Returns whether the command succeeds for this account; file modes alone ignore access lists and mounts."""
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                user=self.uid,
                group=self.gid,
                extra_groups=[],
            )
        except OSError:
            return False
        return done.returncode == 0

    def can_enter(self, folder: Path) -> bool:
        return self.can_run(["/bin/sh", "-c", 'cd -- "$1"', "sh", str(folder)])


def account_for(data: Path) -> Account | None:
    """Returns None for the current user; for root the owner of the data or its home, else `postgres`, else `nobody`.

    The owner comes first, so that after a `sudo`, or from a container, the owner of the folder can still use it.
    """
    if os.geteuid() != 0:
        return None
    for place in (data, data.parent):
        if place.exists() and (owner := place.stat()).st_uid != 0:
            return Account(name_of(owner.st_uid), owner.st_uid, owner.st_gid)
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(name, entry.pw_uid, entry.pw_gid)
    raise EmbeddedError(
        "Postgres does not run as root, and this machine has no account `postgres` or `nobody` to run it.",
        fix="Run as an ordinary user, or create one: useradd --system postgres. Nothing was changed.",
    )


def require_own_data(data: Path) -> None:
    """Refuses data that belongs to a user other than root and the owner of the home, or is a link."""
    if not os.path.lexists(data):
        return
    owner, found = data.parent.stat().st_uid, data.lstat()
    if stat.S_ISLNK(found.st_mode) and found.st_uid != 0:
        raise UnsafeFile(f"{data} is a symbolic link that user {found.st_uid} has made.")
    if not data.is_dir():
        raise UnsafeFile(f"{data} is not a folder.")
    if owner != 0 and found.st_uid not in (0, owner):
        raise UnsafeFile(f"{data} belongs to user {found.st_uid}, but its home to user {owner}.")


def name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
