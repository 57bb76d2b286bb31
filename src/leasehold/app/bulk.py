"""Many jobs in one call: taken as they come, sent in chunks, answered in little memory.

While the server works on one chunk, the next is made: by whoever called, in their thread, since it is their iterable.
"""

import asyncio
import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence, Sized
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, overload

from leasehold.app.definition import TypedDefinition
from leasehold.errors import InvalidInput, LeaseholdError, PartlyEnqueued, Unreachable
from leasehold.model.bounds import described
from leasehold.model.job import AllCreated, EnqueueResult, JobId, NewJob
from leasehold.store import TenantJobs

if TYPE_CHECKING:
    from leasehold.app.tenant import Enqueued

T = TypeVar("T")

# Of one transaction: smaller ones take more round trips, larger ones leave the server idle while they are made.
CHUNK = 250
# Of a transaction each: then every chunk waits for the disk.
CHUNK_COMMITTED = 2000
# So many are made at a time on a loop that others use as well.
AT_ONCE = 200
ID_LENGTH = 36
HELD, CREATED, REPLACED = range(3)

Progress = Callable[[int, int | None], object]
Place = Callable[[Sequence[NewJob]], Awaitable[Sequence[EnqueueResult]]]
_Placing = Coroutine[Any, Any, Sequence[EnqueueResult]]
Pin = Callable[[Sequence[NewJob]], Awaitable[Sequence[NewJob]]]
Put = Callable[[Place, Sequence[NewJob], Sequence[NewJob]], _Placing]
_Handover = Future[tuple["Chunk", "_Handover"]]


@dataclass(frozen=True, slots=True)
class _Written:
    """A chunk's answer. One text holds all its ids: a hundred thousand take 4 MB, as objects of their own 25."""

    ids: str
    definitions: Sequence[str]
    fates: bytes | None
    """None: all were created."""

    @staticmethod
    def of(jobs: Sequence[NewJob], placed: Sequence[EnqueueResult]) -> "_Written":
        keys = [job.definition for job in jobs]
        keys = keys if len(set(keys)) > 1 else keys[:1]
        if isinstance(placed, AllCreated):
            return _Written("".join(placed.ids), keys, None)
        fates = None if all(each.created for each in placed) else bytes(map(_fate, placed))
        return _Written("".join([each.id for each in placed]), keys, fates)

    def __len__(self) -> int:
        return len(self.ids) // ID_LENGTH

    def __getitem__(self, index: int) -> tuple[EnqueueResult, str]:
        begin, fate = index * ID_LENGTH, CREATED if self.fates is None else self.fates[index]
        placed = EnqueueResult(JobId(self.ids[begin : begin + ID_LENGTH]), fate == CREATED, fate == REPLACED)
        return placed, self.definitions[index if len(self.definitions) > 1 else 0]

    @property
    def duplicates(self) -> int:
        return 0 if self.fates is None else len(self) - self.fates.count(CREATED)


def _fate(placed: EnqueueResult) -> int:
    return CREATED if placed.created else REPLACED if placed.replaced else HELD


class EnqueuedMany(Sequence["Enqueued[Any]"]):
    """The answer to `enqueue_many`: an `Enqueued` for each job, in the order given, made when it is looked at."""

    def __init__(self, make: "Callable[[EnqueueResult, str], Enqueued[Any]]") -> None:
        self._make = make
        self._written: list[_Written] = []
        self._ends: list[int] = []
        self._duplicates = 0

    def _add(self, jobs: Sequence[NewJob], placed: Sequence[EnqueueResult]) -> None:
        written = _Written.of(jobs, placed)
        self._written.append(written)
        self._ends.append(len(self) + len(written))
        self._duplicates += written.duplicates

    @property
    def created(self) -> int:
        """How many of them are new."""
        return len(self) - self._duplicates

    @property
    def duplicates(self) -> int:
        """How many were there before, holding the key or the id."""
        return self._duplicates

    @property
    def ids(self) -> Iterator[JobId]:
        return (written[index][0].id for written in self._written for index in range(len(written)))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, index: int) -> "Enqueued[Any]": ...
    @overload
    def __getitem__(self, index: slice) -> "list[Enqueued[Any]]": ...
    def __getitem__(self, index: int | slice) -> "Enqueued[Any] | list[Enqueued[Any]]":
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        place = range(len(self))[index]
        chunk = bisect_right(self._ends, place)
        return self._make(*self._written[chunk][place - (self._ends[chunk - 1] if chunk else 0)])

    def __iter__(self) -> "Iterator[Enqueued[Any]]":
        return (self._make(*written[index]) for written in self._written for index in range(len(written)))

    def __repr__(self) -> str:
        return f"<{len(self)} jobs enqueued: {self.created} created, {self.duplicates} duplicates>"


