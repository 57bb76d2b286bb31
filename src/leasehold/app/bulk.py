"""Many jobs in one call: read from an iterable, and sent in chunks.

While the server works on one chunk, the caller's thread makes the next one, since the iterable is the caller's.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence, Sized
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, Protocol, TypeVar

from leasehold.app.app_store import AppStore
from leasehold.app.definition import TypedDefinition
from leasehold.app.enqueued_many import EnqueuedMany
from leasehold.app.open_store import OpenStore
from leasehold.app.within import CallerTransaction
from leasehold.errors import InvalidInput, LeaseholdError, PartlyEnqueued, Unreachable
from leasehold.model.bounds import describe
from leasehold.model.job import EnqueueResult, NewJob
from leasehold.operations.enqueue import Target, pin, send_pinned

T = TypeVar("T")

# Jobs in a chunk of one transaction. Smaller chunks take more round trips, each for 0.25 ms of the client's time;
# larger ones leave the server idle while the first is made, and block the loop while one is encoded.
CHUNK = 1000
# Jobs in a chunk that has its own transaction, and so its own wait for the disk.
CHUNK_COMMITTED = 2000
# Jobs that are made at a time on a loop that others use as well.
AT_ONCE = 200

Progress = Callable[[int, int | None], object]
_Send = Callable[[Sequence[NewJob], Sequence[NewJob]], Coroutine[Any, Any, Sequence[EnqueueResult]]]
_Pin = Callable[[Sequence[NewJob]], Awaitable[Sequence[NewJob]]]
_Handover = Future[tuple["Chunk", "_Handover"]]


class Chunk(NamedTuple):
    jobs: list[NewJob]
    last: bool


class Chunks(Protocol):
    """A source of chunks, which is told how many jobs are written."""

    async def next(self) -> Chunk:
        """Returns the next chunk. Raises the errors of the caller's iterable."""

    def note_written(self, done: int) -> None: ...


_JOBS = frozenset({NewJob})


def _not_a_job(found: object) -> InvalidInput:
    name = found.key if isinstance(found, TypedDefinition) else "definition"
    return InvalidInput(
        f"enqueue_many got {describe(found)}, which is not a job. Nothing was enqueued of its chunk.",
        fix=f"Pass the result of {name}.bind(…), one for each set of arguments.",
    )


class BulkRequest:
    """The arguments of `enqueue_many`, and how far its iterable was read."""

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
        """Reads one job ahead: whether all jobs are one chunk has to be known before a transaction begins."""
        if len(jobs) == self.chunk and self.atomic and not self._ahead:
            self._ahead = self.take(1)
        return Chunk(jobs, last=len(jobs) < self.chunk or (self.atomic and not self._ahead))

    def report(self, done: int) -> None:
        """Calls the progress function, once for each number."""
        if self._progress is not None and done > self._reported:
            self._reported = done
            self._progress(done, self._total)


class LoopChunks:
    """Chunks of an iterable that is read on this loop, with pauses for the other tasks of the loop."""

    def __init__(self, request: BulkRequest) -> None:
        self._request = request

    async def next(self) -> Chunk:
        jobs: list[NewJob] = []
        while len(jobs) < self._request.chunk:
            some = self._request.take(min(AT_ONCE, self._request.chunk - len(jobs)))
            if not some:
                break
            jobs += some
            await asyncio.sleep(0)
        return self._request.chunk_of(jobs)

    def note_written(self, done: int) -> None:
        self._request.report(done)


class ThreadChunks:
    """Chunks on their way from the caller's thread to the loop that sends: one is made while another is sent."""

    def __init__(self, request: BulkRequest) -> None:
        self._request = request
        self._put: _Handover = Future()
        self._taken = self._put
        self._room = threading.Semaphore(1)
        self._done = 0

    # On the loop

    async def next(self) -> Chunk:
        chunk, self._taken = await asyncio.wrap_future(self._taken)
        return chunk

    def note_written(self, done: int) -> None:
        self._done = done
        self._room.release()

    # In the caller's thread

    def feed(self, asked: "Future[EnqueuedMany]") -> EnqueuedMany:
        """Makes chunks in this thread until all are sent. An interrupt, as by Ctrl-C, cancels the call."""
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
        """Makes the next chunk; returns False if it was the last, or if the call is over."""
        self._tell()
        if asked.done():
            return False
        chunk = self._request.chunk_of(self._request.take(self._request.chunk))
        following: _Handover = Future()
        with suppress(InvalidStateError):  # the call is over
            self._put.set_result((chunk, following))
        self._put = following
        return not chunk.last

    def _fail(self, failure: Exception) -> None:
        with suppress(InvalidStateError):
            self._put.set_exception(failure)

    def _tell(self) -> None:
        self._request.report(self._done)


