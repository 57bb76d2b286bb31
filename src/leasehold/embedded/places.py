"""Folders of a server: its home, or a folder that the account of postgres can reach."""

import contextlib
import fcntl
import hashlib
import os
import re
import secrets
import shutil
import stat
import tempfile
from pathlib import Path

from leasehold.embedded.account import Account, account_for, require_own_data
from leasehold.embedded.guard.files import UnsafeFile, make_folder, read_in_home, require_own_file, write_in_home
from leasehold.embedded.locks import is_locked, only_starter
from leasehold.errors import EmbeddedError

SYSTEM_FOLDER = Path("/var/lib/leasehold")
LOCKS = ("start.lock", "clients.lock", "guard.lock")
FILES = (*LOCKS, "location", "belongs-to", "server.json", "guard.log", "postgres.log")
LONGEST_SOCKET_PATH = 100  # the kernel's limit is 104 bytes on macOS, 108 on Linux
HIDDEN_FROM_GIT = "*\n"  # `git add -A` beside a home staged 2,118 files


def prepare_home(home: Path) -> Path:
    """Returns the folder for locks, logs and data: `home`, unless it is root's and postgres can't reach it.

    For root, a home such as /root/project/.leasehold is closed to the account that runs postgres, and the modes of
    /root must not change. Then all files are in a new folder of /var/lib/leasehold (or of the temporary folder, if
    home is in it), and `home/location` names that folder. Its name is random and does not depend on home's path: a
    later home with the same path is new and must not find old data.
    """
    home = home.expanduser()
    require_own_path(home.absolute())
    home = home.resolve()
    if not home.exists():
        make_home(home)
    require_own_files(home)
    hide_from_git(home)
    with only_starter(home):
        place = moved_to(home) or place_for(home)
    require_own_files(place)
    return place


def require_own_path(path: Path, links: int = 40) -> None:
    """Refuses, for root, a path through a symbolic link of another user, which could lead anywhere."""
    if os.geteuid() != 0:
        return
    for part in (*reversed(path.parents), path):
        try:
            found = part.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return
        if not stat.S_ISLNK(found.st_mode):
            continue
        if found.st_uid != 0 or not links:
            raise UnsafeFile(f"{part} is a symbolic link that user {found.st_uid} has made.")
        require_own_path(part.parent / os.readlink(part), links - 1)


def require_own_files(home: Path) -> None:
    """Checks every file that will be opened before anything is created; open_in_home checks each one again."""
    for name in FILES:
        with contextlib.suppress(FileNotFoundError):
            require_own_file(home / name, (home / name).lstat())
    if os.geteuid() == 0:
        require_own_data(home / "pgdata")


def make_home(home: Path) -> None:
    """Makes the home with its final mode in one step, so that a concurrent first start never sees it closed."""
    home.parent.mkdir(parents=True, exist_ok=True)
    unfinished = home.with_name(f"{home.name}.{secrets.token_hex(4)}")
    # Root's home is open, so that postgres can enter; private files in it have their own modes.
    mode = 0o755 if os.geteuid() == 0 else 0o700
    make_folder(unfinished, mode, files={".gitignore": HIDDEN_FROM_GIT})
    try:
        unfinished.rename(home)
    except OSError:
        shutil.rmtree(unfinished)
        if not home.is_dir():  # else another process has made it and uses it already
            raise


