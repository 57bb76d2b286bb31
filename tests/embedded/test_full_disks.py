"""A server whose disk was full returns on the same URL when the disk has space again."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest
from tests.embedded.processes import (
    QUICK,
    SOURCES,
    eventually,
    guard_of,
    keep,
    kept,
    kill,
    no_process_of,
    plan_of,
    query,
)

from leasehold import embedded
from leasehold.embedded.guard import guard, processes

NOTE_ON_A_FULL_DISK = """
import os, sys
from leasehold.embedded.guard.log import note
full, log = os.open("/dev/full", os.O_WRONLY), os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
os.dup2(full, 2)
note("first")
os.dup2(log, 2)
note("second")
"""


class SmallDisk:
    """The disk of a cluster, and a file that takes all of its space."""

    def __init__(self, mount: Path) -> None:
        self.mount = mount
        self._ballast = mount / "ballast"

    def fill(self) -> None:
        with contextlib.suppress(OSError), open(self._ballast, "ab", buffering=0) as ballast:
            for size in (1 << 20, 1 << 12):
                with contextlib.suppress(OSError):
                    while ballast.write(bytes(size)) == size:
                        pass

    def free(self) -> None:
        self._ballast.unlink()


@pytest.fixture
def disk(home: Path) -> Iterator[SmallDisk]:
    """Puts the cluster on a disk of 128 MB; guard.log and postgres.log stay on the large one."""
    data, copy = home / "pgdata", home / "copy"
    data.rename(copy)
    data.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=128m", "leasehold-test", str(data)], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"this account may not mount a small disk: {mounted.stderr.strip()}")
    try:
        subprocess.run(["cp", "-a", f"{copy}/.", data], check=True)
        shutil.rmtree(copy)
        yield SmallDisk(data)
        eventually(lambda: no_process_of(home))
    finally:
        subprocess.run(["umount", "--lazy", str(data)], check=True)


@pytest.mark.faults
def test_a_server_comes_back_when_its_disk_has_space_again(disk: SmallDisk, home: Path) -> None:
    with embedded.postgres(home, settings=QUICK) as server:
        keep(server.url, "word")
        url, guard_before = server.url, guard_of(home)

        def fails_for_want_of_space() -> bool:
            disk.fill()
            try:  # a new segment of WAL takes 16 MB
                query(url, "select pg_switch_wal() from pg_logical_emit_message(true, 'test', 'word')")
            except (OSError, asyncpg.PostgresError):
                return True
            return False

        eventually(fails_for_want_of_space)
        eventually(lambda: "No space left on device. Trying again" in (home / "guard.log").read_text(), 90)
        disk.free()
        assert server.postmaster_pid()
        assert (server.url, guard_of(home)) == (url, guard_before)
        assert kept(server.url) == "word"


@pytest.mark.faults
def test_a_stuck_postmaster_is_replaced(home: Path) -> None:
    with embedded.postgres(home, settings=QUICK) as server:
        keep(server.url, "word")
        before = server.postmaster_pid()
        wal_writer = processes.vital_process(plan_of(home))
        assert wal_writer
        os.kill(before, signal.SIGSTOP)  # so that it does not start its WAL writer again
        os.kill(wal_writer, signal.SIGKILL)
        eventually(lambda: "neither serves nor recovers" in (home / "guard.log").read_text(), 90)
        eventually(lambda: server.postmaster_pid() != before, 60)
        assert kept(server.url) == "word"


def test_a_server_that_runs_has_a_vital_process(home: Path) -> None:
    with embedded.postgres(home, settings=QUICK):
        plan = plan_of(home)
        found = eventually(lambda: processes.vital_process(plan) or 0)
        assert processes.title_of(found).startswith(f"postgres: {plan.cluster_name}: walwriter")


@pytest.mark.parametrize(("vital", "verdict"), [(None, True), (1, False)])
def test_three_failed_checks_mean_stuck(vital: int | None, verdict: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "vital_process", lambda plan: vital)
    monkeypatch.setattr(guard, "CHECK_EVERY", 0.0)
    monkeypatch.setattr(guard, "is_vital", lambda title, plan: False)
    check = guard.StuckCheck(plan=None)  # type: ignore[arg-type]
    assert [check.finds_it_stuck() for _ in range(guard.CHECKS)] == [False, False, verdict]


@pytest.mark.faults
def test_a_server_is_tried_for_as_long_as_a_client_needs_it(home: Path) -> None:
    with embedded.postgres(home, settings=QUICK) as server:
        keep(server.url, "word")
        control = server.data / "global" / "pg_control"
        control.rename(home / "pg_control")
        kill(server.postmaster_pid())
        eventually(lambda: starts_that_failed(home) > 5)
        (home / "pg_control").rename(control)
        assert server.postmaster_pid()
        assert kept(server.url) == "word"


def test_a_server_that_cannot_start_ends_with_its_last_client(home: Path) -> None:
    with embedded.postgres(home, settings=QUICK) as server:
        (server.data / "global" / "pg_control").unlink()
        kill(server.postmaster_pid())
        eventually(lambda: "could not open file" in (home / "guard.log").read_text())
    assert no_process_of(home)


def test_the_pause_between_starts_is_capped() -> None:
    starts = guard.StartSchedule()
    starts.failed, starts.obstacle = 5_000, "a full disk"
    began = time.monotonic()
    starts.put_off("postgres ended", "a full disk")
    assert began < starts.next <= time.monotonic() + guard.LONGEST_PAUSE


def test_an_empty_pid_file_does_not_keep_a_server_from_starting(home: Path) -> None:
    with embedded.postgres(home, settings=QUICK) as server:
        keep(server.url, "word")
    pid_file = server.data / "postmaster.pid"
    pid_file.touch()
    shutil.chown(pid_file, server.data.stat().st_uid)
    with embedded.postgres(home, settings=QUICK) as server:
        assert kept(server.url) == "word"


def test_a_note_that_a_full_disk_refused_is_written_later(folder: Path) -> None:
    program = [sys.executable, "-c", NOTE_ON_A_FULL_DISK, str(folder / "guard.log")]
    subprocess.run(program, check=True, env={**os.environ, "PYTHONPATH": str(SOURCES)})
    notes = (folder / "guard.log").read_text().splitlines()
    assert [line.split("] ")[1] for line in notes] == ["first", "second"]


def starts_that_failed(home: Path) -> int:
    return (home / "postgres.log").read_text().count("could not find the database system")
