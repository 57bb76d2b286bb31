"""Where the files of a server live: its home, or where the account that runs postgres can reach it."""

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
from leasehold.embedded.guard import UnsafeFile, make_folder, read_in_home, require_own_file, write_in_home
from leasehold.embedded.locks import is_locked, only_starter
from leasehold.errors import EmbeddedError

SYSTEM_FOLDER = Path("/var/lib/leasehold")
LOCKS = ("start.lock", "clients.lock", "guard.lock")
FILES = (*LOCKS, "location", "belongs-to", "server.json", "guard.log", "postgres.log")
LONGEST_SOCKET_PATH = 100  # the kernel's limit is 104 bytes on macOS, 108 on Linux
HIDDEN_FROM_GIT = "*\n"  # `git add -A` beside a home staged 2,118 files


def prepare_to_sleep(home: Path) -> Path:
    """The folder that holds locks, logs and data: `home`, unless root has it where postgres can't reach it.

    For root, a home such as /root/project/.leasehold is closed to the account that has to run postgres, and
    opening /root for it is not ours to do. Then everything lives in a new folder of /var/lib/leasehold (of
    the temporary folder, if home is in there) and `home/location` says which. Its name is random, not made
    from home's path: another home that comes to the same path later is new and must not find old data.
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
    """Refuses, for root, a path through a link of another user, who could lead root anywhere by it."""
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
    """Looks at every name that will be opened, before anything is made. What changes later, open_in_home refuses."""
    for name in FILES:
        with contextlib.suppress(FileNotFoundError):
            require_own_file(home / name, (home / name).lstat())
    if os.geteuid() == 0:
        require_own_data(home / "pgdata")


def make_home(home: Path) -> None:
    """At once with its final mode: another first start must not see it closed and take the data elsewhere."""
    home.parent.mkdir(parents=True, exist_ok=True)
    unfinished = home.with_name(f"{home.name}.{secrets.token_hex(4)}")
    # Root's is open: postgres has to pass, and what is private inside has its own mode.
    mode = 0o755 if os.geteuid() == 0 else 0o700
    make_folder(unfinished, mode, files={".gitignore": HIDDEN_FROM_GIT})
    try:
        unfinished.rename(home)
    except OSError:
        shutil.rmtree(unfinished)
        if not home.is_dir():  # else another process made it and is already at work in it
            raise


def hide_from_git(home: Path) -> None:
    """Adds the .gitignore that a home of 0.1.0, or an empty folder, does not have. Other folders are left alone."""
    if not any(home.iterdir()) or any((home / name).exists() for name in ("pgdata", "location")):
        with contextlib.suppress(OSError):  # it is there, or the folder is not ours to write to
            descriptor = os.open(home / ".gitignore", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
            with open(descriptor, "w") as file:
                file.write(HIDDEN_FROM_GIT)


def moved_to(home: Path) -> Path | None:
    """Only root moves homes. For root, a file of anybody else could name any folder of the machine."""
    try:
        place = Path(read_in_home(home / "location", owner=0 if os.geteuid() == 0 else None).strip())
    except FileNotFoundError:
        return None
    require_own_path(place)
    if not place.is_dir():
        raise EmbeddedError(
            f"{home / 'location'} says that the data is in {place}, but that folder does not exist.",
            fix=f"Bring it back; or delete {home} to begin with an empty database. Nothing was changed.",
        )
    return place


def place_for(home: Path) -> Path:
    data = home / "pgdata"
    account = account_for(data)
    if account is None or account.can_enter(home):
        return home
    if data.exists():
        raise EmbeddedError(
            f"Root can't run Postgres, and the owner of {data}, {account.name}, can't get there.",
            fix=f"Let {account.name} pass through the folders above, or move {home}. Nothing was changed.",
        )
    return move_away(home, account)


def move_away(home: Path, account: Account) -> Path:
    temporary = Path(tempfile.gettempdir()).resolve()
    if home.is_relative_to(temporary) and account.can_enter(temporary):
        remove_what_lost_homes_left(temporary)
        parent = temporary
    else:
        parent = public_folder(SYSTEM_FOLDER)
    place = Path(tempfile.mkdtemp(prefix="leasehold-home-", dir=parent))
    place.chmod(0o755)
    write_in_home(home / "location", f"{place}\n")
    write_in_home(place / "belongs-to", f"{home}\n")  # last: without it nobody takes the place for lost
    return place


def remove_what_lost_homes_left(temporary: Path) -> None:
    """Test suites make a home per run and delete it. Only in the temporary folder: elsewhere a home that is
    not there may be on a disk that comes back.
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
    """Made so that every account can pass, whatever root's umask is; left alone when it exists."""
    if not folder.exists():
        public_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)
    return folder


def mark_of(home: Path) -> str:
    return hashlib.sha256(os.fsencode(home)).hexdigest()[:12]


def make_socket_folder(home: Path, account: Account | None, port: int) -> Path:
    """In home where its path is short and plain enough for a socket, else in the temporary folder."""
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
    """A 0700 folder of whoever runs postgres: local connections are trusted, so this mode is the door."""
    owner = account.uid if account else os.geteuid()
    with contextlib.suppress(FileExistsError):
        make_folder(folder, 0o700, (account.uid, account.gid) if account else None)
    found = folder.lstat()
    if found.st_uid != owner or found.st_mode & 0o170777 != 0o040700:
        raise EmbeddedError(
            f"The socket folder {folder} is not a private folder of user {owner}.",
            fix="Somebody else made it: delete it, then start again. Nothing was changed.",
        )
    return folder
