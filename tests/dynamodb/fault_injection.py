"""Faults between the client and the table, for each request and each of its retries.

faults = Faults(seed=1, throttles=0.05, lost_replies=0.02)
store = await kit.open_with(faults.intercept)
with crash_after(faults, 2): …    the third write is never sent
faults.script = …    is asked about each request before it is sent: names a fault, raises, or leaves it to chance
"""

import json
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from random import Random
from typing import Any

from botocore.exceptions import ClientError, ConnectionClosedError, ReadTimeoutError

from leasehold.engines.dynamodb.client import Answer, Send

WRITES = frozenset({"PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems"})
PAGES_KEPT = 20
THROTTLED = {
    "Error": {
        "Code": "ProvisionedThroughputExceededException",
        "Message": "The level of configured provisioned throughput for the table was exceeded.",
    },
    "ResponseMetadata": {"HTTPStatusCode": 400},
}


class Fault(Enum):
    """THROTTLED and UNSENT change nothing; a LOST_REPLY is written; a STALE_PAGE is an earlier state of an index."""

    THROTTLED = auto()
    UNSENT = auto()
    LOST_REPLY = auto()
    STALE_PAGE = auto()


class Crash(BaseException):
    """The process ends here: nothing that it has in memory is written, and none of its code runs on."""


@dataclass(frozen=True)
class Request:
    operation: str
    parameters: Mapping[str, Any]

    @property
    def is_write(self) -> bool:
        return self.operation in WRITES

    @property
    def index(self) -> str | None:
        return self.parameters.get("IndexName") if self.operation == "Query" else None


def by_chance(_request: Request) -> Fault | None:
    return None


@dataclass
class Faults:
    """Shares of requests that fail. `count` has how many there were of each kind, `requests` all of them."""

    seed: int = 0
    throttles: float = 0.0
    unsent: float = 0.0
    lost_replies: float = 0.0
    stale_pages: float = 0.0
    script: Callable[[Request], Fault | None] = by_chance
    count: Counter[Fault] = field(default_factory=Counter)
    requests: Counter[str] = field(default_factory=Counter)
    _pages: dict[str, deque[Answer]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._random = Random(self.seed)

    async def intercept(self, send: Send, operation: str, parameters: Mapping[str, Any]) -> Answer:
        request = Request(operation, parameters)
        self.requests[operation] += 1
        fault = self.script(request) or self._by_chance(request)
        if fault is Fault.STALE_PAGE and (page := self._earlier_page(request)) is not None:
            self.count[fault] += 1
            return page
        if fault is Fault.THROTTLED:
            self.count[fault] += 1
            raise ClientError(THROTTLED, operation)
        if fault is Fault.UNSENT:
            self.count[fault] += 1
            raise ReadTimeoutError(endpoint_url="injected")
        answer = await send(operation, parameters)
        if fault is Fault.LOST_REPLY:
            self.count[fault] += 1
            raise ConnectionClosedError(endpoint_url="injected")
        if request.index:
            self._pages.setdefault(_key_of(request), deque(maxlen=PAGES_KEPT)).append(answer)
        return answer

    def _by_chance(self, request: Request) -> Fault | None:
        chance = self._random.random()
        for fault, share in (
            (Fault.THROTTLED, self.throttles),
            (Fault.UNSENT, self.unsent),
            (Fault.LOST_REPLY, self.lost_replies if request.is_write else 0.0),
            (Fault.STALE_PAGE, self.stale_pages if request.index else 0.0),
        ):
            if chance < share:
                return fault
            chance -= share
        return None

    def _earlier_page(self, request: Request) -> Answer | None:
        pages = self._pages.get(_key_of(request))
        return self._random.choice(pages) if pages else None


def _key_of(request: Request) -> str:
    """Pages belong to one key of an index. Values with a time differ from look to look, and are left out."""
    values = request.parameters.get("ExpressionAttributeValues", {}).values()
    texts = sorted(value["S"] for value in values if "S" in value and not value["S"].startswith("scheduled#"))
    return json.dumps([request.index, texts, "ExclusiveStartKey" in request.parameters])


@contextmanager
def crash_after(faults: Faults, writes: int, *, lost_reply: bool = False) -> Iterator[None]:
    """Lets the process end after so many writes: before the next is sent, or, with `lost_reply`, just after it."""
    done = 0

    def crash(request: Request) -> Fault | None:
        nonlocal done
        if not request.is_write:
            return None
        if done > writes or (done == writes and not lost_reply):
            raise Crash
        done += 1
        return Fault.LOST_REPLY if lost_reply and done > writes else None

    faults.script = crash
    try:
        yield
    finally:
        faults.script = by_chance
