"""The worker: connects, runs one session after the other, and ends when it is stopped."""

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from time import monotonic

from leasehold.commands.folders import look_for_leftovers
from leasehold.errors import LeaseholdError, RegistrationLost, Unreachable
from leasehold.runtime.attempt_logs import carry_attempts
from leasehold.runtime.outage import Outage, health_log
from leasehold.runtime.redacted_logs import redact_own_logs
from leasehold.runtime.supervise import RestartPolicy, wait_at_most
from leasehold.store import Store, WorkerFacts
from leasehold.telemetry import Listeners, Observer, ignore_events
from leasehold.telemetry.attempt_events import events_log
from leasehold.telemetry.metrics import ProcessState
from leasehold.worker.events import EventReporter, log_problems
from leasehold.worker.handlers import Handlers
from leasehold.worker.lifespan import Lifespan, OpenState
from leasehold.worker.processes import HandlerProcesses
from leasehold.worker.schedules import MakeScheduleLoop
from leasehold.worker.session import WorkerSession
from leasehold.worker.settings import WorkerSettings
from leasehold.worker.state import WorkerState
from leasehold.worker.stuck import StuckHandlers, TooManyStuck
from leasehold.worker.threads import Threads

log = logging.getLogger("leasehold.worker")

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
# A handler in a thread whose attempt is over, by a timeout or a lost lease, keeps its thread to the end.
MOST_ABANDONED = 1000
# A worker with more stuck handlers than this and its slots ends. Each slot then still has a thread for its handler.
MOST_STUCK = 100


