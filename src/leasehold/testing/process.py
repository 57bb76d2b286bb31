"""Runs a worker in a process of its own, as in production: a test can kill it, pause it and wait for it."""

import os
import sys
from types import ModuleType

from leasehold.app import Leasehold
from leasehold.errors import InvalidInput
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


def target_of(app: Leasehold) -> str:
    """Returns where another process finds the app: the module that holds it by name, a script by file."""
    for name, module in list(sys.modules.items()):
        if isinstance(module, ModuleType):
            for attribute, value in list(vars(module).items()):
                if value is app:
                    return f"{_place(name, module)}:{attribute}"
    raise InvalidInput(
        "no module holds the app, so a process of its own can't import it. Nothing was started.",
        fix='Make it a global of a module: app = Leasehold(); or set leasehold_app = "shop.app:app" for pytest.',
    )


def _place(name: str, module: ModuleType) -> str:
    """Returns a module's file if its name can't be imported, as test modules may be."""
    is_importable = module.__spec__ is not None and name != "__main__" and not _is_a_test(module)
    return name if is_importable else str(module.__file__)


def _is_a_test(module: ModuleType) -> bool:
    file = os.path.basename(getattr(module, "__file__", None) or "")
    return file == "conftest.py" or file.startswith("test_") or file.endswith("_test.py")
