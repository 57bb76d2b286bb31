"""Processor time that processes have used, in seconds: the clients', and Postgres with all that it started."""

import sys
from collections.abc import Iterable
from pathlib import Path
from time import clock_gettime

import psutil


def used_by(pids: Iterable[int]) -> float:
    return sum(_own(psutil.Process(pid)) for pid in pids)


def used_by_server(postmaster: int) -> float:
    """Its own, its living children's, and that of children which have ended and were waited for."""
    process = psutil.Process(postmaster)
    times = process.cpu_times()
    ended = float(times.children_user + times.children_system)
    return _own(process) + ended + sum(_own(child) for child in process.children())


def postmaster_of(backend: int) -> int | None:
    """The postmaster, if it runs on this machine and can be seen."""
    try:
        process = psutil.Process(backend)
        return process.ppid() if "postgres" in process.name() else None
    except psutil.Error:
        return None


def own_memory(pid: int) -> float:
    """Memory of a process in MB, without files that it maps."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    return float(psutil.Process(pid).memory_info().rss / 2**20)


def _own(process: psutil.Process) -> float:
    """All its threads', also of those that have ended. To the nanosecond on Linux, else by hundredths of a second."""
    if sys.platform == "linux":
        try:
            return clock_gettime((~process.pid << 3) | 2)  # the clock that clock_getcpuclockid(3) would return
        except OSError:
            return 0.0
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)


def precisely_used_by(pid: int) -> float | None:
    """Seconds of one process with a single thread, to the nanosecond; None where the kernel does not tell."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    except (OSError, ValueError, IndexError):
        return None
