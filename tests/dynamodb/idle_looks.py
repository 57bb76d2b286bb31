"""Looks in a sleeping worker's place, without the pauses between them.

async with looking(monkeypatch, store, registration, looks=3) as pauses: …    the seconds before each look
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from types import SimpleNamespace

import pytest
from tests.conftest import PATIENCE

from leasehold.engines.dynamodb import wakes
from leasehold.store import Registration, Store, Wake


@asynccontextmanager
async def looking(
    monkeypatch: pytest.MonkeyPatch, store: Store, registration: Registration, looks: int
) -> AsyncIterator[list[float | None]]:
    """Lets a worker that found nothing sleep, until so many looks have found nothing either. Then none follows."""
    pauses: list[float | None] = []
    done = asyncio.Event()

    class Timeout:
        """A timeout that is over at once, except for the one after the last look."""

        def __init__(self, seconds: float | None) -> None:
            self._seconds = seconds

        async def __aenter__(self) -> None:
            if len(pauses) < looks:
                pauses.append(self._seconds)
                raise TimeoutError
            done.set()

        async def __aexit__(self, *_: object) -> None: ...

    # Only for the module: the client waits by the same functions.
    monkeypatch.setattr(wakes, "asyncio", SimpleNamespace(**{**vars(asyncio), "timeout": Timeout}))
    async with aclosing(store.wakes(registration)) as hears:
        assert await anext(hears) is Wake.WORK
        async with asyncio.timeout(PATIENCE.total_seconds()):
            await done.wait()
        yield pauses
