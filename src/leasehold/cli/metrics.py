"""The port of a worker, a scheduler or a server for metrics and probes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, TypeVar

import typer

from leasehold.app import Leasehold
from leasehold.app.process_status import Service, ServiceStatus, require_metrics
from leasehold.cli.output import stderr
from leasehold.config import LAST_PORT, read_port
from leasehold.errors import InvalidInput
from leasehold.runtime.process import process_number
from leasehold.runtime.status_server import StatusServer, bind_status

S = TypeVar("S", bound=Service)

MetricsPort = Annotated[
    int | None, typer.Option(help="Serve /metrics, /health and /ready here.", metavar="PORT", show_default=False)
]
MetricsHost = Annotated[
    str | None, typer.Option(help="Address for them; default 127.0.0.1.", metavar="HOST", show_default=False)
]


class Endpoint:
    """The status server of this process, if a port is set. Each process of a worker has a port of its own."""

    def __init__(self, app: Leasehold, port: int | None, host: str | None) -> None:
        self._app = app
        self._first = app.settings.metrics_port if port is None else read_port(str(port))
        self._host = app.settings.metrics_host if host is None else host
        if self._first is not None:
            require_metrics()
        self._status: ServiceStatus | None = None

    def require_free(self, processes: int) -> None:
        """Raises InvalidInput if one of the ports can't be used: children that can't start would be restarted."""
        for number in range(processes if self._first else 0):
            bind_status(self._host, self._port(number)).close()

    @contextmanager
    def open(self) -> Iterator[None]:
        """Serves for the length of the block. Services that are made within it are counted."""
        if self._first is None:
            yield
            return
        self._status = ServiceStatus(self._app.counts())
        server = StatusServer(bind_status(self._host, self._port(process_number())), self._status)
        server.start()
        stderr.print(f"✓ metrics   {server.url}/metrics", markup=False, highlight=False)
        try:
            yield
        finally:
            server.close()

    def attach(self, service: S) -> S:
        """Tells the server which service runs on this loop."""
        if self._status is not None:
            self._status.attach(service)
        return service

    def _port(self, number: int) -> int:
        """Returns the port of a process: the first one has the port that was named, the next one that after it."""
        if not self._first or self._first + number <= LAST_PORT:
            return self._first + number if self._first else 0
        raise InvalidInput(
            f"process {number} would serve its metrics on port {self._first + number}, and {LAST_PORT} is the last. "
            "Nothing was started.",
            fix="Name a smaller port with --metrics-port: each process takes the next one.",
        )
