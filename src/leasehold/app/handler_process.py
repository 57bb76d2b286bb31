"""The main program of a process for handlers with isolation="process": finds the app, and serves its worker."""

import os
import socket
import sys
from collections.abc import Mapping
from typing import Any

from leasehold.app.load import load_app
from leasehold.app.processes import mark_handler_process
from leasehold.config import read_log_format
from leasehold.runtime.log_format import begin_logs
from leasehold.runtime.process import leave
from leasehold.runtime.redacted_logs import redact_all_logs
from leasehold.runtime.redacted_prints import redact_prints
from leasehold.telemetry import Listeners
from leasehold.worker import Handlers
from leasehold.worker.handler_process import serve
from leasehold.worker.lifespan import OpenState


def main() -> None:
    """Serves on the socket whose number is the only argument."""
    begin_logs(read_log_format())
    redact_all_logs()
    redact_prints()
    number = int(sys.argv[1])
    os.set_inheritable(number, False)
    serve(socket.socket(fileno=number), load)
    leave(0)


def load(plan: Mapping[str, Any]) -> tuple[Handlers, OpenState | None, Listeners]:
    mark_handler_process()
    sys.path[:], sys.argv[:] = plan["path"], plan["argv"]
    app = load_app(plan["target"])
    app.configure(url=plan["url"], schema=plan["schema"])
    redact_all_logs()  # once more: the app may have set up handlers of its own
    return app.handlers, app.open_state(), app.listeners
