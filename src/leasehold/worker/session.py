"""One registration's life: wait, claim, run, decide, finish."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import aclosing, suppress
from datetime import timedelta
from operator import attrgetter
from random import random
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from leasehold.errors import CannotListen, LeaseholdError, RegistrationLost, Unreachable
from leasehold.faults import reach
from leasehold.model.job import Claim
from leasehold.model.outcome import SUCCEEDED, Canceled, Outcome, Released, Verdict, decided
from leasehold.runtime.supervise import cancel_all, keep_running, wait_for_first
from leasehold.store import Claimed, DueWork, Registration, Renewal, Store, Wake
from leasehold.worker.attempt import MARGIN, Run, RunContext
from leasehold.worker.copies import end_a_copy
from leasehold.worker.events import EventReporter
from leasehold.worker.fence import was_written
from leasehold.worker.finish import finish_all, verdict_on
from leasehold.worker.handler_transaction import TransactionContext
from leasehold.worker.handlers import Handlers
from leasehold.worker.heartbeat import Heartbeat
from leasehold.worker.job import Job
from leasehold.worker.log_buffer import LogBuffer
from leasehold.worker.outage import Outage
from leasehold.worker.prefetch import ClaimBudget
from leasehold.worker.slots import Slots
from leasehold.worker.stuck import StuckHandlers
from leasehold.worker.threads import Threads
from leasehold.worker.upkeep import reclaim_orphans
from leasehold.worker.wake import Reason, WakeChain

if TYPE_CHECKING:
    from leasehold.worker.worker import WorkerSettings

log = logging.getLogger("leasehold.worker")
T = TypeVar("T")

FALLBACK, FALLBACK_WITHOUT_WAKES = timedelta(seconds=60), timedelta(seconds=2)
LISTEN_AGAIN = 60.0
# A heartbeat's own notification comes back within milliseconds. A loop that a handler blocked gets time to read it.
PROBE_LIMIT, LOOP_LIMIT = 5.0, 0.5
FIRST_HESITATION, LONGEST_HESITATION = 0.005, 0.25
LINGER = 0.003
PRUNED_AT_ONCE = 1000
LAST_CLAIM, LAST_WORDS = 2.0, 5.0
DISCARDED = "LH-4001: job %s try %d lost its lease; it was given to another worker, this result is discarded"


class WorkerSession:
    """From join to leave. Ends by itself only when the registration is lost; then nothing of its runs is written."""

    def __init__(
        self,
        store: Store,
        registration: Registration,
        handlers: Handlers,
        threads: Threads,
        settings: "WorkerSettings",
        open_store: Callable[[], Awaitable[Store]],
        report: EventReporter,
        stuck: StuckHandlers,
        outage: Outage,
    ) -> None:
        self._store = store
        self._registration = registration
        self._handlers = handlers
        self._settings = settings
        self._events = report
        self._outage = outage
        self._loop = asyncio.get_running_loop()
        self._to_start: deque[Claim] = deque()
        self._any_claimed = asyncio.Event()
        self._runs: dict[Claim, Run] = {}
        self._done: list[tuple[Run, Outcome]] = []
        self._any_done = asyncio.Event()
        self._freed = asyncio.Event()
        self._orphans = asyncio.Event()
        self._strays = asyncio.Event()
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._slots = Slots(settings.slots)
        self._context = RunContext(threads, stuck, self._may_begin, self._ended)
        self._budget = ClaimBudget(settings.slots)
        self._claiming = asyncio.Lock()
        self._claims_in_doubt = False
        self._may_be_chosen = True
        self._heard_at = float("-inf")
        self._listener_lost = asyncio.Event()
        self._strays_may_come = False
        self._cancel_may_be_of_the_next = False
        self._leaves = False
        self._log_buffer = LogBuffer(
            self._lost_claim, report.said if report.is_observed else None, may_speak=self._runs.__contains__
        )
        self._chain = WakeChain(settings.dispatchers, settings.fallback or FALLBACK)
        self._set_listening(settings.notify and store.abilities.wakes)
        self._heartbeat = Heartbeat(
            open_store,
            registration,
            settings.leases,
            held=lambda: tuple(self._runs),
            asks=lambda: {"look": self._chain.waiting > 0, "probe": self._listens},
            on_renewal=lambda renewal, sent: self._post(self._renewed, renewal, sent),
            on_lost=lambda why: self._post(
                self._end,
                RegistrationLost(
                    f"worker {registration.worker} lost its registration: {why}.",
                    fix="It stops its runs and joins again.",
                ),
            ),
            on_broken=lambda error: self._post(self._end, error),
            on_missed=lambda error: self._post(self._outage.begin, error),
        )
        self._ends = TransactionContext(
            store,
            self._in_time,
            write_lines=lambda claim: self._log_buffer.write(store, [claim]),
            holds=lambda: self._heartbeat.holds,
            loop=self._loop,
        )

    async def serve(self, stopping: asyncio.Event, at_once: asyncio.Event) -> None:
        """Works until told to stop, then drains. Raises RegistrationLost, or what keeps the heartbeat from
        beating.
        """
        keep = self._keep
        claiming = [keep("dispatcher", self._dispatch) for _ in range(self._settings.dispatchers)]
        ahead = [keep("starter", self._start_on)]
        if self._listens:
            ahead.append(keep("listener", self._listen))
        others = [
            keep("finisher", self._finish_on),
            keep("voice", lambda: self._log_buffer.write_on(self._store, self._in_time)),
            keep("burial", self._bury_on),
            keep("reconciler", self._reconcile_on),
            keep("pruning", self._prune_on),
        ]
        self._heartbeat.start()
        self._events.joined(self._registration, self._settings.slots, self._listens)
        try:
            await wait_for_first(stopping.wait(), asyncio.shield(self._over))
            await cancel_all(ahead)  # nothing more is started, and no producer takes us for one that it could wake
            listened = self._listens
            self._set_listening(False)  # it is closed: each heartbeat would warn that it is lost
            await self._end_claiming(claiming, listened)
            if not self._registration_is_lost():
                await self._drain(at_once)
        finally:
            self._chain.disarm()
            self._chain.stand_down()
            self._stop_runs()
            await cancel_all([*claiming, *ahead, *others])
            self._forget_all()
            await self._end_heartbeat()
        if self._over.done():
            self._over.result()

    def _keep(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        return keep_running(name, work, lost=self._end, waits=self._outage.loop_waits)

    async def _end_heartbeat(self) -> None:
        try:
            await asyncio.to_thread(self._heartbeat.stop)
        except RuntimeError:  # the system has refused the thread
            self._heartbeat.stop()

    def wake(self) -> None:
        self._chain.wake()

    @property
    def held(self) -> int:
        """Claimed, and not finished."""
        return len(self._runs) + len(self._to_start)

    # ------------------------------------------------------------------------------------------- wait, claim, run

    async def _dispatch(self) -> None:
        """One claim loop. A token is passed on only by who was woken and found work, never from the tight loop.

        Between workers the same, by who fills its window: see `_pass_wake_on`. It may take two claims, since one that
        raced with others brings less than there is.
        """
        woken, hesitation = False, FIRST_HESITATION
        while True:
            claimed = await self._claim(self._store.claim, await self._room())
            if not claimed.claims and self._listens:
                self._may_be_chosen = True
                claimed = await self._claim(self._store.prepare_to_sleep, await self._room())
            if claimed.claims:
                if woken:
                    self._chain.pass_on()
                if claimed.more:
                    await self._pass_wake_on()
                woken, hesitation = False, FIRST_HESITATION
                if not claimed.more:
                    await asyncio.sleep(LINGER)
            elif claimed.more:
                await self._chain.wait_at_most(hesitation)
                woken, hesitation = True, min(2 * hesitation, LONGEST_HESITATION)
            else:
                await self._sleep(claimed)
                woken, hesitation = True, FIRST_HESITATION

    async def _pass_wake_on(self) -> None:
        """Wakes other workers for what this one leaves ready, if a producer may have chosen this one and no other."""
        if self._may_be_chosen:
            self._may_be_chosen = False
            await self._in_time(self._store.wake_another(self._registration))

    async def _sleep(self, settled: Claimed) -> None:
        """Until a wake or a due time. A fallback or a deputy looks once and, finding nothing, sleeps on.

        Producers rely on the due time that `prepare_to_sleep` wrote down: this worker looks then, whatever it learns
        later.
        """
        self._chain.arm(settled.next_due)
        promised = None if settled.next_due is None else self._loop.time() + settled.next_due.total_seconds()
        while (reason := await self._chain.wait()) in (Reason.FALLBACK, Reason.DEPUTY):
            claimed = await self._claim(self._store.claim, await self._room())
            if claimed.claims or claimed.more:
                return
            if reason is Reason.FALLBACK:
                self._chain.arm(_earlier(claimed.next_due, promised, self._loop.time()))
            else:
                self._chain.stand_in(claimed.next_due)

    async def _claim(self, ask: Callable[[Registration, int], Awaitable[Claimed]], room: int) -> Claimed:
        """Claims, and leaves the start to another: the server has the next claim before these are made ready."""
        async with self._claiming:
            if self._claims_in_doubt or self._strays_may_come:
                await self._in_time(self._settle_doubts())
            self._claims_in_doubt = True
            self._chain.stand_down()
            claimed = await self._in_time(ask(self._registration, room))
            if claimed.claims:
                reach("after_claim")
                self._to_start.extend(sorted(claimed.claims, key=attrgetter("priority")))
                self._any_claimed.set()
            self._claims_in_doubt = False
        return claimed

    async def _room(self) -> int:
        """How many to claim, as soon as there is room. A wake that comes before that is passed on."""
        while not (room := self._budget.room(self.held)):
            self._freed.clear()
            await self._pass_wake_on()
            await self._freed.wait()
        if pause := self._context.threads.pause:
            await asyncio.sleep(pause)
        return room

    async def _start_on(self) -> None:
        """What is urgent runs before the hundreds behind it are made ready."""
        while True:
            await self._any_claimed.wait()
            while self._to_start:
                priority = self._to_start[0].priority
                try:
                    self._start_next()
                except Exception:
                    self._look_for_strays()
                    raise
                if self._to_start and self._to_start[0].priority > priority:
                    await asyncio.sleep(0)
            self._any_claimed.clear()
            if self._cancel_may_be_of_the_next:  # the heartbeat, which hears of cancels, did not know those yet
                self._cancel_may_be_of_the_next = False
                self._heartbeat.hurry()

    def _start_all(self) -> None:
        while self._to_start:
            self._start_next()

    def _start_next(self) -> None:
        claim = self._to_start.popleft()
        handler = self._handlers[claim.definition.key]
        run = self._runs[claim] = Run(claim, handler, Job(claim, self._log_buffer.say, self._ends), self._context)
        if len(self._runs) == 1:  # only now: the heartbeat goes by what is in there
            self._heartbeat.hurry_after_a_rest()
        self._slots.enter(run, claim.priority)

    def _may_begin(self, claim: Claim) -> bool:
        """False: this process stood still past its lease, and the heartbeat is about to say so."""
        if holds := self._heartbeat.holds:
            self._events.started(claim)
        return holds

    def _ended(self, run: Run, outcome: Outcome | None) -> None:
        self._slots.leave(run)
        if run.forgotten:  # its end was told when this registration ended
            return
        self._budget.took(monotonic() - run.since)
        if outcome is None:
            self._forget([run])
        elif run.is_written:
            self._events.ended(run.claim, outcome, decided(outcome, run.claim, random()))
            self._forget([run])
        else:
            self._done.append((run, outcome))
            self._any_done.set()

    async def _settle_doubts(self) -> None:
        """A claim's reply was lost; the store knows what we hold. Stop what is not ours, give strays back.

        A claim that was under way when its connection broke may be written even after we asked; then nobody would
        ever run it, since its registration lives. So we ask once more, a lease later.
        """
        if self._claims_in_doubt:
            self._loop.call_later(self._settings.leases.busy.total_seconds(), self._look_for_strays)
        self._strays_may_come = False
        self._start_all()  # or they would be taken for strays
        try:
            await self._give_strays_back()
        except BaseException:
            self._strays_may_come = True
            raise
        self._claims_in_doubt = False

    async def _give_strays_back(self) -> None:
        held = set(await self._store.held(self._registration))
        for claim in self._runs.keys() - held:
            self._lost_claim(claim)
        strays = [claim for claim in held if claim not in self._runs]
        if strays:
            await finish_all(self._store.finish, [(claim, decided(Released(), claim, random())) for claim in strays])

    def _look_for_strays(self) -> None:
        self._strays_may_come = True
        self._chain.wake()

    # --------------------------------------------------------------------------------------------- decide, finish

    async def _finish_on(self) -> None:
        """Everything that is done, as soon as the batch before is written: one job at low load, hundreds at high."""
        while True:
            await self._any_done.wait()
            self._any_done.clear()
            batch, self._done = self._done, []
            try:
                await self._in_time(self._finish(batch))
            except BaseException:
                self._done = batch + self._done
                self._any_done.set()
                raise

    async def _finish(self, batch: Sequence[tuple[Run, Outcome]]) -> None:
        """Sends no outcome of a claim that is lost, but asks if an earlier try, whose answer was lost, wrote it."""
        if batch and self._heartbeat.holds:
            await self._log_buffer.write(self._store, [run.claim for run, _ in batch])
            reach("before_finish")
            done = [(run.claim, verdict_on(outcome, run.claim)) for run, outcome in batch]
            lost = frozenset(run.claim for run, _ in batch if run.lost)
            to_write = [each for each in done if each[0] not in lost] if lost else done
            written, fenced = await finish_all(self._store.finish, to_write)
            fenced |= lost
            if written is not done:
                verdicts = dict(written)
                done = [(claim, verdicts.get(claim, verdict)) for claim, verdict in done]
            reach("after_finish")
            if fenced or self._events.is_observed or any(verdict is not SUCCEEDED for _, verdict in done):
                await self._report_ends(batch, [verdict for _, verdict in done], fenced)
        self._forget([run for run, _ in batch])

    async def _report_ends(
        self, batch: Sequence[tuple[Run, Outcome]], verdicts: Sequence[Verdict], fenced: frozenset[Claim]
    ) -> None:
        for (run, outcome), verdict in zip(batch, verdicts, strict=True):
            claim = run.claim
            if not fenced or claim not in fenced or await was_written(self._store, claim, verdict):
                self._events.ended(claim, outcome, verdict)
            else:
                log.warning(DISCARDED, claim.job, claim.tries)

    def _forget(self, runs: Sequence[Run]) -> None:
        for run in runs:
            run.forgotten = True
            self._runs.pop(run.claim, None)
        if runs:
            self._log_buffer.forget([run.claim for run in runs])
            self._events.forgotten([run.claim for run in runs])
            self._freed.set()

    def _forget_all(self) -> None:
        """At the end of this registration: nothing more is written of what still runs."""
        self._forget(list(self._runs.values()))

    # --------------------------------------------------------------------------------------------- while it lasts

    async def _listen(self) -> None:
        """Who can't listen says so once and polls; now and then it tries again: a busy server may just be late."""
        while True:
            try:
                await self._hear_until_lost()
            except CannotListen as error:
                log.log(logging.WARNING if self._listens else logging.DEBUG, "%s", error)
                self._now_listening(False)
                self._chain.wake()
                await asyncio.sleep(LISTEN_AGAIN)

    async def _hear_until_lost(self) -> None:
        """Listens on one connection after the other, until none of them hears any more. Raises CannotListen."""
        self._listener_lost.clear()
        hearing = asyncio.create_task(self._hear_on())
        try:
            await wait_for_first(asyncio.shield(hearing), self._listener_lost.wait())
        finally:
            await cancel_all([hearing])
        if not hearing.cancelled():
            hearing.result()

    async def _hear_on(self) -> None:
        async with aclosing(self._store.wakes(self._registration)) as wakes:
            async for wake in wakes:
                self._heard_at = monotonic()
                self._now_listening(True)
                self._hear(wake)

    def _hear(self, wake: Wake | DueWork) -> None:
        if isinstance(wake, DueWork):
            if wake.definition in self._registration.serves.definitions:
                self._chain.stand_in(wake.wait)
        elif wake is Wake.CANCEL:
            self._heartbeat.hurry()
            self._cancel_may_be_of_the_next = self._claiming.locked() or bool(self._to_start)
        elif wake is Wake.WORK:
            self._may_be_chosen = True
            self._chain.wake()
            self._freed.set()  # a worker that waits for room looks whether it has to pass this wake on

    def _require_hearing(self, sent: float) -> None:
        """The heartbeat sent then must have come back, or something that was sent later."""
        if self._listens and self._heard_at < sent:
            self._loop.call_later(LOOP_LIMIT, self._lose_listener, sent)

    def _lose_listener(self, sent: float) -> None:
        if self._listens and self._heard_at < sent:
            log.warning(
                "the listener is lost: a heartbeat's notification did not come back within %g s. No job is lost: "
                "this worker polls until it can listen again.",
                PROBE_LIMIT,
            )
            self._now_listening(False)
            self._listener_lost.set()
            self._chain.wake()

    def _now_listening(self, listens: bool) -> None:
        if listens != self._listens:
            if listens:
                log.info("the listener is back: this worker hears wakes again")
            self._set_listening(listens)
            self._events.listening(self._registration, listens)

    def _set_listening(self, listens: bool) -> None:
        self._listens = listens
        self._chain.fallback = self._settings.fallback or (FALLBACK if listens else FALLBACK_WITHOUT_WAKES)

    async def _bury_on(self) -> None:
        """Every worker sees to the claims of the dead."""
        while True:
            await self._orphans.wait()
            self._orphans.clear()
            await self._bury()

    async def _bury(self) -> None:
        for claim, verdict in await reclaim_orphans(self._store, self._in_time):
            self._events.reclaimed(claim, verdict, by=self._registration)

    async def _reconcile_on(self) -> None:
        """Gives back what the store holds for this worker and no run knows, as a claim that arrived very late."""
        while True:
            await self._strays.wait()
            self._strays.clear()
            async with self._claiming:
                await self._in_time(self._settle_doubts())

    async def _prune_on(self) -> None:
        while True:
            await asyncio.sleep(self._settings.prune_every.total_seconds() * (0.5 + random()))
            pruned = PRUNED_AT_ONCE
            while pruned == PRUNED_AT_ONCE:
                pruned = await self._in_time(self._store.prune(PRUNED_AT_ONCE))

    def _renewed(self, renewal: Renewal, sent: float) -> None:
        self._outage.end(sent)
        for claim in renewal.lost:
            self._lost_claim(claim)
        for claim in renewal.cancels:
            if claim in self._runs:
                self._runs[claim].stop(Canceled())
        if renewal.orphans:
            self._orphans.set()
        if renewal.strays:
            self._strays.set()
        if self._listens:
            self._chain.stand_in(renewal.next_due)
            if self._heard_at < sent:
                self._loop.call_later(PROBE_LIMIT, self._require_hearing, sent)
        if renewal.work_waits and self._chain.waiting and self._budget.room(self.held):
            self._chain.wake(Reason.DEPUTY)

    def _lost_claim(self, claim: Claim) -> None:
        if claim in self._runs:
            self._runs[claim].stop(None)

    def _end(self, reason: Exception) -> None:
        if self._leaves:  # a heartbeat that comes after we left finds no registration, and that is as it should be
            return
        if not self._over.done():
            self._over.set_exception(reason)
            if isinstance(reason, RegistrationLost):
                self._events.registration_lost(self._registration, reason.happened)
        if isinstance(reason, RegistrationLost):
            self._stop_runs()

    def _stop_runs(self) -> None:
        """At once, before anything that may wait for a dead connection: others may have these jobs any moment."""
        self._to_start.clear()
        for run in list(self._runs.values()):
            run.stop(None)

    def _post(self, call: Callable[..., None], *arguments: Any) -> None:
        """From the heartbeat's thread to the loop; when that is closed, nobody is left to tell."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call, *arguments)

    async def _in_time(self, asked: Awaitable[T]) -> T:
        """No answer for a whole lease: on that connection none will come. The store gives it up when canceled."""
        end_a_copy(self._context.born)
        began = monotonic()
        lease = self._settings.leases.busy.total_seconds()
        try:
            async with asyncio.timeout(lease):
                answer = await asked
        except TimeoutError as error:
            raise Unreachable(f"the database did not answer for {lease:g} s.", fix="It is asked again.") from error
        self._outage.end(began)
        return answer

    # ------------------------------------------------------------------------------------------------------- drain

    async def _end_claiming(self, claiming: Sequence[asyncio.Future[None]], listened: bool) -> None:
        """Lets a claim that is under way be answered, so that its jobs are given back at once.

        Cut off, it is done all the same: they would wait for the drain's end; or, written after we left, for their
        eviction, which takes them for crashed.
        """
        if not self._registration_is_lost():
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_CLAIM):
                    await self._claiming.acquire()
        await cancel_all(claiming)
        if listened and not self._registration_is_lost():  # a producer may have chosen us, and nobody else
            with suppress(TimeoutError, LeaseholdError):
                async with asyncio.timeout(LAST_CLAIM):
                    await self._store.wake_another(self._registration)

    async def _drain(self, at_once: asyncio.Event) -> None:
        """Lets running jobs end within the grace, gives the rest back at no cost, and leaves."""
        self._start_all()
        for run in [run for run in self._runs.values() if not run.started]:
            run.stop(Released())
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.grace.total_seconds()):
                await wait_for_first(self._nothing_runs(), at_once.wait(), asyncio.shield(self._over))
        for run in list(self._runs.values()):
            run.stop(Released())
        with suppress(TimeoutError, LeaseholdError):
            async with asyncio.timeout(MARGIN + LAST_WORDS):
                await self._nothing_runs()
                if self._claims_in_doubt or self._strays_may_come:
                    await self._settle_doubts()
                self._leaves = True
                await self._store.leave(self._registration)
                self._events.left(self._registration)

    async def _nothing_runs(self) -> None:
        while self._runs:
            self._freed.clear()
            await self._freed.wait()

    def _registration_is_lost(self) -> bool:
        return self._over.done() and isinstance(self._over.exception(), RegistrationLost)


def _earlier(next_due: timedelta | None, promised: float | None, now: float) -> timedelta | None:
    """The next due time, or the one that was promised to producers, if that is still to come and earlier."""
    if promised is None or promised <= now:
        return next_due
    left = timedelta(seconds=promised - now)
    return left if next_due is None else min(next_due, left)
