"""In a folder of another user, root follows no link, waits for no FIFO and trusts no file of that user."""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import copy_cluster
from tests.embedded.processes import QUICK
from tests.embedded.test_accounts import NOBODY

from leasehold import embedded
from leasehold.embedded import places
from leasehold.embedded.account import Account
from leasehold.embedded.guard.files import UnsafeFile, open_in_home, write_in_home
from leasehold.embedded.guard.plan import Plan
from leasehold.errors import EmbeddedError

pytestmark = [pytest.mark.usefixtures("as_root"), pytest.mark.timeout(60)]  # opening a FIFO may take for ever
DAEMON = Account("daemon", 1, 1)
Trap = Callable[[Path], None]
FILES = [
    *("start.lock", "clients.lock", "guard.lock", "location", "belongs-to"),
    *("server.json", "guard.log", "postgres.log", "pgdata"),
]


@pytest.fixture
def victim(folder: Path) -> Path:
    """A folder that only root may change."""
    (folder / "victim").mkdir()
    return folder / "victim"


@pytest.fixture
def foreign_home(new_home: Path) -> Path:
    """A home that another user owns, in a folder of that user."""
    new_home.mkdir()
    for made in (new_home.parent, new_home):
        shutil.chown(made, NOBODY.uid, NOBODY.gid)
    return new_home


def link(victim: Path, name: Path) -> None:
    name.symlink_to(victim / "target")
    os.lchown(name, NOBODY.uid, NOBODY.gid)


def fifo(_victim: Path, name: Path) -> None:
    os.mkfifo(name)
    shutil.chown(name, NOBODY.uid, NOBODY.gid)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("trap", [link, fifo])
def test_root_refuses_links_and_fifos_in_a_home(
    foreign_home: Path, victim: Path, name: str, trap: Callable[[Path, Path], None]
) -> None:
    trap(victim, foreign_home / name)
    before = sorted(foreign_home.iterdir())
    with pytest.raises(EmbeddedError, match=rf"(?s)/{name} is .*Nothing was changed"):
        embedded.start(foreign_home, settings=QUICK)
    assert list(victim.iterdir()) == []
    assert sorted(foreign_home.iterdir()) == before


@pytest.mark.parametrize("trap", [link, fifo])
@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_RDWR | os.O_CREAT, os.O_WRONLY | os.O_APPEND | os.O_CREAT])
def test_a_name_that_became_a_trap_is_not_opened(
    foreign_home: Path, victim: Path, flags: int, trap: Callable[[Path, Path], None]
) -> None:
    trap(victim, foreign_home / "guard.log")
    with pytest.raises(UnsafeFile):
        open_in_home(foreign_home / "guard.log", flags)
    assert list(victim.iterdir()) == []


@pytest.mark.parametrize("name", FILES)
def test_root_refuses_what_a_third_user_owns(foreign_home: Path, name: str) -> None:
    found = foreign_home / name
    if name == "pgdata":
        found.mkdir()
    else:
        found.touch()
    shutil.chown(found, DAEMON.uid, DAEMON.gid)
    with pytest.raises(EmbeddedError, match=rf"(?s)/{name} belongs to user 1.*Nothing was changed"):
        embedded.start(foreign_home, settings=QUICK)


def test_root_refuses_a_file_that_has_another_name(foreign_home: Path, victim: Path) -> None:
    (victim / "target").write_text("word")
    os.link(victim / "target", foreign_home / "guard.log")
    with pytest.raises(EmbeddedError, match="one of 2 names"):
        embedded.start(foreign_home, settings=QUICK)
    assert (victim / "target").read_text() == "word"


def test_root_refuses_a_location_that_is_not_its_own(foreign_home: Path, victim: Path) -> None:
    (foreign_home / "location").write_text(f"{victim}\n")
    shutil.chown(foreign_home / "location", NOBODY.uid, NOBODY.gid)
    with pytest.raises(EmbeddedError, match=r"(?s)location belongs to user .*Nothing was changed"):
        embedded.start(foreign_home, settings=QUICK)
    assert list(victim.iterdir()) == []


@pytest.mark.parametrize("path", ["link", "link/home"])
def test_root_refuses_a_home_behind_a_link_of_another_user(foreign_home: Path, victim: Path, path: str) -> None:
    (foreign_home / "link").symlink_to(victim)
    os.lchown(foreign_home / "link", NOBODY.uid, NOBODY.gid)
    with pytest.raises(EmbeddedError, match=r"(?s)link is a symbolic link that user .*Nothing was changed"):
        embedded.start(foreign_home / path, settings=QUICK)
    assert list(victim.iterdir()) == []


def test_root_refuses_a_link_of_another_user_behind_its_own(foreign_home: Path, victim: Path) -> None:
    (foreign_home / "link").symlink_to(victim)
    os.lchown(foreign_home / "link", NOBODY.uid, NOBODY.gid)
    (victim / "own").symlink_to(foreign_home / "link")
    with pytest.raises(EmbeddedError, match="link is a symbolic link that user"):
        embedded.start(victim / "own", settings=QUICK)


def test_root_may_use_a_home_behind_its_own_link(home: Path, victim: Path) -> None:
    (victim / "own").symlink_to(home)
    with embedded.postgres(victim / "own", settings=QUICK) as server:
        assert server.data == home / "pgdata"


def test_root_joins_no_server_by_a_fifo(foreign_home: Path) -> None:
    """Another user holds the lock of a guard, and so can make root read a forged server.json."""
    with open(foreign_home / "guard.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (foreign_home / "pgdata").mkdir()
        shutil.chown(foreign_home / "pgdata", NOBODY.uid)
        fifo(foreign_home, foreign_home / "pgdata" / "postmaster.pid")
        plan = Plan(str(foreign_home), "", 18, "", 1, "", {})
        (foreign_home / "server.json").write_text(plan.to_json())
        with pytest.raises(EmbeddedError, match=r"postmaster\.pid is not a regular file"):
            embedded.start(foreign_home, settings=QUICK)


def test_a_folder_of_another_user_is_not_taken_for_a_lost_home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = folder / "leasehold-home-x"
    place.mkdir()
    fifo(folder, place / "belongs-to")
    for owner in (NOBODY.uid, 0):
        os.chown(place, owner, 0)
        places.remove_lost_homes(folder)
        assert place.exists()


def test_root_writes_no_location_through_a_link(foreign_home: Path, victim: Path) -> None:
    link(victim, foreign_home / "location.new")
    write_in_home(foreign_home / "location", "/somewhere\n")
    assert list(victim.iterdir()) == []
    assert (foreign_home / "location").read_text() == "/somewhere\n"


def test_root_runs_postgres_in_the_home_of_another_user(foreign_home: Path, new_cluster: Path) -> None:
    copy_cluster(new_cluster, foreign_home)
    subprocess.run(["chown", "-R", f"{NOBODY.uid}:{NOBODY.gid}", foreign_home / "pgdata"], check=True)
    (foreign_home / "guard.log").touch()
    shutil.chown(foreign_home / "guard.log", NOBODY.uid)
    with embedded.postgres(foreign_home, settings=QUICK) as server:
        assert Path("/proc", str(server.postmaster_pid())).stat().st_uid == NOBODY.uid