class Chunk(NamedTuple):
    jobs: list[NewJob]
    last: bool


class Chunks(Protocol):
    """Where chunks come from, and who is told how many are written."""

    async def next(self) -> Chunk:
        """Raises what the caller's iterable raises."""

    def written(self, done: int) -> None: ...


_JOBS = frozenset({NewJob})


def _not_a_job(found: object) -> InvalidInput:
    name = found.key if isinstance(found, TypedDefinition) else "definition"
    return InvalidInput(
        f"enqueue_many got {described(found)}, which is not a job. Of its chunk nothing was enqueued.",
        fix=f"Pass what {name}.bind(…) returns, one for each set of arguments.",
    )


class Order:
    """What was asked for."""

    def __init__(self, jobs: Iterable[NewJob], chunk: int | None, atomic: bool, progress: Progress | None) -> None:
        if chunk is None:
            chunk = CHUNK if atomic else CHUNK_COMMITTED
        if not isinstance(chunk, int) or chunk < 1:
            raise InvalidInput(
                f"chunk={chunk!r:.80} is not how many jobs go at a time. Nothing was enqueued.",
                fix="Pass 1 or more, or leave it out.",
            )
        self.chunk = chunk
        self.atomic = atomic
        self._jobs = iter(jobs)
        self._ahead: list[NewJob] = []
        self._total = len(jobs) if isinstance(jobs, Sized) else None
        self._progress = progress
        self._reported = 0

    def take(self, most: int) -> list[NewJob]:
        jobs, self._ahead = self._ahead[:most], self._ahead[most:]
        jobs.extend(islice(self._jobs, most - len(jobs)))
        if not _JOBS.issuperset(map(type, jobs)):
            raise _not_a_job(next(each for each in jobs if type(each) is not NewJob))
        return jobs

    def chunk_of(self, jobs: list[NewJob]) -> Chunk:
        """Whether all of them are one chunk has to be known before a transaction is begun."""
        if len(jobs) == self.chunk and self.atomic and not self._ahead:
            self._ahead = self.take(1)
        return Chunk(jobs, last=len(jobs) < self.chunk or (self.atomic and not self._ahead))

    def report(self, done: int) -> None:
        """Once for each number."""
        if self._progress is not None and done > self._reported:
            self._reported = done
            self._progress(done, self._total)


class Here:
    """From an iterable of this very loop, which is left to others now and then."""

    def __init__(self, order: Order) -> None:
        self._order = order

    async def next(self) -> Chunk:
        jobs: list[NewJob] = []
        while len(jobs) < self._order.chunk:
            some = self._order.take(min(AT_ONCE, self._order.chunk - len(jobs)))
            if not some:
                break
            jobs += some
            await asyncio.sleep(0)
        return self._order.chunk_of(jobs)

    def written(self, done: int) -> None:
        self._order.report(done)


