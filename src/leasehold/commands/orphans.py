"""Finds processes that a killed guard could not end.

A guard is killed by a command that means harm, which runs as the same user, or together with its worker. The kernel
kills the command itself then; the processes that it started are found by the environment that they inherited.
"""

import os
import signal
from contextlib import suppress

ROUNDS = 100


def kill_marked(mark: bytes) -> int:
    """Kills all processes with this `NAME=value` in their environment. Returns how many; always 0 without /proc."""
    killed = 0
    for _ in range(ROUNDS):
        found = [pid for pid in _pids() if _has_mark(pid, mark)]
        if not found:
            break
        for pid in found:
            killed += _kill(pid, mark)
    return killed


def _pids() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return []


def _has_mark(pid: int, mark: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return mark in file.read().split(b"\0")
    except OSError:
        return False


def _kill(pid: int, mark: bytes) -> bool:
    """Kills by a pidfd, after another look: the pid may belong to another process by now."""
    with suppress(OSError):
        descriptor = os.pidfd_open(pid)
        try:
            if _has_mark(pid, mark):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                return True
        finally:
            os.close(descriptor)
    return False
