"""Handlers in processes of their own. They leave files in a folder, for the test to read."""

import asyncio
import ctypes
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from leasehold import Fail, Job, Leasehold, RetryLater, Snooze, Steps
from leasehold.worker.messages import MessageReader

AT_ONCE = Steps(0)


@asynccontextmanager
async def lifespan(app: Leasehold) -> AsyncIterator[int]:
    """Never closes if a handler of the process has asked for that."""
    yield os.getpid()
    if slow_close.is_set():
        await asyncio.Event().wait()


slow_close = threading.Event()


app = Leasehold(lifespan=lifespan)


def write_down(folder: str, name: str, pid: int | None = None) -> None:
    """Writes a pid into a file that appears at once, not half written."""
    file = Path(folder, f"{name}.new")
    file.write_text(str(pid or os.getpid()))
    file.rename(Path(folder, name))


@app.job(isolation="process")
def tell(job: Job, number: int = 0) -> dict[str, Any]:
    job.log(f"for {job.tenant}")
    job.progress(0.5, "half")
    facts = [job.id, job.tenant, job.definition, job.tries, job.attempt, job.max_attempts, job.correlation_id]
    return {"pid": os.getpid(), "state": job.state, "number": number, "facts": facts, "at": str(job.queued_at)}


@app.job(isolation="process")
async def atell(job: Job) -> int:
    await asyncio.sleep(0)
    job.log("from a coroutine")
    return os.getpid()


@app.job(isolation="process")
def follow(job: Job) -> str:
    return app.tenant(job.tenant).enqueue(tell, number=7).id


@app.job(isolation="process", max_attempts=1)
def end_by(job: Job, how: str) -> Any:
    match how:
        case "Fail":
            raise Fail("no such order")
        case "RetryLater":
            raise RetryLater("1h", "busy")
        case "Snooze":
            raise Snooze("1h")
        case "an error":
            raise ValueError("broken \udc80 on purpose")
        case "SystemExit":
            sys.exit(3)
        case "a result that is not JSON":
            return object()
        case "a transaction":
            with job.transaction(object()):
                raise AssertionError("it can't begin")


@app.job(isolation="process", timeout=5, max_attempts=1)
def burn(job: Job, seconds: float, then: str = "") -> float:
    """Uses so much processor time, in this process and in a child, and returns both together."""
    code = f"import time\nwhile time.process_time() < {seconds}: pass"
    subprocess.run([sys.executable, "-c", code], check=True)
    until = time.process_time() + seconds
    while time.process_time() < until:
        continue
    match then:
        case "crash":
            os._exit(3)
        case "hang":
            time.sleep(3600)
    return 2 * seconds


@app.job(isolation="process", max_attempts=1)
def crash(job: Job, how: str) -> None:
    match how:
        case "exit code 3":
            os._exit(3)
        case "SIGSEGV":
            ctypes.string_at(0)
        case "SIGKILL":
            os.kill(os.getpid(), signal.SIGKILL)


@app.job(isolation="process", timeout=0.3, max_attempts=1)
def take_too_long(job: Job, folder: str) -> None:
    write_down(folder, "began")
    time.sleep(3600)


@app.job(isolation="process", timeout=0.3, max_attempts=1)
async def atake_too_long(job: Job, folder: str) -> None:
    write_down(folder, "began")
    try:
        await asyncio.sleep(3600)
    finally:
        write_down(folder, "cleaned up")


@app.job(isolation="process", timeout=0.3, max_attempts=1)
def leave_a_child(job: Job, folder: str) -> None:
    child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    write_down(folder, "child", child.pid)
    time.sleep(3600)


@app.job(isolation="process")
def leave_a_daemon(job: Job, folder: str, then: str) -> None:
    """Starts a daemon by two forks, in a session of its own, that ignores SIGTERM."""
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        write_down(folder, "daemon")
        while True:
            signal.pause()
    os.wait()
    write_down(folder, "began")
    match then:
        case "hang":
            threading.Event().wait()
        case "hold the interpreter":
            re.match(r"(a+)+$", "a" * 60 + "b")
        case "crash":
            os._exit(3)


@app.job(isolation="process")
def never_close(job: Job) -> int:
    slow_close.set()
    return os.getpid()


@app.job(isolation="process")
def lose_the_reader(job: Job) -> int:
    """The thread that reads the next message runs out of memory."""

    def refuse(*_: Any) -> Any:
        raise MemoryError

    setattr(MessageReader, "feed", refuse)  # noqa: B010
    return os.getpid()


@app.job(isolation="process")
def flood(job: Job, lines: int) -> None:
    for number in range(lines):
        job.log(f"line {number}")


@app.job(isolation="process")
def hang(job: Job, folder: str) -> None:
    write_down(folder, "began")
    while True:
        time.sleep(0.01)


@app.job(isolation="process")
def hold_the_interpreter(job: Job, folder: str) -> None:
    """One call of C code that keeps the lock of the interpreter."""
    write_down(folder, "began")
    re.match(r"(a+)+$", "a" * 60 + "b")


@app.job(isolation="process")
async def swallow_cancel(job: Job, folder: str) -> None:
    write_down(folder, "began")
    while True:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)


@app.job(isolation="process")
def end_when_canceled(job: Job, folder: str) -> str:
    write_down(folder, "began")
    while not job.canceled:
        time.sleep(0.01)
    return "half of it"


@app.job(isolation="process")
def wait_for_go(job: Job, folder: str) -> int:
    write_down(folder, "began")
    while not Path(folder, "go").exists():
        time.sleep(0.01)
    return os.getpid()


@app.job(isolation="process", memory="64MB", max_attempts=1)
def allocate(job: Job, megabytes: int) -> int:
    bytearray(megabytes * 2**20)
    return os.getpid()