class Belt:
    """From the thread of the caller to the loop that sends: one chunk is made while another is sent."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._put: _Handover = Future()
        self._taken = self._put
        self._room = threading.Semaphore(1)
        self._done = 0

    # On the loop

    async def next(self) -> Chunk:
        chunk, self._taken = await asyncio.wrap_future(self._taken)
        return chunk

    def written(self, done: int) -> None:
        self._done = done
        self._room.release()

    # In the caller's thread

    def feed(self, asked: "Future[EnqueuedMany]") -> EnqueuedMany:
        """Whoever is interrupted while waiting, as by Ctrl-C, takes the call back."""
        asked.add_done_callback(lambda _: self._room.release())
        try:
            try:
                while self._hand_over_next(asked):
                    self._room.acquire()
            except Exception as failure:
                self._fail(failure)
            answer = asked.result()
        except BaseException:
            asked.cancel()
            raise
        self._tell()
        return answer

    async def afeed(self, asked: "Future[EnqueuedMany]") -> EnqueuedMany:
        asked.add_done_callback(lambda _: self._room.release())
        try:
            try:
                while self._hand_over_next(asked):
                    await asyncio.to_thread(self._room.acquire)
            except Exception as failure:
                self._fail(failure)
            answer = await asyncio.wrap_future(asked)
        except BaseException:
            asked.cancel()
            raise
        self._tell()
        return answer

    def _hand_over_next(self, asked: "Future[EnqueuedMany]") -> bool:
        """False: it was the last, or nobody takes any more."""
        self._tell()
        if asked.done():
            return False
        chunk = self._order.chunk_of(self._order.take(self._order.chunk))
        following: _Handover = Future()
        with suppress(InvalidStateError):  # nobody takes it any more
            self._put.set_result((chunk, following))
        self._put = following
        return not chunk.last

    def _fail(self, failure: Exception) -> None:
        with suppress(InvalidStateError):
            self._put.set_exception(failure)

    def _tell(self) -> None:
        self._order.report(self._done)


async def fill(
    order: Order, chunks: Chunks, pin: Pin, put: Put, door: TenantJobs, answer: EnqueuedMany
) -> EnqueuedMany:
    """All of it in one transaction, or each chunk in its own. A single chunk is one statement, and needs none."""
    try:
        first = await chunks.next()
        if order.atomic and not first.last:
            async with door.bulk_transaction() as bulk:
                await _send(first, chunks, pin, partial(put, bulk.enqueue), answer, ahead=True)
        else:
            await _send(first, chunks, pin, partial(put, door.enqueue), answer, ahead=False)
    except Exception as failure:
        if order.atomic or not answer:
            raise
        raise partly(answer, failure, isinstance(failure, Unreachable)) from failure
    if answer:
        chunks.written(len(answer))
    return answer


async def _send(
    chunk: Chunk,
    chunks: Chunks,
    pin: Pin,
    put: Callable[[Sequence[NewJob], Sequence[NewJob]], _Placing],
    answer: EnqueuedMany,
    *,
    ahead: bool,
) -> None:
    """In the order given; while one is under way, the next is made.

    `ahead`: it is also handed over, as one transaction takes them in turn. If it were made ready for the server only
    when that is done with the one before, the server would wait 4 of the 24 µs that a job takes.
    """
    under_way: deque[tuple[Chunk, asyncio.Task[Sequence[EnqueueResult]]]] = deque()
    before = 0

    async def arrived() -> None:
        sent, sending = under_way.popleft()
        answer._add(sent.jobs, await sending)
        if not sent.last:  # of the last one it is said when all is committed
            chunks.written(len(answer))

    try:
        while chunk.jobs:
            # Before it is handed over: whoever has to look up versions first would be overtaken by the next one.
            pinned = await _numbered(pin(chunk.jobs), before, len(chunk.jobs))
            under_way.append((chunk, asyncio.create_task(_numbered(put(chunk.jobs, pinned), before, len(pinned)))))
            before += len(pinned)
            await asyncio.sleep(0)
            if len(under_way) > 1:
                await arrived()
            if chunk.last:
                break
            chunk = await chunks.next()
            if not ahead:
                await arrived()
        while under_way:
            await arrived()
    except asyncio.CancelledError:
        await _called_back([sending for _, sending in under_way])
        raise
    except Exception:
        for sent, sending in under_way:
            with suppress(Exception):
                answer._add(sent.jobs, await sending)
        raise


async def _numbered(step: Awaitable[T], before: int, count: int) -> T:
    """Awaits a step of a chunk's way. A refusal says which of all jobs it is about, not which of its chunk."""
    try:
        return await step
    except InvalidInput as error:
        if error.number is not None or (before and count == 1):
            error.number = before + (error.number or 1)
        raise


async def _called_back(sendings: Sequence[asyncio.Task[Any]]) -> None:
    for sending in sendings:
        sending.cancel()
    if sendings:
        await asyncio.wait(sendings)


def partly(answer: EnqueuedMany, failure: Exception, in_doubt: bool) -> PartlyEnqueued:
    named = f"{failure.code} {type(failure).__name__}" if isinstance(failure, LeaseholdError) else repr(failure)
    of_the_next = "is there wholly or not at all" if in_doubt else "was not written"
    return PartlyEnqueued(
        f"{len(answer):,} jobs in {len(answer._ends):,} chunks were enqueued and stay; then came {named:.200}. "
        f"The chunk after them {of_the_next}.",
        fix=f"Mend that, and enqueue the rest, from number {len(answer) + 1:,} on. With ids or keys of your own "
        "the whole call can be repeated: what is there stays as it is.",
        placed=answer,
    )
