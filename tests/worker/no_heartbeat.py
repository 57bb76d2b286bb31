"""A worker process whose heartbeat can never renew its lease."""

import os
from pathlib import Path
from typing import Any

from leasehold.cli.target import load_app
from leasehold.engines import engine_for
from leasehold.runtime.process import leave, serve
from leasehold.store import Store
from leasehold.worker import Worker


async def opened() -> Store:
    store = await engine_for(os.environ["LEASEHOLD_URL"]).open()
    store.renew = broken  # type: ignore[method-assign]
    return store


async def broken(*_: Any, **asks: Any) -> Any:
    raise RuntimeError("the heart is broken")


if __name__ == "__main__":
    handlers = load_app(str(Path(__file__).parent / "sample_handlers.py")).handlers
    leave(serve(lambda: Worker(opened, handlers)))
