"""A worker process whose heartbeat can never renew its lease."""

import os
from pathlib import Path
from typing import Any

from leasehold.cli.target import load_app
from leasehold.engines import open_store
from leasehold.store import Store
from leasehold.worker import Worker
from leasehold.worker.process import leave, serve


async def opened() -> Store:
    store = await open_store(os.environ["LEASEHOLD_URL"])
    store.renew = broken  # type: ignore[method-assign, assignment]
    return store


async def broken(*_: Any) -> Any:
    raise RuntimeError("the heart is broken")


if __name__ == "__main__":
    handlers = load_app(str(Path(__file__).parent / "chores.py")).handlers
    leave(serve(lambda: Worker(opened, handlers)))
