"""Serves /metrics, /health and /ready of a process, on a port of their own and in threads of their own.

A loop that a handler blocks answers nothing; these threads still do, and say so.
"""

import io
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import monotonic
from typing import Any, Protocol

import orjson

from leasehold.runtime.sockets import address_of, bind

# Requests at once; further ones are closed. A client has so many seconds to send its request, and to take the answer.
MOST_REQUESTS, PATIENCE = 16, 5.0
JSON = "application/json"


class ProcessStatus(Protocol):
    """The state of a process, for its server. All are called by threads of the server."""

    def metrics(self, accept: str) -> tuple[str, bytes]:
        """Returns the metrics as a text, with its content type, in a format that the reader accepts."""

    def health(self) -> Sequence[str]:
        """Returns why the process should be ended and started again; empty if it should not."""

    def readiness(self) -> Sequence[str]:
        """Returns why the process can't do its work now; empty if it can."""


class StatusServer:
    """Answers on a socket that is bound already, until it is closed."""

    def __init__(self, bound: socket.socket, status: ProcessStatus) -> None:
        self._server = _Server(bound, status)
        self.url = address_of(bound)
        self._thread = threading.Thread(target=self._server.serve_forever, name="leasehold-status", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def bind_status(host: str, port: int) -> socket.socket:
    """Returns a listening socket; port 0 takes a free one. Raises InvalidInput if the address can't be used."""
    fix = "Name another port with --metrics-port or LEASEHOLD_METRICS_PORT; 0 takes a free one."
    return bind(host, port, subject="the server of metrics", fix=fix, most=MOST_REQUESTS)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, bound: socket.socket, status: ProcessStatus) -> None:
        super().__init__(bound.getsockname()[:2], _Request, bind_and_activate=False)
        self.socket.close()
        self.socket = bound
        self.status = status
        self._room = threading.BoundedSemaphore(MOST_REQUESTS)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._room.acquire(blocking=False):
            try:
                super().process_request(request, client_address)
            except BaseException:  # the system has refused the thread
                self._room.release()
                raise
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores clients that went away; an error of an answer is sent as its status."""


class _WithinPatience(io.RawIOBase):
    """Reads a request as a whole within the patience: a client that sends a byte now and then would keep its room."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._ends_at = monotonic() + PATIENCE

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if (left := self._ends_at - monotonic()) <= 0:
            raise TimeoutError
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)


class _Request(BaseHTTPRequestHandler):
    server: _Server
    server_version = "leasehold"
    sys_version = ""

    def setup(self) -> None:
        super().setup()
        self.rfile = io.BufferedReader(_WithinPatience(self.connection))

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        status = self.server.status
        if path == "/metrics":
            self._answer_metrics()
        elif path == "/health":
            self._answer_problems(status.health())
        elif path == "/ready":
            self._answer_problems(status.readiness())
        else:
            self._answer(404, JSON, orjson.dumps({"ok": False, "paths": ["/metrics", "/health", "/ready"]}))

    do_HEAD = do_GET  # noqa: N815 – the base class looks for this name

    def _answer_metrics(self) -> None:
        try:
            kind, text = self.server.status.metrics(self.headers.get("accept", ""))
        except Exception as error:
            return self._answer(500, JSON, orjson.dumps({"ok": False, "problems": [f"{type(error).__name__}"]}))
        return self._answer(200, kind, text)

    def _answer_problems(self, problems: Sequence[str]) -> None:
        document = {"ok": False, "problems": list(problems)} if problems else {"ok": True}
        self._answer(503 if problems else 200, JSON, orjson.dumps(document))

    def _answer(self, code: int, kind: str, body: bytes) -> None:
        self.connection.settimeout(PATIENCE)
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            with suppress(OSError):
                self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Logs nothing: probes come every few seconds."""