async def enqueue_chunks(
    request: BulkRequest, chunks: Chunks, target: Target, answer: EnqueuedMany, opened: OpenStore
) -> EnqueuedMany:
    """Enqueues all chunks in one transaction, or each in its own. A single chunk is one statement and needs none."""

    def pin_chunk(jobs: Sequence[NewJob]) -> Awaitable[Sequence[NewJob]]:
        return pin(target, jobs, opened)

    tenant = opened.store.tenant(target.tenant)
    try:
        first = await chunks.next()
        if request.atomic and not first.last:
            async with tenant.bulk_transaction() as transaction:
                send = partial(send_pinned, target, opened, transaction.enqueue)
                await _send(first, chunks, pin_chunk, send, answer, ahead=True)
        else:
            send = partial(send_pinned, target, opened, tenant.enqueue)
            await _send(first, chunks, pin_chunk, send, answer, ahead=False)
    except Exception as failure:
        if request.atomic or not answer:
            raise
        raise _partly(answer, failure, isinstance(failure, Unreachable)) from failure
    if answer:
        chunks.note_written(len(answer))
    return answer


async def _send(
    chunk: Chunk,
    chunks: Chunks,
    pin_chunk: _Pin,
    send: _Send,
    answer: EnqueuedMany,
    *,
    ahead: bool,
) -> None:
    """Sends chunks in the order given; while one is under way, the next is made.

    `ahead` also hands over the next chunk, since one transaction takes them in turn. If a chunk were made ready only
    when the server is done with the one before, the server would wait 4 of the 24 µs that a job takes.
    """
    under_way: deque[tuple[Chunk, asyncio.Task[Sequence[EnqueueResult]]]] = deque()
    before = 0

    async def take_answer() -> None:
        sent, sending = under_way.popleft()
        answer._add(sent.jobs, await sending)
        if not sent.last:  # the last one is reported when all is committed
            chunks.note_written(len(answer))

    try:
        while chunk.jobs:
            # Pinned before the hand-over: a chunk whose versions have to be looked up would be overtaken by the next.
            pinned = await _number_errors(pin_chunk(chunk.jobs), before, len(chunk.jobs))
            sending = asyncio.create_task(_number_errors(send(chunk.jobs, pinned), before, len(pinned)))
            under_way.append((chunk, sending))
            before += len(pinned)
            await asyncio.sleep(0)
            if len(under_way) > 1:
                await take_answer()
            if chunk.last:
                break
            chunk = await chunks.next()
            if not ahead:
                await take_answer()
        while under_way:
            await take_answer()
    except asyncio.CancelledError:
        await _cancel_all([sending for _, sending in under_way])
        raise
    except Exception:
        for sent, sending in under_way:
            with suppress(Exception):
                answer._add(sent.jobs, await sending)
        raise


async def _number_errors(step: Awaitable[T], before: int, count: int) -> T:
    """Awaits a step of a chunk. A refusal names the number of the job among all jobs, not in its chunk."""
    try:
        return await step
    except InvalidInput as error:
        if error.number is not None or (before and count == 1):
            error.number = before + (error.number or 1)
        raise


async def _cancel_all(sendings: Sequence[asyncio.Task[Any]]) -> None:
    for sending in sendings:
        sending.cancel()
    if sendings:
        await asyncio.wait(sendings)


def _partly(answer: EnqueuedMany, failure: Exception, in_doubt: bool) -> PartlyEnqueued:
    named = f"{failure.code} {type(failure).__name__}" if isinstance(failure, LeaseholdError) else repr(failure)
    of_the_next = "is there wholly or not at all" if in_doubt else "was not written"
    return PartlyEnqueued(
        f"{len(answer):,} jobs in {len(answer._ends):,} chunks were enqueued and stay; then came {named:.200}. "
        f"The chunk after them {of_the_next}.",
        fix=f"Mend that, and enqueue the rest, from number {len(answer) + 1:,} on. With ids or keys of your own "
        "the whole call can be repeated: jobs that are there stay as they are.",
        placed=answer,
    )


# ----------------------------------------------------------------------------------- within the caller's transaction


def enqueue_within(
    request: BulkRequest, transaction: CallerTransaction, store: AppStore, target: Target, answer: EnqueuedMany
) -> None:
    """Enqueues chunk by chunk. The caller's transaction decides whether all of them stay, if there is one."""
    transaction.require_blocking("enqueue_many")
    with _telling_which_stay(answer, transaction.caller.commits_at_once()):
        while jobs := request.take(request.chunk):
            answer._add(jobs, transaction.place(store, target, jobs))
            request.report(len(answer))


async def aenqueue_within(
    request: BulkRequest, transaction: CallerTransaction, store: AppStore, target: Target, answer: EnqueuedMany
) -> None:
    await transaction.require_awaited("aenqueue_many")
    with _telling_which_stay(answer, await transaction.caller.acommits_at_once()):
        while jobs := request.take(request.chunk):
            answer._add(jobs, await transaction.aplace(store, target, jobs))
            request.report(len(answer))


@contextmanager
def _telling_which_stay(answer: EnqueuedMany, commits_at_once: bool) -> Iterator[None]:
    """Raises PartlyEnqueued if chunks are committed already. Errors of drivers leave the last chunk in doubt."""
    try:
        yield
    except Exception as failure:
        if isinstance(failure, InvalidInput) and failure.number is not None:
            failure.number += len(answer)
        if not commits_at_once or not answer:
            raise
        in_doubt = isinstance(failure, Unreachable) or not isinstance(failure, LeaseholdError)
        raise _partly(answer, failure, in_doubt) from failure
