"""The answer to a bulk enqueue, in little memory."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

from leasehold.app.enqueued import Enqueued
from leasehold.model.job import AllCreated, EnqueueResult, JobId, NewJob

ID_LENGTH = 36
HELD, CREATED, REPLACED = range(3)


@dataclass(frozen=True, slots=True)
class ChunkResult:
    """The answer to a chunk. One text holds all its ids: 100,000 take 4 MB; as objects they would take 25 MB."""

    ids: str
    definitions: Sequence[str]
    results: bytes | None
    """One code for each job; None: all were created."""

    @staticmethod
    def of(jobs: Sequence[NewJob], placed: Sequence[EnqueueResult]) -> "ChunkResult":
        keys = [job.definition for job in jobs]
        keys = keys if len(set(keys)) > 1 else keys[:1]
        if isinstance(placed, AllCreated):
            return ChunkResult("".join(placed.ids), keys, None)
        results = None if all(each.created for each in placed) else bytes(map(_result_code, placed))
        return ChunkResult("".join([each.id for each in placed]), keys, results)

    def __len__(self) -> int:
        return len(self.ids) // ID_LENGTH

    def __getitem__(self, index: int) -> tuple[EnqueueResult, str]:
        begin, code = index * ID_LENGTH, CREATED if self.results is None else self.results[index]
        placed = EnqueueResult(JobId(self.ids[begin : begin + ID_LENGTH]), code == CREATED, code == REPLACED)
        return placed, self.definitions[index if len(self.definitions) > 1 else 0]

    @property
    def duplicates(self) -> int:
        return 0 if self.results is None else len(self) - self.results.count(CREATED)


def _result_code(placed: EnqueueResult) -> int:
    return CREATED if placed.created else REPLACED if placed.replaced else HELD


class EnqueuedMany(Sequence[Enqueued[Any]]):
    """The answer to `enqueue_many`: an `Enqueued` for each job, in the order given, created when it is read."""

    def __init__(self, make: Callable[[EnqueueResult, str], Enqueued[Any]]) -> None:
        self._make = make
        self._written: list[ChunkResult] = []
        self._ends: list[int] = []
        self._duplicates = 0

    def _add(self, jobs: Sequence[NewJob], placed: Sequence[EnqueueResult]) -> None:
        written = ChunkResult.of(jobs, placed)
        self._written.append(written)
        self._ends.append(len(self) + len(written))
        self._duplicates += written.duplicates

    @property
    def created(self) -> int:
        """How many jobs are new."""
        return len(self) - self._duplicates

    @property
    def duplicates(self) -> int:
        """How many jobs were there before and hold the key or the id."""
        return self._duplicates

    def counted(self) -> Iterator[tuple[str, int, int]]:
        """Yields each definition, how many of its jobs there are, and how many of them are new."""
        counts: Counter[str] = Counter()
        created: Counter[str] = Counter()
        for written in self._written:
            if len(written.definitions) == 1:
                (key,) = written.definitions
                counts[key] += len(written)
                created[key] += len(written) - written.duplicates
            else:
                counts.update(written.definitions)
                results = written.results or bytes([CREATED]) * len(written)
                created.update(key for key, code in zip(written.definitions, results, strict=True) if code == CREATED)
        return ((key, count, created[key]) for key, count in counts.items())

    @property
    def ids(self) -> Iterator[JobId]:
        return (written[index][0].id for written in self._written for index in range(len(written)))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, index: int) -> Enqueued[Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[Enqueued[Any]]: ...
    def __getitem__(self, index: int | slice) -> Enqueued[Any] | list[Enqueued[Any]]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        place = range(len(self))[index]
        chunk = bisect_right(self._ends, place)
        return self._make(*self._written[chunk][place - (self._ends[chunk - 1] if chunk else 0)])

    def __iter__(self) -> Iterator[Enqueued[Any]]:
        return (self._make(*written[index]) for written in self._written for index in range(len(written)))

    def __repr__(self) -> str:
        return f"<{len(self)} jobs enqueued: {self.created} created, {self.duplicates} duplicates>"
