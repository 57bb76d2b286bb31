"""The open streams of a process."""

import asyncio
from collections import Counter

from leasehold.errors import TooManyRequests


class Streams:
    """Counts open streams, and ends them when the server stops."""

    def __init__(self, most: int, most_of_tenant: int) -> None:
        self._most = most
        self._most_of_tenant = most_of_tenant
        self._tenants: Counter[str] = Counter()
        self._ends: set[asyncio.Event] = set()
        self.are_ended = False

    @property
    def count(self) -> int:
        return len(self._ends)

    def require_room(self, tenant: str | None) -> None:
        """Raises TooManyRequests. A tenant can't take all streams of a server from the others."""
        own = self._tenants[tenant or ""]
        if len(self._ends) >= self._most or (tenant is not None and own >= self._most_of_tenant):
            held = f"tenant {tenant} has {own}" if len(self._ends) < self._most else f"this server has {self._most}"
            raise TooManyRequests(f"{held} open streams. Nothing was opened.", fix="Close one, or poll instead.")

    def enter(self, tenant: str | None) -> asyncio.Event:
        """Adds a stream. Returns the event that tells it to end."""
        ends = asyncio.Event()
        self._ends.add(ends)
        self._tenants[tenant or ""] += 1
        return ends

    def leave(self, tenant: str | None, ends: asyncio.Event) -> None:
        self._ends.discard(ends)
        self._tenants[tenant or ""] -= 1
        self._tenants += Counter()

    def end_all(self) -> None:
        """Ends all streams now: a server that stops would wait for them."""
        self.are_ended = True
        for ends in self._ends:
            ends.set()
