"""Log lines of isolated handlers: sent in batches, and within bounds."""

from typing import Any

import pytest
from tests.worker.isolated_kit import Isolated

from leasehold.worker.line_sender import BATCH_LINES, LineSender
from leasehold.worker.log_buffer import MOST_CHARACTERS, MOST_LINES, LogBuffer


class Sent:
    """Takes the messages of a sender, of its first call."""

    def __init__(self) -> None:
        self.batches: list[list[Any]] = []
        self.sender = LineSender(lambda message: self.batches.append(message["lines"]))
        self.sender.begin(1)

    def log(self, *texts: str) -> list[bool]:
        return [self.sender.append(1, text, "log", None) for text in texts]

    @property
    def texts(self) -> list[Any]:
        return [line[0] for batch in self.batches for line in batch]


def test_a_first_line_is_sent_at_once() -> None:
    sent = Sent()
    sent.log("one", "two")
    assert sent.texts == ["one"]


def test_further_lines_wait_until_the_batch_is_taken() -> None:
    sent = Sent()
    sent.log("one", "two", "three")
    sent.sender.taken(1)
    assert [len(batch) for batch in sent.batches] == [1, 2]


def test_a_batch_is_bounded() -> None:
    sent = Sent()
    sent.log(*map(str, range(1 + 2 * BATCH_LINES)))
    sent.sender.taken(1)
    assert [len(batch) for batch in sent.batches] == [1, BATCH_LINES]


def test_a_batch_of_long_lines_is_bounded_by_its_size() -> None:
    sent = Sent()
    sent.log("one", *["x" * 10_000] * 20)
    sent.sender.taken(1)
    assert [len(batch) for batch in sent.batches] == [1, 5]


def test_lines_beyond_the_bound_are_counted_in_their_place() -> None:
    sent = Sent()
    kept = sent.log("first", *["line"] * (MOST_LINES + 7))
    assert kept.count(False) == 7
    sent.sender.taken(1)
    sent.log("last")
    sent.sender.end()
    assert sent.texts == ["first", *["line"] * MOST_LINES, 7, "last"]


def test_long_lines_beyond_the_bound_are_counted() -> None:
    sent = Sent()
    kept = sent.log("first", *["x" * 10_000] * (MOST_CHARACTERS // 10_000 + 3))
    assert kept.count(False) == 3


def test_the_rest_is_sent_before_the_answer() -> None:
    sent = Sent()
    sent.log(*map(str, range(250)))
    sent.sender.end()
    assert sent.texts == [str(number) for number in range(250)]


def test_a_line_after_the_end_of_its_call_is_not_sent() -> None:
    sent = Sent()
    sent.sender.end()
    assert sent.log("late") == [False]
    assert sent.texts == []


async def test_a_flood_is_dropped_in_its_process_and_counted(
    isolated: Isolated, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = 0
    append = LogBuffer.append

    def count(buffer: LogBuffer, *arguments: Any) -> bool:
        nonlocal taken
        taken += 1
        return append(buffer, *arguments)

    monkeypatch.setattr(LogBuffer, "append", count)
    async with isolated.working():
        job = await isolated.enqueue("flood", lines=200_000)
        await isolated.shop.ended(job)
    rows = await isolated.shop.observer.fetch("select text from leasehold.job_lines where job_id = $1::uuid", job)
    texts = [str(row["text"]) for row in rows]
    dropped = [int(text.split()[1].replace(",", "")) for text in texts if "were dropped here" in text]
    assert sum(text.startswith("line ") for text in texts) + sum(dropped) == 200_000
    assert taken < 50_000, "the worker's loop has to take most of the flood"
