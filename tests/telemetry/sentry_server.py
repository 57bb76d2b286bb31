"""A local server that speaks the envelope protocol of Sentry: it keeps the events that it gets."""

import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PUBLIC_KEY = "0123456789abcdef0123456789abcdef"


class SentryServer:
    """The events of all envelopes so far, and the raw texts of these, to look for what must not be in them."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.texts: list[str] = []
        self.is_broken = False
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())

    @property
    def dsn(self) -> str:
        return f"http://{PUBLIC_KEY}@127.0.0.1:{self._http.server_port}/42"

    @contextmanager
    def serving(self) -> Iterator["SentryServer"]:
        thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield self
        finally:
            self._http.shutdown()
            thread.join()
            self._http.server_close()

    def take(self, path: str, headers: Any, body: bytes) -> int:
        """Reads an envelope: a header, then items, each with a header that says how long it is."""
        if self.is_broken:
            return 500
        if path != "/api/42/envelope/" or f"sentry_key={PUBLIC_KEY}" not in headers["X-Sentry-Auth"]:
            return 403
        text = gzip.decompress(body) if headers["Content-Encoding"] == "gzip" else body
        _, _, rest = text.partition(b"\n")
        while rest.strip():
            line, _, rest = rest.partition(b"\n")
            header = json.loads(line)
            length = header["length"]
            if header["type"] == "event":
                self.texts.append(rest[:length].decode())
                self.events.append(json.loads(rest[:length]))
            rest = rest[length:].removeprefix(b"\n")
        return 200

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = server.take(self.path, self.headers, body)
                self.send_response(status)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_: Any) -> None: ...

        return Handler
