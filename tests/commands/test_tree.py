"""Process trees: whatever a command starts, nothing of it outlives the run."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from textwrap import dedent
from time import monotonic

import pytest
from tests.commands.kit import MARK, Run, guards, kill, marked, python, run, shell
from tests.conftest import eventually

from leasehold.commands import guarded
from leasehold.commands.folders import remove_leftovers
from leasehold.commands.lease import LeaseFile

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers")

DAEMON = """
    import os, signal, time
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            print("daemon", flush=True)
            time.sleep(1000)
        os._exit(0)
    os.wait()
"""
"""A program that starts a daemon by two forks, in a session of its own, which ignores SIGTERM."""


async def test_a_daemon_by_two_forks_ends_with_its_command() -> None:
    end, lines = await run(python(DAEMON))
    assert (end.exit_code, lines.texts, end.leftovers) == (0, ["daemon"], 1)


async def test_a_daemon_ends_when_its_command_is_canceled() -> None:
    started = Run(python(DAEMON + "    time.sleep(1000)"), grace=0.1)
    await started.until("daemon")
    started.stop()
    end = await started.end()
    assert end.stopped
    assert not started.alive


async def test_a_child_that_holds_the_pipe_does_not_delay_the_end() -> None:
    began = monotonic()
    end, lines = await run(shell("sleep 1000 & echo hi"))
    assert (end.exit_code, lines.texts) == (0, ["hi"])
    assert monotonic() - began < 2


async def test_a_leftover_may_clean_up_after_sigterm() -> None:
    leftover = """
        import os, signal, sys, time
        def clean_up(*_):
            print("cleaned up", flush=True)
            os._exit(0)
        signal.signal(signal.SIGTERM, clean_up)
        ready, writes = os.pipe()
        if os.fork() == 0:
            os.setsid()
            os.write(writes, b".")
            time.sleep(1000)
        os.read(ready, 1)
    """
    end, lines = await run(python(leftover))
    assert (end.exit_code, lines.texts) == (0, ["cleaned up"])


async def test_a_process_that_forks_and_exits_all_the_time_is_met() -> None:
    comet = """
        import os, time
        print("flying", flush=True)
        until = time.monotonic() + 60
        while time.monotonic() < until:
            if os.fork():
                os._exit(0)
            os.sched_yield()
    """
    started = Run(
        python("import os\nif os.fork():\n    os.wait()\n    import time; time.sleep(1000)\n" + dedent(comet))
    )
    await started.until("flying")
    began = monotonic()
    started.stop()
    await started.end()
    assert not started.alive
    assert monotonic() - began < 2


async def test_a_process_whose_first_thread_has_ended_is_killed() -> None:
    headless = """
        import ctypes, os, threading, time
        def go_on():
            print("headless", flush=True)
            time.sleep(1000)
        if os.fork() == 0:
            os.setsid()
            threading.Thread(target=go_on).start()
            ctypes.CDLL(None).pthread_exit(None)
        time.sleep(1000)
    """
    started = Run(python(headless), grace=0.2)
    await started.until("headless")
    started.stop()
    await started.end()
    assert not started.alive


async def test_a_command_that_kills_its_guard_is_ended() -> None:
    hostile = """
        import os, signal, time
        if os.fork() == 0:
            os.setsid()
            time.sleep(1000)
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(1000)
    """
    end, _ = await run(python(hostile))
    assert (end.signal, end.stopped) == ("SIGKILL", False)


async def test_a_command_has_its_own_session_and_no_terminal() -> None:
    end, lines = await run(
        python("import os; print(os.getpid() == os.getsid(0) == os.getpgrp()); print(os.getppid() != os.getsid(0))")
    )
    assert lines.texts == ["True", "True"]
    assert end.pid is not None


async def test_ignored_and_blocked_signals_are_not_inherited() -> None:
    text = """
        import signal
        print([n for n in (1, 2, 3, 13, 15) if signal.getsignal(n) is signal.SIG_IGN and n != 13])
        print(signal.pthread_sigmask(signal.SIG_BLOCK, []))
    """
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        _, lines = await run(python(text))
    finally:
        signal.signal(signal.SIGHUP, before)
    assert lines.texts == ["[]", "set()"]


async def test_sigterm_to_the_guard_is_ignored() -> None:
    started = Run(shell("mkfifo go; echo up; read -r line < go; echo done"))
    await started.until("up")
    for pid in guards():
        os.kill(pid, signal.SIGTERM)
    started.go_on()
    assert (await started.end()).exit_code == 0
    assert started.lines.texts == ["up", "done"]


async def test_a_command_ends_by_itself_when_the_lease_is_over() -> None:
    lease = LeaseFile(monotonic() + 60)
    ignoring = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    started = Run(python(ignoring + dedent(DAEMON) + "time.sleep(1000)"), grace=3600, lease=lease)
    await started.until("daemon")
    lease.write(float("-inf"))
    lease.close()
    started.stop()  # makes the guard look again: it would look at the end of the first lease
    end = await started.end()
    assert (end.signal, started.alive) == ("SIGKILL", [])


async def test_a_command_outlives_a_lease_that_is_renewed() -> None:
    lease = LeaseFile(monotonic() + 0.5)
    started = Run(shell("echo up; sleep 1; echo done"), lease=lease)
    lease.write(monotonic() + 60)
    end = await started.end()
    lease.close()
    assert (end.exit_code, started.lines.texts) == (0, ["up", "done"])


async def test_a_lease_that_is_over_is_not_a_stop_by_the_worker() -> None:
    lease = LeaseFile(monotonic() + 0.5)
    end, _ = await run(shell("exec sleep 1000"), lease=lease)
    lease.close()
    assert (end.signal, end.stopped) == ("SIGKILL", False)


WORKER = """
    import asyncio, os, sys
    from tests.commands.kit import Run, python
    async def main():
        started = Run(python({program!r}))
        if {forks}:
            if os.fork() == 0:  # a process of a handler, which has a copy of every descriptor
                import time; time.sleep(60); os._exit(0)
        await started.until("daemon")
        print(started.mark, flush=True)
        await started.end()
    asyncio.run(main())