def hide_from_git(home: Path) -> None:
    """Adds a .gitignore to a home of 0.1.0 or an empty folder. Other folders are not changed."""
    if not any(home.iterdir()) or any((home / name).exists() for name in ("pgdata", "location")):
        with contextlib.suppress(OSError):  # it exists, or this user may not write there
            descriptor = os.open(home / ".gitignore", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
            with open(descriptor, "w") as file:
                file.write(HIDDEN_FROM_GIT)


def moved_to(home: Path) -> Path | None:
    """Returns the folder that root moved the home to. For root, only root's own file is trusted."""
    try:
        place = Path(read_in_home(home / "location", owner=0 if os.geteuid() == 0 else None).strip())
    except FileNotFoundError:
        return None
    require_own_path(place)
    if not place.is_dir():
        raise EmbeddedError(
            f"{home / 'location'} names the folder {place}, but that folder does not exist.",
            fix=f"Restore it; or delete {home} to start with an empty database. Nothing was changed.",
        )
    return place


def place_for(home: Path) -> Path:
    data = home / "pgdata"
    account = account_for(data)
    if account is None or account.can_enter(home):
        return home
    if data.exists():
        raise EmbeddedError(
            f"Root can't run Postgres, and the owner of {data}, {account.name}, can't enter it.",
            fix=f"Let {account.name} enter the parent folders, or move {home}. Nothing was changed.",
        )
    return move_away(home, account)


def move_away(home: Path, account: Account) -> Path:
    temporary = Path(tempfile.gettempdir()).resolve()
    if home.is_relative_to(temporary) and account.can_enter(temporary):
        remove_lost_homes(temporary)
        parent = temporary
    else:
        parent = public_folder(SYSTEM_FOLDER)
    place = Path(tempfile.mkdtemp(prefix="leasehold-home-", dir=parent))
    place.chmod(0o755)
    write_in_home(home / "location", f"{place}\n")
    write_in_home(place / "belongs-to", f"{home}\n")  # last: a folder without it never counts as lost
    return place


def remove_lost_homes(temporary: Path) -> None:
    """Removes moved folders whose home was deleted, as test suites do.

    Only in the temporary folder: elsewhere a missing home may be on a disk that is not mounted.
    """
    for place in temporary.glob("leasehold-home-*"):
        with contextlib.suppress(OSError, UnsafeFile):
            if place.lstat().st_uid != 0:
                continue  # any user can make a folder of that name, with anything in it
            location = Path(read_in_home(place / "belongs-to", owner=0).strip(), "location")
            lost = not location.exists() or read_in_home(location).strip() != str(place)
            in_use = is_locked(place, "guard.lock") or is_locked(place, "clients.lock", against=fcntl.LOCK_EX)
            if lost and not in_use:
                shutil.rmtree(place)


def public_folder(folder: Path) -> Path:
    """Makes a folder that every account can enter, regardless of root's umask; keeps an existing one as it is."""
    if not folder.exists():
        public_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)
    return folder


def folder_for_copies() -> Path:
    """Returns the folder for copies of binaries that other accounts can run."""
    return public_folder(SYSTEM_FOLDER / "binaries")


def mark_of(home: Path) -> str:
    return hashlib.sha256(os.fsencode(home)).hexdigest()[:12]


def make_socket_folder(home: Path, account: Account | None, port: int) -> Path:
    """Makes the socket folder in home if its path is short and plain enough, else in the temporary folder."""
    name = f".s.PGSQL.{port}"
    for folder in (
        home / "socket",
        Path(tempfile.gettempdir(), f"leasehold-{mark_of(home)}"),
        Path("/tmp", f"leasehold-{mark_of(home)}"),
    ):
        # A comma or a space would end the name in unix_socket_directories and in the URL's host.
        if re.fullmatch(r"[\w./-]+", str(folder)) and len(os.fsencode(folder / name)) <= LONGEST_SOCKET_PATH:
            return own_folder(folder, account)
    raise AssertionError("unreachable: /tmp is short and plain")


def own_folder(folder: Path, account: Account | None) -> Path:
    """Makes a 0700 folder for the account of postgres: local connections are trusted, so the mode protects them."""
    owner = account.uid if account else os.geteuid()
    with contextlib.suppress(FileExistsError):
        make_folder(folder, 0o700, (account.uid, account.gid) if account else None)
    found = folder.lstat()
    if found.st_uid != owner or found.st_mode & 0o170777 != 0o040700:
        raise EmbeddedError(
            f"The socket folder {folder} is not a private folder of user {owner}.",
            fix="Another user made it: delete it, then start again. Nothing was changed.",
        )
    return folder
