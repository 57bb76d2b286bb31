"""Values that all visitors share, read at most once every two seconds, however many pages are open."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from time import monotonic
from typing import Any, TypeVar, cast

T = TypeVar("T")

FRESH = 2.0
MOST = 1000


class RecentValues:
    """Remembers values by a key. Of several visitors at once, one reads, and the others wait for its answer."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._values: OrderedDict[Hashable, tuple[float, Any]] = OrderedDict()
        self._reading: dict[Hashable, asyncio.Lock] = {}
        self._changes = 0

    def forget(self, *beginning: Hashable) -> None:
        """Forgets the values that have just changed: those whose keys are tuples that begin like this.

        Reads under way may have seen values before the change: they are answered, but not remembered.
        """
        self._changes += 1
        size = len(beginning)
        for key in [each for each in self._values if isinstance(each, tuple) and each[:size] == beginning]:
            del self._values[key]

    async def get(self, key: Hashable, read: Callable[[], Awaitable[T]]) -> T:
        lock = self._reading.setdefault(key, asyncio.Lock())
        try:
            async with lock:
                found = self._values.get(key)
                if found is not None and self._clock() - found[0] < FRESH:
                    return cast(T, found[1])
                changes = self._changes
                value = await read()
                if changes != self._changes:
                    return value
                self._values[key] = self._clock(), value
                self._values.move_to_end(key)
                while len(self._values) > MOST:
                    self._values.popitem(last=False)
                return value
        finally:
            if not lock.locked():
                self._reading.pop(key, None)
