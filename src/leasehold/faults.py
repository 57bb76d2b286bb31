"""Fault points, for tests only: named places at which a worker can be made to stop, exit or raise.

    LEASEHOLD_FAULT=before_finish:stop leasehold worker

stop    the process stops itself (SIGSTOP) until somebody sends SIGCONT
exit    the process ends at once, as by kill -9
raise   InjectedFault is raised

A fault strikes the first time its point is reached, once. Several are separated by commas. The variable is read when
this module is imported; without it, as in production, reaching a point costs a look at an empty dictionary.
"""

import os
import signal
from collections.abc import Callable


class InjectedFault(Exception):
    """What `raise` raises."""


def reach(point: str) -> None:
    if _armed and (strike := _armed.pop(point, None)):
        strike()


def arm(faults: str) -> None:
    """As if LEASEHOLD_FAULT had been set to this: for a test whose handler decides when."""
    for fault in filter(None, faults.split(",")):
        point, _, action = fault.partition(":")
        _armed[point] = _ACTIONS[action]


def on(point: str, strike: Callable[[], None]) -> None:
    """Has something of the test's own done there, once."""
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
