"""Fault points, for tests only: named places where a test can stop or kill the process, or raise an error.

    LEASEHOLD_FAULT=before_finish:stop leasehold worker

stop    the process stops itself (SIGSTOP) until a test sends SIGCONT
exit    the process ends at once, as by kill -9
raise   InjectedFault is raised

A fault happens once, when its point is reached for the first time. Commas separate several faults. The variable is
read when this module is imported; without it, as in production, reaching a point costs one check of an empty dict.
"""

import os
import signal
from collections.abc import Callable


class InjectedFault(Exception):
    """The error of a `raise` fault."""


def reach(point: str) -> None:
    if _armed and (strike := _armed.pop(point, None)):
        strike()


def arm(faults: str) -> None:
    """Arms faults as LEASEHOLD_FAULT does, for a test whose handler decides when."""
    for fault in filter(None, faults.split(",")):
        point, _, action = fault.partition(":")
        _armed[point] = _ACTIONS[action]


def on(point: str, strike: Callable[[], None]) -> None:
    """Calls a function of the test when the point is reached for the first time."""
    _armed[point] = strike


def _stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def _exit() -> None:
    os._exit(9)


def _raise() -> None:
    raise InjectedFault("LEASEHOLD_FAULT asked for it")


_ACTIONS: dict[str, Callable[[], None]] = {"stop": _stop, "exit": _exit, "raise": _raise}
_armed: dict[str, Callable[[], None]] = {}
arm(os.environ.get("LEASEHOLD_FAULT", ""))
