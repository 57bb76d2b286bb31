"""Workers in this process whose handlers have processes of their own."""

import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Generic, TypeVar

from tests.conftest import eventually
from tests.worker.isolated_app import app
from tests.worker.shop import Shop, Workplace

from leasehold.app.processes import make_processes
from leasehold.model.job import JobId
from leasehold.worker import Worker, WorkerSettings
from leasehold.worker.processes import HandlerProcesses

APP = Path(__file__).parent / "isolated_app.py"


W = TypeVar("W", bound=Workplace)


class IsolatedAt(Generic[W]):
    """A worker whose handlers have processes of their own, and the folder that they write into."""

    def __init__(self, shop: W, folder: Path) -> None:
        self.shop = shop
        self.folder = folder

    @asynccontextmanager
    async def working(self, slots: int = 4) -> AsyncIterator[tuple[Worker, HandlerProcesses]]:
        pool = make_processes(app, self.shop.url, WorkerSettings(slots=slots))
        assert pool is not None
        async with self.shop.working(app.handlers, processes=pool, slots=slots) as worker:
            yield worker, pool
        assert pool.pids == []

    async def enqueue(self, definition: str, **payload: Any) -> JobId:
        return await self.shop.enqueue(definition, payload=payload)

    async def begin(self, definition: str) -> tuple[JobId, int]:
        """A job whose handler runs, and its process."""
        job = await self.enqueue(definition, folder=str(self.folder))
        return job, await self.written("began")

    async def written(self, name: str) -> int:
        async def is_there() -> bool:
            return (self.folder / name).exists()

        await eventually(is_there, what=f"{name!r} of a handler")
        return int((self.folder / name).read_text())


Isolated = IsolatedAt[Shop]


def is_alive(pid: int) -> bool:
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout.strip()
    return bool(state) and not state.startswith("Z")


def guard_of(pid: int) -> int:
    """The parent of a process of handlers."""
    return int(Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[1])


async def until_ended(pid: int, within: timedelta = timedelta(seconds=30)) -> None:
    async def has_ended() -> bool:
        return not is_alive(pid)

    await eventually(has_ended, within, what=f"the end of process {pid}")
