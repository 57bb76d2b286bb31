"""A Postgres of a test's own that may crash, and how it crashes: at once and without a word."""

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.conftest import copy_cluster, eventually

from leasehold import embedded
from leasehold.embedded import Server


@contextmanager
def own_server(settings: Mapping[str, str], cluster: Path | None = None) -> Iterator[Server]:
    """Starts a server on a copy of the cluster, if there is one.

    Not in pytest's folder, which is closed to the account that Postgres runs under when we are root.
    """
    folder = Path(tempfile.mkdtemp(prefix="crashes-"))
    folder.chmod(0o755)
    if cluster is not None:
        (folder / "home").mkdir()
        copy_cluster(cluster, folder / "home")
    try:
        with embedded.postgres(folder / "home", settings=settings) as server:
            yield server
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def crash(server: Server) -> None:
    """An immediate shutdown. Returns when the guard has started it again and it takes connections."""
    pid = server.postmaster_pid()
    os.kill(pid, signal.SIGQUIT)

    async def started_again() -> bool:
        return await asyncio.to_thread(server.postmaster_pid) != pid

    await eventually(started_again, what="a new postmaster")
