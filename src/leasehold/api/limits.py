"""Bounds of requests, and how often they may be sent."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from time import monotonic

from leasehold.errors import TooManyRequests

MOST_BUCKETS = 10_000


@dataclass(frozen=True, slots=True)
class ApiLimits:
    """Limits of one server process.

    body          bytes of a request's body
    depth         how deep JSON may be nested
    seconds       how long a request may take; streams and ticks have limits of their own
    statement     how long one statement may take, in seconds
    token_rate    requests a second of one token, or of one principal without a token; `token_burst` at once
    tenant_rate   requests a second of all tokens of a tenant together; `tenant_burst` at once
    work_body     bytes of a worker's request: a finish has a result and the end of an output
    work_rate     requests a second of one worker token; `work_burst` at once
    streams       streams at once; `tenant_streams` of one tenant
    stream_seconds  how long one stream may last; its client connects again
    """

    body: int = 1_000_000
    depth: int = 64
    seconds: float = 10.0
    statement: float = 5.0
    token_rate: float = 50.0
    token_burst: int = 100
    tenant_rate: float = 200.0
    tenant_burst: int = 400
    work_body: int = 4_000_000
    work_rate: float = 500.0
    work_burst: int = 1000
    streams: int = 100
    tenant_streams: int = 40
    stream_seconds: float = 300.0


class RequestRates:
    """Counts requests by token and by tenant: each has a bucket that fills with time and holds one burst."""

    def __init__(self, limits: ApiLimits, clock: Callable[[], float] = monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._buckets: OrderedDict[tuple[str, str], tuple[float, float]] = OrderedDict()

    def count(self, bearer: str, tenant: str | None, *, works: bool = False) -> None:
        """Raises TooManyRequests, with the time after which a request is allowed again.

        Requests of workers are counted apart: those of people must not delay a heartbeat.
        """
        limits = self._limits
        if works:
            self._take("worker token", bearer, limits.work_rate, limits.work_burst)
            return
        self._take("token", bearer, limits.token_rate, limits.token_burst)
        if tenant is not None:
            self._take("tenant", tenant, limits.tenant_rate, limits.tenant_burst)

    def _take(self, kind: str, key: str, rate: float, burst: int) -> None:
        now = self._clock()
        left, at = self._buckets.pop((kind, key), (float(burst), now))
        left = min(burst, left + (now - at) * rate)
        self._buckets[kind, key] = (left - 1 if left >= 1 else left), now
        if len(self._buckets) > MOST_BUCKETS:
            self._buckets.popitem(last=False)
        if left < 1:
            error = TooManyRequests(
                f"this {kind} sends more than {rate:g} requests a second. Nothing was done.",
                fix="Send it again after the seconds that Retry-After names.",
            )
            error.retry_after = ceil((1 - left) / rate)
            raise error
