"""The job that every system is given: the same small payload, of one of a hundred tenants."""

from collections.abc import Iterator
from time import monotonic_ns
from typing import Any

TENANTS = 100
NAME = "bench"


def payload(number: int) -> dict[str, Any]:
    """A payload with its creation time, so that the handler knows how long the job waited."""
    return {"number": number, "sent": monotonic_ns(), "text": "a few words, as jobs have them"}


def tenant(number: int) -> str:
    return f"tenant-{number % TENANTS:05d}"


def batches(numbers: range, size: int) -> Iterator[range]:
    for first in range(numbers.start, numbers.stop, size):
        yield range(first, min(first + size, numbers.stop))
