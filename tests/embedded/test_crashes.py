"""After kill -9 of any process, committed data stays, the next start works, and no process is left."""

import os
import signal
import subprocess
from pathlib import Path

import pytest
from tests.embedded.processes import (
    QUICK,
    client,
    client_on_its_way,
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
from leasehold.embedded.guard.guard import Guard
from leasehold.embedded.guard.log import size_of
from leasehold.embedded.guard.processes import can_inspect
from leasehold.errors import EmbeddedError

BUSY_FOREVER = "do $$ begin loop end loop; end $$"


def test_a_killed_client_takes_the_server_along(home: Path) -> None:
    with client(home) as only:
        keep(only.url, "word")
        only.kill()
        eventually(lambda: no_process_of(home))
    assert still_has(home, "word")


def test_a_killed_guard_takes_the_server_along(home: Path) -> None:
    with client(home) as survivor:
        keep(survivor.url, "word")
        kill(guard_of(home))
        eventually(lambda: no_process_of(home))
    assert still_has(home, "word")


def test_after_the_guards_death_a_client_starts_a_new_server(home: Path) -> None:
    server = embedded.start(home, settings=QUICK)
    keep(server.url, "word")
    kill(guard_of(home))
    again = embedded.start(home, settings=QUICK)  # at once, while the old postgres is still dying
    assert again.url == server.url
    assert kept(server.url) == "word"
    server.stop()
    assert kept(again.url) == "word"
    again.stop()


def test_without_a_guard_the_postmaster_is_said_to_be_gone(home: Path) -> None:
    server = embedded.start(home, settings=QUICK)
    kill(guard_of(home))
    eventually(lambda: no_process_of(home))
    with pytest.raises(EmbeddedError, match=r"Call start\(\) again"):
        server.postmaster_pid()
    server.stop()


@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGQUIT])
def test_a_dead_postmaster_is_started_again_on_the_same_url(home: Path, blow: signal.Signals) -> None:
    with embedded.postgres(home, settings=QUICK) as server:
        keep(server.url, "word")
        for _ in range(6):  # more often than a server that can't start would be tried
            restart(server, blow)
        assert kept(server.url) == "word"


def test_a_busy_backend_does_not_prevent_a_restart(home: Path) -> None:
    with embedded.postgres(home, settings=QUICK) as server, client(home, statement=BUSY_FOREVER) as busy:
        eventually(lambda: is_busy(server.url))
        kill(busy.postmaster)
        eventually(lambda: server.postmaster_pid() != busy.postmaster)
        assert not is_busy(server.url)


def test_client_guard_and_postmaster_killed_together_leave_nothing(home: Path) -> None:
    with client(home, statement=BUSY_FOREVER) as busy:
        keep(busy.url, "word")
        eventually(lambda: is_busy(busy.url))
        kill(guard_of(home), busy.postmaster, busy.pid)
        eventually(lambda: no_process_of(home))
    assert still_has(home, "word")


def test_a_surviving_backend_does_not_prevent_the_next_start(home: Path) -> None:
    with client(home, statement=BUSY_FOREVER) as busy:
        keep(busy.url, "word")
        eventually(lambda: is_busy(busy.url))
        kill(guard_of(home), busy.postmaster)  # the client lives: nothing tells the backend to end
        assert still_has(home, "word")


def test_a_home_starts_after_its_guard_was_killed_in_initdb(new_home: Path) -> None:
    with client_on_its_way(new_home) as unlucky:
        eventually(lambda: (new_home / "pgdata.new" / "PG_VERSION").exists())
        kill(guard_of(new_home), unlucky.pid)
    with embedded.postgres(new_home, settings=QUICK) as server:
        assert query(server.url, "select 1") == 1
    assert not (new_home / "pgdata.new").exists()


def test_a_first_start_that_fails_says_why_and_leaves_nothing(home: Path) -> None:
    with embedded.postgres(home, settings=QUICK) as server:
        keep(server.url, "word")
    control = server.data / "global" / "pg_control"
    control.rename(home / "pg_control")
    with pytest.raises(EmbeddedError, match="could not find the database system"):
        embedded.start(home, settings=QUICK)
    eventually(lambda: no_process_of(home))
    assert "giving up: Postgres ended with status" in (home / "guard.log").read_text()
    (home / "pg_control").rename(control)
    assert still_has(home, "word")


def test_a_pid_file_that_names_a_foreign_living_process_is_stale(home: Path) -> None:
    with embedded.postgres(home, settings=QUICK) as server:
        keep(server.url, "word")
        pid_file = server.data / "postmaster.pid"
        lines = pid_file.read_text().splitlines()
    # Of the same account as postgres: postgres itself would believe such a file and refuse to start.
    account = server.data.stat().st_uid if os.geteuid() == 0 else None
    with subprocess.Popen(["sleep", "600"], user=account) as foreigner:
        try:
            pid_file.write_text("\n".join([str(foreigner.pid), *lines[1:], ""]))
            assert still_has(home, "word")
            assert foreigner.poll() is None
        finally:
            foreigner.kill()


def test_a_server_that_somebody_started_by_hand_is_ended_first(home: Path) -> None:
    with embedded.postgres(home, settings=QUICK) as server:
        keep(server.url, "word")
    by_hand = [str(server.binaries / "postgres"), "-D", "pgdata", "-k", str(server.data), "-h", ""]
    account = server.data.stat().st_uid if os.geteuid() == 0 else None
    with subprocess.Popen(by_hand, cwd=home, user=account, stderr=subprocess.DEVNULL) as stray:
        try:
            pid_file = server.data / "postmaster.pid"
            eventually(lambda: pid_file.exists() and "ready" in pid_file.read_text())
            if not can_inspect(stray.pid):
                pytest.skip("without CAP_SYS_PTRACE root does not see in which folder a process works")
            assert still_has(home, "word")
            assert stray.wait() == 0  # a shutdown in good order
        finally:
            stray.terminate()


def restart(server: embedded.Server, blow: signal.Signals) -> None:
    before = server.postmaster_pid()
    os.kill(before, blow)
    eventually(lambda: server.postmaster_pid() != before)


def still_has(home: Path, word: str) -> bool:
    with embedded.postgres(home, settings=QUICK) as server:
        return kept(server.url) == word


def is_busy(url: str) -> bool:
    busy = query(url, "select count(*) from pg_stat_activity where state = 'active' and query like 'do %'")
    return bool(busy)


def test_the_log_shows_a_postmaster_that_was_ready_for_a_moment(home: Path) -> None:
    """After SIGQUIT postgres removes its pid file; without its log the guard would count a failed start."""
    with embedded.postgres(home, settings=QUICK):
        guard = Guard.__new__(Guard)
        guard.plan = plan_of(home)
        guard.postgres = subprocess.Popen(["true"])
        guard.postgres.wait()
        guard.log_began = 0
        assert guard.was_ready_between_two_ticks()
        guard.log_began = size_of(Path(guard.plan.home, "postgres.log"))
        assert not guard.was_ready_between_two_ticks()
