"""The account that runs postgres, and homes that it can't enter."""

import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from tests.embedded.processes import QUICK, SOURCES, client, eventually, keep, kept, no_process_of, query

from leasehold import embedded
from leasehold.embedded import places
from leasehold.embedded.account import Account
from leasehold.errors import EmbeddedError

pytestmark = pytest.mark.usefixtures("as_root")
NOBODY = Account("nobody", pwd.getpwnam("nobody").pw_uid, pwd.getpwnam("nobody").pw_gid)


def test_root_hands_postgres_to_another_account(new_home: Path) -> None:
    with embedded.postgres(new_home, settings=QUICK) as server:
        assert Path("/proc", str(server.postmaster_pid())).stat().st_uid == server.data.stat().st_uid != 0


def test_without_an_account_postgres_nobody_does(new_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = pwd.getpwnam
    monkeypatch.setattr(pwd, "getpwnam", lambda name: known("nobody" if name == "nobody" else "?"))
    with embedded.postgres(new_home, settings=QUICK) as server:
        assert server.data.stat().st_uid == NOBODY.uid
        assert query(server.url, "select 1") == 1


def test_without_any_account_the_message_says_what_to_do(new_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pwd, "getpwnam", {}.__getitem__)
    with pytest.raises(EmbeddedError, match="does not run as root"):
        embedded.start(new_home)


def test_an_ordinary_user_runs_it_as_itself_and_root_can_join(new_home: Path, wheel: Path) -> None:
    python = python_for(NOBODY)
    new_home.mkdir()
    os.chown(new_home, NOBODY.uid, NOBODY.gid)
    binaries = {"LEASEHOLD_POSTGRES_BIN": str(wheel / "pginstall" / "bin")}
    with client(new_home, python=python, user=NOBODY.uid, environment=binaries) as ordinary:
        assert Path("/proc", str(ordinary.postmaster)).stat().st_uid == NOBODY.uid
        with embedded.postgres(new_home) as joined:
            assert joined.url == ordinary.url
            keep(joined.url, "word")
        ordinary.leave()
    eventually(lambda: no_process_of(new_home))
    with embedded.postgres(new_home, settings=QUICK) as server:
        assert kept(server.url) == "word"
    with client(new_home, python=python, user=NOBODY.uid, environment=binaries) as ordinary:
        assert kept(ordinary.url) == "word"
        ordinary.leave()


def test_a_home_in_a_private_folder_of_root_keeps_its_data_elsewhere(
    private: Path, new_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "SYSTEM_FOLDER", new_home.parent / "system")
    monkeypatch.setattr(tempfile, "tempdir", str(new_home.parent / "no-temporary-folder"))
    with embedded.postgres(private / "home", settings=QUICK) as server:
        keep(server.url, "word")
        place = server.data.parent
    assert no_process_of(place)
    assert place.parent == new_home.parent / "system"
    assert (place / "belongs-to").read_text().strip() == str(private / "home")
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    with embedded.postgres(private / "home", settings=QUICK) as server:
        assert kept(server.url) == "word"


def test_a_deleted_home_does_not_find_its_old_data_when_it_comes_back(private: Path) -> None:
    with embedded.postgres(private / "home", settings=QUICK) as server:
        keep(server.url, "word")
        old = server.data.parent
    shutil.rmtree(private / "home")
    with embedded.postgres(private / "home", settings=QUICK) as server:
        assert query(server.url, "select to_regclass('kept')") is None
        assert not old.exists()  # in the temporary folder what a deleted home left is removed
        place = server.data.parent
    shutil.rmtree(place)


def test_a_wheel_in_a_private_folder_of_root_is_copied_and_not_opened(
    private: Path, new_home: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(wheel / "pginstall", private / wheel.name / "pginstall", symlinks=True)
    shutil.copytree(wheel.with_name(f"{wheel.name}.libs"), private / f"{wheel.name}.libs")
    monkeypatch.setattr(places, "SYSTEM_FOLDER", new_home.parent / "system")
    monkeypatch.setenv("LEASEHOLD_POSTGRES_BIN", str(private / wheel.name / "pginstall" / "bin"))
    with embedded.postgres(new_home, settings=QUICK) as server:
        assert query(server.url, "select 1") == 1
        assert server.binaries.is_relative_to(new_home.parent / "system" / "binaries")
        copied = server.binaries
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    with embedded.postgres(new_home, settings=QUICK) as server:
        assert server.binaries == copied


def test_the_umask_of_root_does_not_shut_postgres_out(new_home: Path) -> None:
    before = os.umask(0o077)
    try:
        with embedded.postgres(new_home, settings=QUICK) as server:
            assert query(server.url, "select 1") == 1
    finally:
        os.umask(before)


def test_a_stranger_is_told_whose_home_it_is(new_home: Path) -> None:
    python = python_for(NOBODY)
    with embedded.postgres(new_home, settings=QUICK):
        done = subprocess.run(
            [python, "-c", f"from leasehold import embedded; embedded.start({str(new_home)!r})"],
            env={"PYTHONPATH": str(SOURCES)},
            user=NOBODY.uid,
            group=NOBODY.gid,
            extra_groups=[],
            cwd="/",
            capture_output=True,
            text=True,
        )
    assert "EmbeddedError: LH-3010" in done.stderr
    assert "run as its owner" in done.stderr


@pytest.fixture
def private(new_home: Path) -> Path:
    folder = new_home.parent / "private"
    folder.mkdir(mode=0o700)
    return folder


def python_for(user: Account) -> str:
    """An interpreter that this user can run and that can read our sources."""
    for python in (sys.executable, "/usr/bin/python3"):
        wanted = f"import sys; sys.path.insert(0, {str(SOURCES)!r}); import leasehold.embedded.server"
        if user.can_run([python, "-c", wanted]):
            return python
    pytest.skip(f"no Python 3.11 or newer that user {user.name} can run")
