"""Tells which means of ending commands a machine lacks; Linux has all of them."""

import os
import sys
from collections.abc import Iterator


def missing_here() -> tuple[str, ...]:
    """Returns what this machine lacks to end commands completely, each as a part of a sentence."""
    return tuple(missing_on(sys.platform, hasattr(os, "pidfd_open"), os.path.exists("/proc/self/stat")))


def missing_on(platform: str, has_pidfd: bool, has_proc: bool) -> Iterator[str]:
    if platform != "linux":
        yield "without subreapers, a process that leaves the process group of its command outlives it"
        yield "without a signal at the death of a parent, a command goes on if its guard is killed"
        yield "the kernel does not end commands first when memory runs out"
        return
    if not has_proc:
        yield "without /proc, a process that leaves the process group of its command outlives it"
    if not has_pidfd:
        yield "without pidfd_open (Python for Linux 5.3), only the command's own process can be ended safely"
