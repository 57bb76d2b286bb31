"""Listens for wakes, and notices when the listener's connection is silently dead."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing
from datetime import timedelta
from time import monotonic

from leasehold.errors import CannotListen
from leasehold.runtime.outage import health_log
from leasehold.runtime.supervise import cancel_all, wait_for_first
from leasehold.store import DueWork, NextFire, Wake
from leasehold.worker.events import EventReporter
from leasehold.worker.store_calls import StoreCalls
from leasehold.worker.wake import WakeChain

FALLBACK, FALLBACK_WITHOUT_WAKES = timedelta(seconds=60), timedelta(seconds=2)
LISTEN_AGAIN = 60.0
# A heartbeat's own notification comes back within milliseconds. A loop that a handler blocked gets time to read it.
PROBE_LIMIT, LOOP_LIMIT = 5.0, 0.5


class Listener:
    """Passes wakes to the wake chain. While it can't listen, the worker polls."""

    def __init__(
        self,
        calls: StoreCalls,
        chain: WakeChain,
        events: EventReporter,
        fallback: timedelta | None,
        on_work: Callable[[], None],
        on_cancel: Callable[[], None],
        on_next_fire: Callable[[NextFire], None],
        on_operation: Callable[[], None] = lambda: None,
    ) -> None:
        """Calls `on_work` when there may be work, `on_cancel` when one of this worker's jobs shall be canceled, and
        `on_next_fire` with the times at which schedules fire. `on_operation`: an operation was begun.
        """
        self._calls = calls
        self._chain = chain
        self._events = events
        self._fallback = fallback
        self._on_work = on_work
        self._on_cancel = on_cancel
        self._on_next_fire = on_next_fire
        self._on_operation = on_operation
        self._lost = asyncio.Event()
        self.heard_at = float("-inf")
        self.listens = False
        self.is_probed = True

    async def run(self) -> None:
        """Listens. If the database refuses, logs that once and polls, and tries again once a minute."""
        while True:
            try:
                await self._listen_until_lost()
            except CannotListen as error:
                health_log.log(logging.WARNING if self.listens else logging.DEBUG, "%s", error)
                self._change(False)
                self._chain.wake()
                await asyncio.sleep(LISTEN_AGAIN)

    async def _listen_until_lost(self) -> None:
        """Listens on one connection after the other, until a probe does not come back. Raises CannotListen."""
        self._lost.clear()
        listening = asyncio.create_task(self._listen())
        try:
            await wait_for_first(asyncio.shield(listening), self._lost.wait())
        finally:
            await cancel_all([listening])
        if not listening.cancelled():
            listening.result()

    async def _listen(self) -> None:
        async with aclosing(self._calls.store.wakes(self._calls.registration)) as wakes:
            async for wake in wakes:
                self.heard_at = monotonic()
                self._change(True)
                self.hear(wake)

    def hear(self, wake: Wake | DueWork | NextFire) -> None:
        self._events.report_wake(self._calls.registration, _channel(wake))
        if isinstance(wake, NextFire):
            self._on_next_fire(wake)
        elif isinstance(wake, DueWork):
            if wake.definition in self._calls.registration.serves.definitions:
                self._chain.stand_in(wake.wait)
        elif wake is Wake.CANCEL:
            self._on_cancel()
        elif wake is Wake.OPERATION:
            self._on_operation()
        elif wake is Wake.WORK:
            self._chain.may_be_chosen = True
            self._chain.wake()
            self._on_work()

    def expect_probe(self, sent: float) -> None:
        """Requires that the heartbeat sent at `sent`, or a later notification, is heard in time."""
        if self.listens and self.is_probed and self.heard_at < sent:
            self._calls.loop.call_later(PROBE_LIMIT, self._require_probe, sent)

    def _require_probe(self, sent: float) -> None:
        if self.listens and self.heard_at < sent:
            self._calls.loop.call_later(LOOP_LIMIT, self._lose, sent)

    def _lose(self, sent: float) -> None:
        if self.listens and self.heard_at < sent:
            health_log.warning(
                "the listener is lost: a heartbeat's notification did not come back within %g s. No job is lost: "
                "this worker polls until it can listen again.",
                PROBE_LIMIT,
            )
            self._change(False)
            self._lost.set()
            self._chain.wake()

    def _change(self, listens: bool) -> None:
        if listens != self.listens:
            if listens:
                health_log.info("the listener is back: this worker hears wakes again")
            self.set_listening(listens)
            self._events.report_listening(self._calls.registration, listens)

    def set_listening(self, listens: bool) -> None:
        """Sets how often the worker looks for work without a wake."""
        self.listens = listens
        self._chain.fallback = self._fallback or (FALLBACK if listens else FALLBACK_WITHOUT_WAKES)


def _channel(wake: Wake | DueWork | NextFire) -> str:
    if isinstance(wake, NextFire):
        return "schedule"
    return "due" if isinstance(wake, DueWork) else wake.value
