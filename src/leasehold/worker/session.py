"""One registration's life: it joins, keeps its lease, works, drains and leaves."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any

from leasehold.errors import LeaseholdError, RegistrationLost
from leasehold.model.outcome import Canceled
from leasehold.runtime.outage import Outage
from leasehold.runtime.supervise import cancel_all, keep_running, wait_for_first
from leasehold.store import Registration, Renewal, Store
from leasehold.telemetry import JobLogged
from leasehold.worker.attempt import MARGIN
from leasehold.worker.claim_loop import ClaimLoop
from leasehold.worker.claims import ClaimLedger
from leasehold.worker.events import EventReporter
from leasehold.worker.finish import Finisher
from leasehold.worker.handler_transaction import TransactionContext
from leasehold.worker.handlers import Handlers
from leasehold.worker.heartbeat import Heartbeat, HeartbeatHooks
from leasehold.worker.listener import FALLBACK, Listener
from leasehold.worker.log_buffer import LogBuffer
from leasehold.worker.loop_watch import Blocked, LoopWatch
from leasehold.worker.processes import HandlerProcesses
from leasehold.worker.schedules import NoSchedules, ScheduleLoop
from leasehold.worker.settings import WorkerSettings
from leasehold.worker.starter import AttemptStarter
from leasehold.worker.state import WorkerState
from leasehold.worker.store_calls import StoreCalls
from leasehold.worker.stuck import StuckHandlers
from leasehold.worker.threads import Threads
from leasehold.worker.upkeep import WorkerUpkeep
from leasehold.worker.wake import Reason, WakeChain

LAST_CLAIM, LAST_WRITES = 2.0, 5.0


class WorkerSession:
    """Builds and runs the stages of a worker for one registration, from join to leave.

    Ends by itself only if the registration is lost; then nothing of its attempts is written.
    """

    def __init__(
        self,
        store: Store,
        registration: Registration,
        handlers: Handlers,
        threads: Threads,
        settings: WorkerSettings,
        open_store: Callable[[], Awaitable[Store]],
        events: EventReporter,
        stuck: StuckHandlers,
        outage: Outage,
        schedules: ScheduleLoop | None = None,
        state: Any = None,
        processes: HandlerProcesses | None = None,
    ) -> None:
        self.calls = calls = StoreCalls(store, registration, settings.leases.busy, outage)
        self._settings = settings
        self._events = events
        self.schedules = schedules or NoSchedules()
        self._over: asyncio.Future[None] = calls.loop.create_future()
        self.chain = chain = WakeChain(settings.dispatchers, settings.fallback or FALLBACK)
        self.ledger = ledger = ClaimLedger(
            calls,
            on_doubt=chain.wake,
            before_claim=chain.stand_down,
            on_claims=events.report_claims,
            on_lost=events.report_lease_lost,
        )
        self.heartbeat = heartbeat = self._make_heartbeat(open_store)
        log_buffer = LogBuffer(
            ledger.lose,
            events.report_log if events.listeners.wants(JobLogged) else None,
            accepts=ledger.attempts.__contains__,
            most_lines=settings.log_lines,
        )
        self.finisher = Finisher(calls, ledger, log_buffer, events, holds=lambda: heartbeat.holds)
        transactions = TransactionContext(
            store,
            calls.in_time,
            write_lines=lambda claim: log_buffer.write(store, [claim]),
            holds=lambda: heartbeat.holds,
            loop=calls.loop,
        )
        self.starter = AttemptStarter(
            *(ledger, handlers, settings.slots, threads, stuck, heartbeat, log_buffer, transactions, self.finisher),
            *(events, state, processes),
            on_first=self._note_first_job,
        )
        self.listener = Listener(
            *(calls, chain, events, settings.fallback),
            on_work=ledger.freed.set,
            on_cancel=self.starter.note_cancel,
            on_next_fire=self.schedules.hear,
            on_operation=lambda: self.upkeep.operations_found.set(),
        )
        self.listener.set_listening(settings.notify and (store.abilities.wakes or store.abilities.adaptive_polling))
        # A server whose engine sends no wakes can't pass a probe on from one of its processes to another.
        self.listener.is_probed = store.abilities.wakes or store.abilities.upkeep
        self.claim_loop = ClaimLoop(
            *(calls, ledger, self.starter.budget, chain, threads),
            listens=lambda: self.listener.listens,
            on_poll=partial(events.report_poll, registration),
        )
        self._loop_watch = LoopWatch(
            calls.loop,
            has_work=lambda: bool(ledger.attempts),
            on_lag=partial(events.report_lag, registration),
            on_blocked=self._report_blocked,
        )
        self.upkeep = WorkerUpkeep(calls, ledger, events, settings.prune_every)

    def _make_heartbeat(self, open_store: Callable[[], Awaitable[Store]]) -> Heartbeat:
        worker = self.calls.registration.worker
        hooks = HeartbeatHooks(
            held=lambda: tuple(self.ledger.attempts),
            asks=lambda: {"look": self.chain.waiting > 0, "probe": self.listener.listens and self.listener.is_probed},
            on_renewal=lambda renewal, sent: self._post(self.on_renewal, renewal, sent),
            on_lost=lambda why: self._post(
                self.end,
                RegistrationLost(
                    f"worker {worker} lost its registration: {why}.", fix="It stops its runs and joins again."
                ),
            ),
            on_broken=lambda error: self._post(self.end, error),
            on_missed=lambda error: self._post(self.calls.outage.begin, error, monotonic()),
            on_late=lambda late_by: self._post(self._note_late_heartbeat, late_by),
        )
        return Heartbeat(open_store, self.calls.registration, self._settings.leases, hooks)

    @property
    def is_over(self) -> bool:
        return self._over.done()

    def state(self) -> WorkerState:
        return WorkerState(
            worker=self.calls.registration.worker,
            claims=self.ledger.states(),
            listens=self.listener.listens,
            at_rest=not self.ledger.count and self.chain.is_at_rest,
            fallback=self.chain.fallback,
            heard_at=self.listener.heard_at,
            deputy_is_set=self.chain.deputy_is_set,
        )

    async def serve(self, stopping: asyncio.Event, at_once: asyncio.Event) -> None:
        """Works until `stopping` is set, then drains.

        Raises RegistrationLost, or the error that keeps the heartbeat from beating.
        """
        keep = self.keep_running
        claiming = [keep("dispatcher", self.claim_loop.run) for _ in range(self._settings.dispatchers)]
        ahead = [keep("starter", self.starter.run), keep("scheduler", self.schedules.run)]
        if self.listener.listens:
            ahead.append(keep("listener", self.listener.run))
        others = [
            *self.start_writers(),
            *(keep(name, loop) for name, loop in self.upkeep.loops().items()),
        ]
        self.heartbeat.start()
        self._loop_watch.start()
        self._events.report_join(self.calls.registration, self._settings.slots, self.listener.listens)
        try:
            await wait_for_first(stopping.wait(), asyncio.shield(self._over))
            await cancel_all(ahead)  # nothing more is started, and producers can't choose this worker any more
            listened = self.listener.listens
            self.listener.set_listening(False)  # it is closed: each heartbeat would warn that it is lost
            await self._end_claiming(claiming, listened)
            if not self._registration_is_lost():
                await self.drain(at_once)
        finally:
            self.chain.disarm()
            self.chain.stand_down()
            self.ledger.lose_all()
            await cancel_all([*claiming, *ahead, *others])
            self.finisher.discard(list(self.ledger.attempts.values()))
            self._loop_watch.stop()
            await self.stop_heartbeat()
        self.raise_error()

    def keep_running(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        return keep_running(name, work, lost=self.end, waits=self.calls.outage.loop_waits)

    def start_writers(self) -> list[asyncio.Task[None]]:
        """Starts the loops that write outcomes and log lines."""
        return [
            self.keep_running("finisher", self.finisher.run),
            self.keep_running("log writer", self.finisher.write_lines),
        ]

    def raise_error(self) -> None:
        """Raises the error that ended the session, if there was one."""
        if self._over.done():
            self._over.result()

    async def stop_heartbeat(self) -> None:
        try:
            await asyncio.to_thread(self.heartbeat.stop)
        except RuntimeError:  # the system has refused the thread
            self.heartbeat.stop()

    def _note_late_heartbeat(self, late_by: float) -> None:
        """Reports it, unless the database was away: then the outage is reported."""
        if not self.calls.outage.is_on:
            self._events.report_late_heartbeat(self.calls.registration, late_by)

    def _note_first_job(self) -> None:
        """Called when an attempt is entered after a rest: the heartbeat then renews what the ledger knows."""
        self.heartbeat.hurry_after_a_rest()
        self._loop_watch.note_work()

    def _report_blocked(self, blocked: Blocked) -> None:
        self._events.report_blocked_loop(self.calls.registration, blocked.seconds, blocked.claim, blocked.where)

    # ------------------------------------------------------------------------------------------------- lease state

    def on_renewal(self, renewal: Renewal, sent: float) -> None:
        """Acts on the answer to a heartbeat that was sent at `sent`."""
        self.calls.outage.end(sent)
        for claim in renewal.lost:
            self.ledger.lose(claim)
        for claim in renewal.cancels:
            if claim in self.ledger.attempts:
                self.ledger.attempts[claim].stop(Canceled())
        self.schedules.expect(renewal.next_fire)
        self.upkeep.note(renewal)
        if self.listener.listens:
            self.chain.stand_in(renewal.next_due)
            self.listener.expect_probe(sent)
        if renewal.work_waits and self.chain.waiting and self.starter.budget.room(self.ledger.count):
            self.chain.wake(Reason.DEPUTY)

    def end(self, reason: Exception) -> None:
        """Ends the session. If the registration is lost, all attempts are stopped at once.

        That comes before anything that may wait for a dead connection: other workers may get these jobs any moment.
        """
        lost = isinstance(reason, RegistrationLost)
        if not self._over.done():
            self._over.set_exception(reason)
            if isinstance(reason, RegistrationLost):
                self._events.report_registration_lost(self.calls.registration, reason.happened)
        if lost:
            for claim in list(self.ledger.attempts):
                self.ledger.lose(claim)
            self.ledger.lose_all()

    def _registration_is_lost(self) -> bool:
        return self._over.done() and isinstance(self._over.exception(), RegistrationLost)

    def _post(self, call: Callable[..., None], *arguments: Any) -> None:
        """Calls from the heartbeat's thread on the loop. If the loop is closed, there is nothing left to do."""
        with suppress(RuntimeError):
            self.calls.loop.call_soon_threadsafe(call, *arguments)

    # ----------------------------------------------------------------------------------------------------- leaving

    async def _end_claiming(self, claiming: list[asyncio.Task[None]], listened: bool) -> None:
        """Waits a moment for a claim that is under way, so that its jobs are given back at once.

        If that claim is cut off, it is committed all the same: its jobs would wait for the end of the drain or, if it
        is committed after we left, for their eviction, which counts them as crashed.
        """
        if not self._registration_is_lost():
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_CLAIM):
                    await self.ledger.claiming.acquire()
        await cancel_all(claiming)
        if listened and not self._registration_is_lost():  # a producer may have chosen only this worker
            with suppress(TimeoutError, LeaseholdError):
                async with asyncio.timeout(LAST_CLAIM):
                    await self.calls.store.wake_another(self.calls.registration)

    async def drain(self, at_once: asyncio.Event) -> None:
        """Lets running jobs end within the grace, gives the rest back at no cost, and leaves."""
        self.starter.start_all()
        self.ledger.release_waiting()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.grace.total_seconds()):
                await wait_for_first(self._let_jobs_end(), at_once.wait(), asyncio.shield(self._over))
        self.ledger.release_all()
        with suppress(TimeoutError):
            async with asyncio.timeout(MARGIN):
                await self.ledger.until_empty()
        # The process is killed some seconds later. Its commands would be too, but their jobs would count as crashed.
        self.ledger.stop_all_at_once()
        with suppress(TimeoutError, LeaseholdError):
            async with asyncio.timeout(LAST_WRITES):
                await self.ledger.until_empty()
                if self.ledger.in_doubt:
                    await self.ledger.reconcile()
                if not self._over.done():  # a heartbeat that comes after we left finds no registration, as it should
                    self._over.set_result(None)
                has_claimed = self.ledger.has_claimed or self.ledger.in_doubt
                await self.calls.store.leave(self.calls.registration, has_claimed=has_claimed)
                self._events.report_leave(self.calls.registration)

    async def _let_jobs_end(self) -> None:
        """Returns when no job runs any more. If one still does, people are told that the worker drains."""
        if self.ledger.count:
            with suppress(TimeoutError, LeaseholdError):
                async with asyncio.timeout(LAST_CLAIM):
                    await self.calls.store.note_drain(self.calls.registration)
        await self.ledger.until_empty()