"""


@pytest.mark.parametrize("forks", [False, True], ids=["alone", "with a forked copy"])
async def test_kill_9_of_the_worker_ends_the_tree_and_its_folder(tmp_path: Path, forks: bool) -> None:
    program = dedent(WORKER).format(program=DAEMON + "    time.sleep(1000)", forks=forks)
    worker = start_worker(program, tmp_path)
    assert worker.stdout is not None
    try:
        mark = (await asyncio.to_thread(worker.stdout.readline)).strip()
        assert mark
        assert len(marked(mark)) >= 2
        kill(worker.pid)
        began = monotonic()

        async def gone() -> bool:
            return not marked(mark) and not left_in(tmp_path)

        await eventually(gone, what="the end of the tree")
        assert monotonic() - began < 2
    finally:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
        worker.stdout.close()


async def test_a_later_worker_ends_what_killed_guards_have_left(tmp_path: Path) -> None:
    worker = start_worker(dedent(WORKER).format(program=DAEMON + "    time.sleep(1000)", forks=False), tmp_path)
    assert worker.stdout is not None
    mark = (await asyncio.to_thread(worker.stdout.readline)).strip()
    for number in (signal.SIGSTOP, signal.SIGKILL):  # or the first one to go would see the end of the other
        for pid in (*guards(worker.pid), worker.pid):
            os.kill(pid, number)
    worker.wait()
    worker.stdout.close()

    async def only_the_daemon_is_left() -> bool:
        return len(marked(mark)) == 1

    await eventually(only_the_daemon_is_left, what="the end of the command itself")
    assert left_in(tmp_path)
    assert remove_leftovers() == 1
    assert not left_in(tmp_path)

    async def nothing_is_left() -> bool:
        return not marked(mark)

    await eventually(nothing_is_left, what="the end of the daemon")


async def test_orphans_are_looked_for_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[threading.Thread] = []

    def note_thread(*_: object) -> int:
        calls.append(threading.current_thread())
        return 0

    monkeypatch.setattr(guarded, "kill_marked", note_thread)
    monkeypatch.setattr(guarded, "remove_folder", note_thread)
    started = Run(shell("echo up; exec sleep 1000"))
    await started.until("up")
    (guard,) = guards()
    kill(guard)
    await started.end()
    started.folder.path.rmdir()
    assert len(calls) == 2
    assert threading.main_thread() not in calls


def start_worker(program: str, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(folder), "PYTHONPATH": os.pathsep.join(sys.path)},
        start_new_session=True,
    )


def left_in(folder: Path) -> list[Path]:
    return list(folder.glob("leasehold-commands-*/*"))


async def test_a_command_gets_no_descriptor_or_variable_of_the_worker() -> None:
    os.environ["LEASEHOLD_CANARY"] = "secret"
    try:
        text = """
            import os
            print(sorted(os.listdir("/proc/self/fd")))
            print("LEASEHOLD_CANARY" in os.environ)
            print("LEASEHOLD_CANARY" in open(f"/proc/{os.getppid()}/environ").read())
            print(os.read(0, 10))
        """
        _, lines = await run(python(text))
    finally:
        del os.environ["LEASEHOLD_CANARY"]
    listing = "3"  # os.listdir has the folder open
    assert lines.texts == [str(["0", "1", "2", listing]), "False", "False", "b''"]


async def test_the_mark_is_found_in_each_process_of_a_tree() -> None:
    started = Run(python(DAEMON + "    time.sleep(1000)"), grace=0.1)
    await started.until("daemon")
    assert len(marked(started.mark)) == 2, MARK
    started.stop()
    await started.end()
