"""One seat's life: wait, claim, run, decide, finish."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from contextlib import aclosing, suppress
from datetime import timedelta
from functools import partial
from operator import attrgetter
from random import random
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from leasehold.errors import CannotListen, LeaseholdError, SeatLost, Unreachable
from leasehold.faults import reach
from leasehold.model.job import Claim
from leasehold.model.outcome import Canceled, Outcome, Released, decide
from leasehold.store import Claimed, Renewal, Seat, Store, Wake
from leasehold.worker.burial import bury
from leasehold.worker.effects import Ends
from leasehold.worker.fence import was_written
from leasehold.worker.handlers import Handlers
from leasehold.worker.heartbeat import Heartbeat
from leasehold.worker.job import Job
from leasehold.worker.report import Report
from leasehold.worker.run import Run, Workbench
from leasehold.worker.slots import Slots, Window
from leasehold.worker.tasks import canceled, first_of, kept
from leasehold.worker.voice import Voice
from leasehold.worker.wake import Reason, WakeChain

if TYPE_CHECKING:
    from leasehold.worker.worker import WorkerSettings

log = logging.getLogger("leasehold.worker")
T = TypeVar("T")

FALLBACK, FALLBACK_WITHOUT_WAKES = timedelta(seconds=60), timedelta(seconds=2)
LISTEN_AGAIN = 300.0
FIRST_HESITATION, LONGEST_HESITATION = 0.005, 0.25
LINGER = 0.003
PRUNED_AT_ONCE = 1000
LAST_CLAIM, LAST_WORDS = 2.0, 5.0
DISCARDED = "LH-4001: job %s attempt %d lost its lease; it was given to another worker, this result is discarded"


class Tenure:
    """From join to leave. Ends by itself only when the seat is lost; then nothing of its runs is written."""

    def __init__(
        self,
        store: Store,
        seat: Seat,
        handlers: Handlers,
        threads: Executor,
        settings: "WorkerSettings",
        open_store: Callable[[], Awaitable[Store]],
        report: Report,
    ) -> None:
        self._store = store
        self._seat = seat
        self._handlers = handlers
        self._settings = settings
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._to_start: deque[Claim] = deque()
        self._any_claimed = asyncio.Event()
        self._runs: dict[Claim, Run] = {}
        self._done: list[tuple[Claim, Outcome]] = []
        self._any_done = asyncio.Event()
        self._freed = asyncio.Event()
        self._orphans = asyncio.Event()
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._slots = Slots(settings.slots)
        self._bench = Workbench(threads, self._may_begin, self._ended)
        self._window = Window(settings.slots)
        self._claiming = asyncio.Lock()
        self._claims_in_doubt = False
        self._strays_may_come = False
        self._cancel_may_be_of_the_next = False
        self._leaves = False
        self._voice = Voice(self._lost_claim, report.said)
        self._chain = WakeChain(settings.dispatchers, settings.fallback or FALLBACK)
        self._set_listening(settings.notify and store.abilities.wakes)
        self._heartbeat = Heartbeat(
            open_store,
            seat,
            settings.leases,
            held=lambda: tuple(self._runs),
            on_renewal=lambda renewal: self._post(self._renewed, renewal),
            on_lost=lambda why: self._post(
                self._end,
                SeatLost(f"worker {seat.worker} lost its seat: {why}.", fix="It stops its runs and joins again."),
            ),
            on_broken=lambda error: self._post(self._end, error),
        )
        self._ends = Ends(
            store,
            self._in_time,
            write_lines=lambda claim: self._voice.write(store, [claim]),
            holds=lambda: self._heartbeat.holds,
            loop=self._loop,
        )

    async def serve(self, stopping: asyncio.Event, at_once: asyncio.Event) -> None:
        """Works until told to stop, then drains. Raises SeatLost, or what keeps the heartbeat from beating."""
        keep = partial(kept, lost=self._end)
        claiming = [keep("dispatcher", self._dispatch) for _ in range(self._settings.dispatchers)]
        ahead = [keep("starter", self._start_on)]
        if self._listens:
            ahead.append(keep("listener", self._listen))
        others = [
            keep("finisher", self._finish_on),
            keep("voice", lambda: self._voice.write_on(self._store, self._in_time)),
            keep("burial", self._bury_on),
            keep("pruning", self._prune_on),
        ]
        self._heartbeat.start()
        self._report.joined(self._seat, self._settings.slots, self._listens)
        try:
            await first_of(stopping.wait(), asyncio.shield(self._over))
            await canceled(ahead)  # nothing more is started, and no producer takes us for one that it could wake
            await self._end_claiming(claiming)
            if not self._seat_is_lost():
                await self._drain(at_once)
        finally:
            self._chain.disarm()
            self._stop_runs()
            await canceled([*claiming, *ahead, *others])
            await asyncio.to_thread(self._heartbeat.stop)
        if self._over.done():
            self._over.result()

    def wake(self) -> None:
        self._chain.wake()

    @property
    def held(self) -> int:
        """Claimed, and not finished."""
        return len(self._runs) + len(self._to_start)

    # ------------------------------------------------------------------------------------------- wait, claim, run

    async def _dispatch(self) -> None:
        """One claim loop. A token is passed on only by who was woken and found work, never from the tight loop.

        Between workers the same, by who fills its window: once it has settled, a producer may have chosen this worker
        and no other. It may take two claims, since one that raced with others brings less than there is.
        """
        woken, chosen, hesitation = False, True, FIRST_HESITATION
        while True:
            claimed = await self._claim(self._store.claim, await self._room())
            if not claimed.claims and self._listens:
                chosen = True
                claimed = await self._claim(self._store.settle, await self._room())
            if claimed.claims:
                if woken:
                    self._chain.pass_on()
                if chosen and claimed.more:
                    await self._in_time(self._store.rouse(self._seat))
                woken, chosen, hesitation = False, chosen and not claimed.more, FIRST_HESITATION
                if not claimed.more:
                    await asyncio.sleep(LINGER)
            elif claimed.more:
                await self._chain.wait_at_most(hesitation)
                woken, hesitation = True, min(2 * hesitation, LONGEST_HESITATION)
            else:
                await self._sleep(claimed)
                woken, hesitation = True, FIRST_HESITATION

    async def _sleep(self, settled: Claimed) -> None:
        """Until a wake or a due time. The fallback looks once and, finding nothing, goes on with the same sleep."""
        self._chain.arm(settled.next_due)
        while await self._chain.wait() is Reason.FALLBACK:
            claimed = await self._claim(self._store.claim, await self._room())
            if claimed.claims or claimed.more:
                return
            self._chain.arm(claimed.next_due)

    async def _claim(self, ask: Callable[[Seat, int], Awaitable[Claimed]], room: int) -> Claimed:
        """Claims, and leaves the start to another: the server has the next claim before these are made ready."""
        async with self._claiming:
            if self._claims_in_doubt or self._strays_may_come:
                await self._in_time(self._settle_doubts())
            self._claims_in_doubt = True
            claimed = await self._in_time(ask(self._seat, room))
            if claimed.claims:
                reach("after_claim")
                self._to_start.extend(sorted(claimed.claims, key=attrgetter("priority")))
                self._any_claimed.set()
            self._claims_in_doubt = False
        return claimed

    async def _room(self) -> int:
        """How many to claim, as soon as there is room for them."""
        while not (room := self._window.room(self.held)):
            self._freed.clear()
            await self._freed.wait()
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
        run = self._runs[claim] = Run(claim, handler, Job(claim, self._voice.say, self._ends), self._bench)
        if len(self._runs) == 1:  # only now: the heartbeat goes by what is in there
            self._heartbeat.hurry_after_a_rest()
        self._slots.enter(run, claim.priority)

    def _may_begin(self, claim: Claim) -> bool:
        """False: this process stood still past its lease, and the heartbeat is about to say so."""
        if holds := self._heartbeat.holds:
            self._report.started(claim)
        return holds

    def _ended(self, run: Run, outcome: Outcome | None) -> None:
        self._slots.leave(run)
        self._window.took(monotonic() - run.since)
        if outcome is None:
            self._forget(run.claim)
        elif run.is_written:
            self._report.ended(run.claim, outcome, decide(outcome, run.claim, random()))
            self._forget(run.claim)
        else:
            self._done.append((run.claim, outcome))
            self._any_done.set()

    async def _settle_doubts(self) -> None:
        """A claim's reply was lost; the store knows what we hold. Stop what is not ours, give strays back.

        A claim that was under way when its connection broke may be written even after we asked; then nobody would
        ever run it, since its seat lives. So we ask once more, a lease later.
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
        held = set(await self._store.held(self._seat))
        for claim in self._runs.keys() - held:
            self._drop(claim)
        strays = [claim for claim in held if claim not in self._runs]
        if strays:
            await self._store.finish([(claim, decide(Released(), claim, random())) for claim in strays])

    def _drop(self, claim: Claim) -> None:
        """Nor does its outcome count: a crash may have undone the claim, and the next may have the same fence."""
        self._done = [(other, outcome) for other, outcome in self._done if other != claim]
        run = self._runs[claim]
        run.stop(None)
        if run.ended:
            self._forget(claim)

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

    async def _finish(self, batch: Sequence[tuple[Claim, Outcome]]) -> None:
        if batch and self._heartbeat.holds:
            await self._voice.write(self._store, [claim for claim, _ in batch])
            reach("before_finish")
            done = [(claim, decide(outcome, claim, random())) for claim, outcome in batch]
            fenced = await self._store.finish(done)
            reach("after_finish")
            for (claim, outcome), (_, verdict) in zip(batch, done, strict=True):
                if not fenced or claim not in fenced or await was_written(self._store, claim, verdict):
                    self._report.ended(claim, outcome, verdict)
                else:
                    log.warning(DISCARDED, claim.job, claim.attempt)
        for claim, _ in batch:
            self._forget(claim)

    def _forget(self, claim: Claim) -> None:
        self._runs.pop(claim, None)
        self._voice.forget(claim)
        self._report.forgotten(claim)
        self._freed.set()

    # --------------------------------------------------------------------------------------------- while it lasts

    async def _listen(self) -> None:
        """Who can't listen says so once and polls; now and then it tries again: a busy server may just be late."""
        while True:
            try:
                async with aclosing(self._store.wakes(self._seat)) as wakes:
                    async for wake in wakes:
                        self._now_listening(True)
                        self._hear(wake)
            except CannotListen as error:
                log.log(logging.WARNING if self._listens else logging.DEBUG, "%s", error)
                self._now_listening(False)
                self._chain.wake()
                await asyncio.sleep(LISTEN_AGAIN)

    def _hear(self, wake: Wake) -> None:
        if wake is Wake.CANCEL:
            self._heartbeat.hurry()
            self._cancel_may_be_of_the_next = self._claiming.locked() or bool(self._to_start)
        else:
            self._chain.wake()

    def _now_listening(self, listens: bool) -> None:
        if listens != self._listens:
            self._set_listening(listens)
            self._report.listening(self._seat, listens)

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
        for claim, verdict in await bury(self._store, self._in_time):
            self._report.reclaimed(claim, verdict, by=self._seat)

    async def _prune_on(self) -> None:
        while True:
            await asyncio.sleep(self._settings.prune_every.total_seconds() * (0.5 + random()))
            pruned = PRUNED_AT_ONCE
            while pruned == PRUNED_AT_ONCE:
                pruned = await self._in_time(self._store.prune(PRUNED_AT_ONCE))

    def _renewed(self, renewal: Renewal) -> None:
        for claim in renewal.lost:
            self._lost_claim(claim)
        for claim in renewal.cancels:
            if claim in self._runs:
                self._runs[claim].stop(Canceled())
        if renewal.orphans:
            self._orphans.set()

    def _lost_claim(self, claim: Claim) -> None:
        if claim in self._runs:
            self._runs[claim].stop(None)

    def _end(self, reason: Exception) -> None:
        if self._leaves:  # a heartbeat that comes after we left finds no seat, and that is as it should be
            return
        if not self._over.done():
            self._over.set_exception(reason)
            if isinstance(reason, SeatLost):
                self._report.seat_lost(self._seat, reason.happened)
        if isinstance(reason, SeatLost):
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
        lease = self._settings.leases.busy.total_seconds()
        try:
            async with asyncio.timeout(lease):
                return await asked
        except TimeoutError as error:
            raise Unreachable(f"the database did not answer for {lease:g} s.", fix="It is asked again.") from error

    # ------------------------------------------------------------------------------------------------------- drain

    async def _end_claiming(self, claiming: Sequence[asyncio.Future[None]]) -> None:
        """Lets a claim that is under way be answered, so that its jobs are given back at once.

        Cut off, it is done all the same: they would wait for the drain's end; or, written after we left, for their
        eviction, which takes them for crashed.
        """
        if not self._seat_is_lost():
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_CLAIM):
                    await self._claiming.acquire()
        await canceled(claiming)
        if self._listens and not self._seat_is_lost():  # a producer may have chosen us, and nobody else
            with suppress(TimeoutError, LeaseholdError):
                async with asyncio.timeout(LAST_CLAIM):
                    await self._store.rouse(self._seat)

    async def _drain(self, at_once: asyncio.Event) -> None:
        """Lets running jobs end within the grace, gives the rest back at no cost, and leaves."""
        self._start_all()
        for run in [run for run in self._runs.values() if not run.started]:
            run.stop(Released())
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.grace.total_seconds()):
                await first_of(self._nothing_runs(), at_once.wait(), asyncio.shield(self._over))
        for run in list(self._runs.values()):
            run.stop(Released())
        with suppress(TimeoutError, LeaseholdError):
            async with asyncio.timeout(LAST_WORDS):
                await self._nothing_runs()
                if self._claims_in_doubt or self._strays_may_come:
                    await self._settle_doubts()
                self._leaves = True
                await self._store.leave(self._seat)
                self._report.left(self._seat)

    async def _nothing_runs(self) -> None:
        while self._runs:
            self._freed.clear()
            await self._freed.wait()

    def _seat_is_lost(self) -> bool:
        return self._over.done() and isinstance(self._over.exception(), SeatLost)
