"""Runs a worker in a process of its own, as in production: a test can kill it, pause it and wait for it."""

import os
import sys

from leasehold.app.target import target_of
from leasehold.runtime.child import PATIENCE, WatchedChild

__all__ = ["PATIENCE", "WorkerProcess", "target_of"]

_WORKER = "from leasehold.cli import main; main()"


class WorkerProcess(WatchedChild):
    """`leasehold worker` for the app of a test, on the test's database. It ends with the test at the latest.

    The process imports the app itself: patches and injected errors of the test have no effect there. After a kill,
    others get its jobs when its lease is over: `leasehold.clock.advance("2m")`. Its events are those that
    `leasehold worker --json` prints.
    """

    def __init__(self, target: str, url: str, schema: str, *options: str) -> None:
        command = [sys.executable, "-c", _WORKER, "worker", target, "--json", "--until-stdin-ends", *options]
        here = {"LEASEHOLD_URL": url, "LEASEHOLD_SCHEMA": schema, "PYTHONPATH": os.pathsep.join(sys.path)}
        super().__init__("worker", command, os.environ | here, ready="worker.joined")