class Worker:
    """Runs the jobs of the definitions that it has handlers for, or of those that its settings select.

        worker = Worker(engine_for(url).open, handlers)
        await worker.run()      # until worker.stop()

    `stop` lets running jobs end within the grace, gives the rest back without using a try, and `run` returns. A
    second `stop` ends the grace at once. The worker waits for a database that is away. If it loses its registration,
    it joins again and stops the jobs that ran under the old one, since other workers may have them now. A handler
    that can't be stopped is left behind, with a warning in the log; if more than slots + 100 are, the worker drains
    and `run` raises TooManyStuck. `observe` is called with events: a function with each of them, a
    `Listener` or `Listeners` with those that it wants (leasehold.telemetry).
    `session` has the stages of the current registration; it is None while there is none.
    `make_schedules` returns the loop that fires schedules beside the jobs; None: this worker fires none.
    `open_state` opens the lifespan of the app, for as long as `run` works; its value is `job.state`.
    `processes` run the handlers with isolation="process"; without them those run in this process.
    """

    def __init__(
        self,
        open_store: Callable[[], Awaitable[Store]],
        handlers: Handlers,
        settings: WorkerSettings | None = None,
        observe: Observer = ignore_events,
        make_schedules: MakeScheduleLoop | None = None,
        open_state: OpenState | None = None,
        processes: HandlerProcesses | None = None,
    ) -> None:
        redact_own_logs()
        handlers.require_secret_keys()
        self._open_store = open_store
        self._declared = self._handlers = handlers
        self._problems: Mapping[str, str] = {}
        self._settings = settings or WorkerSettings()
        self._settings.subscription(handlers.keys)  # raises now, before anything is opened
        self._make_schedules = make_schedules
        self._events = EventReporter(observe)
        self._outage = Outage(self._events.listeners)
        self._lifespan = Lifespan(open_state)
        self._processes = processes
        self._threads = Threads(self._settings.slots + MOST_ABANDONED, "leasehold-handler")
        self._stuck = StuckHandlers(min(MOST_ABANDONED, self._settings.slots + MOST_STUCK), self._give_up)
        self._failure: TooManyStuck | None = None
        self._stopping = asyncio.Event()
        self._at_once = asyncio.Event()
        self.session: WorkerSession | None = None
        self.joined = asyncio.Event()

    def stop(self) -> None:
        if self._stopping.is_set():
            self._at_once.set()
        self._stopping.set()
        self._lifespan.stop()

    def announce_stop(self, grace: timedelta) -> None:
        """Logs for people how long running jobs may go on."""
        if not grace:
            events_log.info("running jobs are given back now")
        elif self.running:
            events_log.info(
                "stopping: running jobs have %g s to end, a second Ctrl-C gives them back at once",
                grace.total_seconds(),
            )

    def wake(self) -> None:
        """Looks for work now, as after a wake. Not needed for correctness."""
        if self.session is not None:
            self.session.chain.wake()
            self.session.schedules.look()

    def state(self) -> WorkerState:
        """Returns a snapshot of what the worker is doing, for tests and for people."""
        state = WorkerState() if self.session is None else self.session.state()
        return replace(state, stuck=len(self._stuck))

    @property
    def grace(self) -> timedelta:
        return self._settings.grace

    @property
    def listeners(self) -> Listeners:
        """The listeners of its events. Its process closes them at the end: another worker may replace this one."""
        return self._events.listeners

    @property
    def running(self) -> int:
        """How many jobs it has claimed and not finished."""
        return 0 if self.session is None else self.session.ledger.count

    @property
    def current_store(self) -> Store | None:
        """The store of the current registration, on the loop of `run`."""
        return None if self.session is None else self.session.calls.store

    def process_state(self) -> ProcessState:
        """Returns the state for metrics and probes."""
        return ProcessState(
            tuple(self._problems_now()),
            self._settings.slots,
            self.running,
            len(self._stuck),
            self.session is not None and self.session.listener.listens,
        )

    def _problems_now(self) -> Iterator[str]:
        """Yields why the worker can't do its work."""
        if self._stopping.is_set():
            yield "the worker is stopping"
        if (seconds := self._outage.seconds) is not None:
            yield f"the database has been away for {seconds:.0f} s"
        elif self.session is None:
            yield "the worker has no registration" if self.joined.is_set() else "the worker has not joined yet"
        elif not self.session.heartbeat.holds:
            yield "the lease of the worker has run out: no heartbeat was answered in time"
        if len(self._stuck) >= self._settings.slots:
            yield f"{len(self._stuck)} handlers still run although their attempts are over: {self._stuck}"

    async def run(self) -> None:
        """Works until it is stopped. Raises LifespanFailed, TooManyStuck, or the error that it can't go on with."""
        look_for_leftovers()
        self._handlers, self._problems = self._handlers.of_this_machine()
        log_problems(self._problems)
        try:
            if await self._lifespan.open():
                carry_attempts()  # after the lifespan, which may set up logging
                await self._serve_sessions()
        finally:
            self._threads.shutdown(cancel_futures=True)
            if self._stuck:
                log.warning("the worker has ended, but these handlers still run in its process: %s", self._stuck)
            if self._processes is not None:
                await self._processes.close()
            await self._lifespan.close()
        if self._failure is not None:
            raise self._failure

    async def _serve_sessions(self) -> None:
        policy = RestartPolicy(FIRST_PAUSE, LONGEST_PAUSE)
        while not self._stopping.is_set():
            try:
                await self._serve_one_session()
                policy.reset()
            except Unreachable as error:
                self._outage.begin(error)
                await wait_at_most(self._stopping, policy.next_random_pause())
            except RegistrationLost as error:
                health_log.warning("%s Joining again.", error.happened)
                policy.reset()

    def _give_up(self) -> None:
        """Drains and ends, so that a supervisor starts the process again."""
        self._failure = TooManyStuck(
            f"{len(self._stuck)} handlers still run although their attempts are over: {self._stuck}. The worker "
            "claims nothing more, drains, and ends, since only the end of its process frees their threads and tasks. "
            "Give what these handlers wait for a time limit of its own."
        )
        log.error("%s", self._failure)
        self._stopping.set()

    async def _serve_one_session(self) -> None:
        began = monotonic()
        store = await self._open_store()
        try:
            changes = await store.sync_definitions(self._handlers.definitions)
            triggers = await self._handlers.sync_triggers(store)
            serves = self._settings.subscription(self._declared.keys, self._handlers.keys)
            registration = await store.join(serves, self._facts(), self._settings.leases.busy)
            self._outage.worker = registration.worker
            self._outage.end(began)
            self._events.report_problems(registration, self._problems)
            self._events.report_sync(registration, changes)
            self._events.report_trigger_sync(triggers)
            session = WorkerSession(
                store,
                registration,
                self._handlers,
                self._threads,
                self._settings,
                self._open_store,
                self._events,
                self._stuck,
                self._outage,
                self._make_schedules(store) if self._make_schedules and store.abilities.schedules else None,
                self._lifespan.state,
                self._processes,
            )
            self.session = session
            self.joined.set()
            await session.serve(self._stopping, self._at_once)
        finally:
            self.session = None
            try:
                await asyncio.wait_for(store.close(), 5)
            except (LeaseholdError, TimeoutError) as error:
                log.debug("closing the store: %s", error)

    def _facts(self) -> WorkerFacts:
        settings = self._settings
        return WorkerFacts(socket.gethostname(), os.getpid(), settings.version, settings.slots, settings.metadata)
