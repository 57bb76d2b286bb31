"""Ends of programs: the reaped status decides, whatever the worker asked for meanwhile."""

import asyncio
import shutil
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from time import monotonic

import pytest
from tests.commands.kit import Run, python, run, shell

from leasehold.commands import NotStarted

IGNORES_TERM = """
    import signal, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("up", flush=True)
    time.sleep(1000)
"""
ENDS_AFTER_TERM = """
    import signal
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    print("up", flush=True)
    signal.sigwait([signal.SIGTERM])
"""
"""Has no handler: it sees the signal, goes on, and exits with 0."""
EXITS_ON_TERM = """
    import os, signal, time
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    print("up", flush=True)
    time.sleep(1000)
"""


async def test_an_exit_code_is_that_of_the_program() -> None:
    end, _ = await run(shell("exit 7"))
    assert (end.exit_code, end.signal, end.stopped) == (7, None, False)


async def test_a_signal_is_told_apart_from_an_exit_code() -> None:
    end, _ = await run(shell("kill -SEGV $$"))
    assert (end.exit_code, end.signal, end.stopped) == (None, "SIGSEGV", False)


async def test_sigkill_by_others_is_not_a_stop() -> None:
    end, _ = await run(shell("kill -KILL $$"))
    assert (end.signal, end.stopped) == ("SIGKILL", False)


async def test_a_cancel_stops_by_sigterm() -> None:
    started = Run(shell("echo up; exec sleep 1000"))
    await started.until("up")
    started.stop()
    end = await started.end()
    assert (end.exit_code, end.signal, end.stopped) == (None, "SIGTERM", True)


async def test_a_program_that_ignores_sigterm_is_killed_after_grace() -> None:
    started = Run(python(IGNORES_TERM), grace=0.5)
    await started.until("up")
    began = monotonic()
    started.stop()
    end = await started.end()
    assert (end.signal, end.stopped) == ("SIGKILL", True)
    assert 0.5 <= monotonic() - began < 1.5


async def test_without_a_grace_it_is_killed_at_once() -> None:
    started = Run(python(IGNORES_TERM), grace=60, at_once=lambda: True)
    await started.until("up")
    began = monotonic()
    started.stop()
    end = await started.end()
    assert (end.signal, end.stopped) == ("SIGKILL", True)
    assert monotonic() - began < 2


async def test_a_second_cancel_may_end_the_grace() -> None:
    at_once = False
    started = Run(python(IGNORES_TERM), grace=60, at_once=lambda: at_once)
    await started.until("up")
    started.stop()
    await asyncio.sleep(0)
    at_once = True
    started.stop()
    assert (await started.end()).signal == "SIGKILL"


async def test_an_exit_by_a_handler_of_sigterm_is_a_stop() -> None:
    started = Run(python(EXITS_ON_TERM))
    await started.until("up")
    started.stop()
    end = await started.end()
    assert (end.exit_code, end.stopped) == (0, True)


async def test_a_program_that_ends_by_itself_in_its_grace_succeeds() -> None:
    started = Run(python(ENDS_AFTER_TERM), grace=60)
    await started.until("up")
    started.stop()
    end = await started.end()
    assert (end.exit_code, end.stopped) == (0, False)


async def take_steps(count: int) -> None:
    """Lets the loop go round so many times."""
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize("runs", [20, pytest.param(500, marks=pytest.mark.faults)])
async def test_an_exit_beside_the_stop_is_labelled_by_its_status(runs: int) -> None:
    """Programs without a handler exit with 0 or die by the signal, never both: the label must say the same."""
    random, labels = Random(17), Counter[bool]()

    async def race(steps: int) -> None:
        """Stops the program so many steps after it may end; before that, if the number is negative."""
        started = Run(shell("mkfifo go; echo up; read -r line < go"))
        await started.until("up")
        first, second = (started.go_on, started.stop) if steps >= 0 else (started.stop, started.go_on)
        first()
        await take_steps(abs(steps))
        with suppress(FileNotFoundError):  # the program has ended, and its folder with the pipe is removed
            second()
        end = await started.end()
        labels[end.stopped] += 1
        assert (end.exit_code == 0) is not end.stopped
        assert (end.signal == "SIGTERM") is end.stopped

    for _ in range(runs // 5):
        await asyncio.gather(*(race(random.randint(-300, 300)) for _ in range(5)))
    await asyncio.gather(race(-100_000), race(100_000))
    assert labels.keys() == {True, False}


async def test_a_program_that_does_not_exist_can_not_be_started() -> None:
    with pytest.raises(NotStarted, match="can't execute /no/such/program: No such file") as raised:
        await run(["/no/such/program"])
    assert raised.value.final


async def test_a_file_without_permission_can_not_be_started(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    with pytest.raises(NotStarted, match="Permission denied") as raised:
        await run([str(program)])
    assert raised.value.final


async def test_a_file_that_is_being_written_may_be_tried_again(tmp_path: Path) -> None:
    program = tmp_path / "program"
    shutil.copy("/bin/true", program)
    with program.open("ab"), pytest.raises(NotStarted) as raised:
        await run([str(program)])
    assert "busy" in raised.value.why
    assert not raised.value.final


async def test_limits_hold_for_the_program() -> None:
    text = """
        import resource
        for name in ("CORE", "CPU", "NOFILE", "FSIZE", "AS"):
            print(name, resource.getrlimit(getattr(resource, f"RLIMIT_{name}")))
        print(open("/proc/self/oom_score_adj").read().strip())
    """
    limits = [("CORE", 0, 0), ("CPU", 9, 14), ("NOFILE", 64, 64), ("FSIZE", 1000, 1000), ("AS", 2**30, 2**30)]
    _, lines = await run(python(text), limits=[(f"RLIMIT_{name}", soft, hard) for name, soft, hard in limits])
    assert lines.texts == [*(f"{name} ({soft}, {hard})" for name, soft, hard in limits), "1000"]


async def test_a_limit_above_that_of_the_system_is_lowered() -> None:
    text = "import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE)[0] <= 2**30)"
    _, lines = await run(python(text), limits=[("RLIMIT_NOFILE", 2**40, 2**40)])
    assert lines.texts == ["True"]


async def test_too_much_processor_time_ends_it_by_sigxcpu() -> None:
    end, _ = await run(python("while True: pass"), limits=[("RLIMIT_CPU", 1, 6)])
    assert (end.signal, end.stopped) == ("SIGXCPU", False)


async def test_the_use_of_processor_and_memory_is_known() -> None:
    end, _ = await run(python("kept = bytearray(50_000_000)"))
    assert end.cpu is not None
    assert end.max_memory is not None
    assert 50_000_000 < end.max_memory < 200_000_000


async def test_the_processor_time_of_a_daemon_counts() -> None:
    text = """
        import os, time
        told, tell = os.pipe()
        if os.fork() == 0:
            os.setsid()
            if os.fork():
                os._exit(0)
            while time.process_time() < 0.2:
                pass
            os.write(tell, b"1")
            time.sleep(1000)
        os.wait()
        os.read(told, 1)
    """
    end, _ = await run(python(text))
    assert (end.exit_code, end.leftovers) == (0, 1)
    assert end.cpu is not None
    assert end.cpu >= 0.2


async def test_memory_beyond_the_limit_is_the_programs_own_error() -> None:
    end, _ = await run(python("bytearray(10**9)"), limits=[("RLIMIT_AS", 200_000_000, 200_000_000)])
    assert (end.exit_code, end.stopped) == (1, False)
    assert "MemoryError" in end.stderr.tail
