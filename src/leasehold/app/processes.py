"""Makes the processes that run the handlers of an app with isolation="process"."""

import sys
from typing import Protocol

from leasehold.app.target import target_of
from leasehold.config import Settings
from leasehold.errors import InvalidInput
from leasehold.worker import Handlers, WorkerSettings
from leasehold.worker.processes import HandlerProcesses

_PROGRAM = "from leasehold.app.handler_process import main; main()"


class _Process:
    """Tells a process that runs handlers from those that run workers: each could start the other for ever."""

    runs_handlers = False


def mark_handler_process() -> None:
    _Process.runs_handlers = True


class App(Protocol):
    """An app. `process_target` is where another process finds it; None: it is looked up among the modules."""

    handlers: Handlers
    process_target: str | None

    @property
    def settings(self) -> Settings: ...


def make_processes(app: App, url: str, settings: WorkerSettings) -> HandlerProcesses | None:
    """Returns processes for the handlers that such a worker runs; None if none of them has isolation="process".

    Raises InvalidInput if another process can't import the app.
    """
    if _Process.runs_handlers:
        raise InvalidInput(
            "the app was imported here to run its handlers, and starts a worker. Nothing was started.",
            fix="Put code that shall only run in a script below: if __name__ == '__main__'.",
        )
    served = settings.subscription(app.handlers.keys).definitions
    if not any(app.handlers[key].isolation for key in served):
        return None
    plan = {
        "target": app.process_target or target_of(app),
        "url": url,
        "schema": app.settings.schema,
        "path": sys.path,
        "argv": sys.argv,
    }
    return HandlerProcesses([sys.executable, "-P", "-c", _PROGRAM], plan, settings.slots)
