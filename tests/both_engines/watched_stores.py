"""Stores of workers that a test interferes with, on each engine: silent heartbeats, counted wakes and looks."""

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from tests.conftest import eventually

from leasehold import engine
from leasehold.store import Claimed, DueWork, NextFire, Registration, Renewal, Store, Wake

CHANNELS = {DueWork: "due", NextFire: "schedule"}


class SilentStores:
    """Opens stores of a worker whose heartbeats can be held up. Heartbeats are sent by a thread of their own."""

    def __init__(self, kit: engine.TestKit) -> None:
        self._kit = kit
        self._lock = threading.Lock()
        self._is_silent = False
        self._under_way = 0

    async def __call__(self) -> Store:
        store = await self._kit.open()
        renew = store.renew

        async def held_up(*arguments: Any, **named: Any) -> Renewal:
            while not self._may_begin():  # noqa: ASYNC110 - another thread lets it go on
                await asyncio.sleep(0.01)
            try:
                return await renew(*arguments, **named)
            finally:
                self._under_way -= 1

        store.renew = held_up  # type: ignore[method-assign]
        return store

    def _may_begin(self) -> bool:
        with self._lock:
            self._under_way += not self._is_silent
            return not self._is_silent

    async def fall_silent(self) -> None:
        """Holds up all later heartbeats, and returns when none is under way."""
        with self._lock:
            self._is_silent = True

        async def is_silent() -> bool:
            return self._under_way == 0

        await eventually(is_silent, what="the end of a heartbeat")

    def speak(self) -> None:
        self._is_silent = False


class CountingStores(SilentStores):
    """Counts the wakes that the store has sent, by their names, and how often it was asked for work."""

    def __init__(self, kit: engine.TestKit) -> None:
        super().__init__(kit)
        self.wakes: Counter[str] = Counter()
        self.looks = 0

    async def __call__(self) -> Store:
        store = await super().__call__()
        wakes, claim, prepare_to_sleep = store.wakes, store.claim, store.prepare_to_sleep

        async def counted_wakes(registration: Registration) -> AsyncGenerator[Wake | DueWork | NextFire, None]:
            async with aclosing(wakes(registration)) as sent:
                async for wake in sent:
                    self.wakes[wake.value if isinstance(wake, Wake) else CHANNELS[type(wake)]] += 1
                    yield wake

        async def counted_claim(*arguments: Any, **named: Any) -> Claimed:
            self.looks += 1
            return await claim(*arguments, **named)

        async def counted_last_look(*arguments: Any, **named: Any) -> Claimed:
            before = self.looks
            claimed = await prepare_to_sleep(*arguments, **named)
            self.looks = before + 1  # DynamoDB has called `claim` for it
            return claimed

        store.wakes = counted_wakes  # type: ignore[method-assign]
        store.claim = counted_claim  # type: ignore[method-assign]
        store.prepare_to_sleep = counted_last_look  # type: ignore[method-assign]
        return store
