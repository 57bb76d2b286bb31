"""Counts what happens in this process, by plain integers. `metric_families` turns the counts into metrics.

Jobs are counted by batches, in groups of one definition. Labels are joined and metrics are made when they are read.
"""

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import TypeVar

from leasehold.model.job import Claim, TenantId
from leasehold.model.outcome import SUCCEEDED
from leasehold.model.status import AttemptStatus, Status
from leasehold.telemetry.events import (
    DatabaseBack,
    DatabaseLost,
    Event,
    EventEmitted,
    HeartbeatLate,
    JobDiscarded,
    JobEnqueued,
    JobGivenBack,
    JobReclaimed,
    LeaseLost,
    LoopBlocked,
    LoopLag,
    StaleFinishRefused,
    TriggerDecided,
    WorkerListening,
    WorkerRegistrationLost,
)
from leasehold.telemetry.listeners import AttemptEnd, Listener

T = TypeVar("T")

OTHER = "other"
# Upper bounds of buckets, in seconds: an attempt may take milliseconds or hours, and a job may wait as long.
BOUNDS = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
    *(300.0, 900.0, 3600.0, 14400.0),
)
DEFAULT_TENANTS, DEFAULT_DEFINITIONS = 50, 200
# By their texts: the hash of an enum's member takes as long as all else that is counted for a job.
SUCCESS = Status.SUCCEEDED.value
# Polls that no wake and no job before it asked for.
UNASKED = frozenset({"fallback", "deputy", "due"})


@dataclass(slots=True)
class Durations:
    """A histogram: how many durations fell into each bucket, and their sum. The last bucket has no bound."""

    buckets: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    sum: float = 0.0

    def add(self, seconds: float) -> None:
        self.add_all((seconds,))

    def add_all(self, durations: Sequence[float]) -> None:
        """Adds the durations of a batch. Those of like jobs fall into one bucket, mostly."""
        if not durations:
            return
        buckets, lowest = self.buckets, bisect_left(BOUNDS, min(durations))
        if lowest == len(BOUNDS) or max(durations) <= BOUNDS[lowest]:
            buckets[lowest] += len(durations)
        else:
            for seconds in durations:
                buckets[bisect_left(BOUNDS, seconds)] += 1
        self.sum += sum(durations)


@dataclass(slots=True)
class DefinitionCounts:
    """Counts of one definition. `attempts` has also attempts that were given back or discarded."""

    claimed: int = 0
    waits: Durations = field(default_factory=Durations)
    runs: Durations = field(default_factory=Durations)
    ends: Counter[str] = field(default_factory=Counter)
    attempts: Counter[str] = field(default_factory=Counter)
    enqueued: Counter[str] = field(default_factory=Counter)
    duplicates: int = 0
    retries: int = 0
    reclaimed: int = 0
    leases_lost: int = 0
    finishes_refused: int = 0
    loop_blocked: int = 0


class RecentGreatest:
    """The greatest of the values of the last minute, about: each reader sees the same, however often it reads."""

    HALF = 30.0

    def __init__(self) -> None:
        self._latest = self._before = 0.0
        self._since = monotonic()

    def add(self, value: float) -> None:
        self._turn()
        self._latest = max(self._latest, value)

    def greatest(self) -> float:
        self._turn()
        return max(self._latest, self._before)

    def _turn(self) -> None:
        """Begins another half of the window, or two if nothing came for longer."""
        if (now := monotonic()) - self._since >= self.HALF:
            self._before = self._latest if now - self._since < 2 * self.HALF else 0.0
            self._latest, self._since = 0.0, now


@dataclass(frozen=True, slots=True)
class ProcessState:
    """The state of a process. `problems` tells why it can't do its work; `slots` None: it runs no jobs."""

    problems: tuple[str, ...] = ()
    slots: int | None = None
    running: int = 0
    stuck: int = 0
    listens: bool = False


class Metrics(Listener):
    """Listens to the events of this process. The first definitions and tenants that it meets have names of their own;
    all later ones are counted as `other`, since each name is a series for ever.
    """

    wants = (
        *(DatabaseBack, DatabaseLost, EventEmitted, HeartbeatLate, JobDiscarded, JobEnqueued, JobGivenBack),
        *(JobReclaimed, LeaseLost, LoopBlocked, LoopLag, StaleFinishRefused, TriggerDecided),
        *(WorkerListening, WorkerRegistrationLost),
    )

    def __init__(self, tenants: int = DEFAULT_TENANTS, definitions: int = DEFAULT_DEFINITIONS) -> None:
        self.most_tenants = tenants
        self.most_definitions = definitions
        self.lock = threading.Lock()
        self.definitions: dict[str, DefinitionCounts] = {}
        self.tenants: dict[str, Counter[str]] = {}
        self.wakes: Counter[str] = Counter()
        self.polls: Counter[str] = Counter()
        self.decisions: Counter[str] = Counter()
        self.schedule_lag = Durations()
        self.polled_jobs = self.events_emitted = self.registrations_lost = self.listeners_lost = 0
        self.heartbeats_late = self.outages = 0
        self.outage_seconds = self.blocked_seconds = 0.0
        self.loop_lag = RecentGreatest()

    def on_claims(self, claims: Sequence[Claim]) -> None:
        with self.lock:
            for key, group in _by_definition(claims, [claim.definition.key for claim in claims]).items():
                counts = self._definition(key)
                counts.claimed += len(group)
                counts.waits.add_all([claim.started - claim.queued for claim in group if claim.attempt == 1])

    def on_ends(self, ends: Sequence[AttemptEnd]) -> None:
        with self.lock:
            for key, group in _by_definition(ends, [end[0].definition.key for end in ends]).items():
                counts = self._definition(key)
                counts.runs.add_all([end[2] for end in group if end[2] is not None])
                plain = [end[0].tenant for end in group if end[1] is SUCCEEDED]
                counts.attempts[SUCCESS] += len(plain)
                counts.ends[SUCCESS] += len(plain)
                succeeded: dict[TenantId, int] = {}  # a Counter takes a µs to make, and most batches are small
                for tenant in plain:
                    succeeded[tenant] = succeeded.get(tenant, 0) + 1
                for tenant, count in succeeded.items():
                    self._tenant(tenant)[SUCCESS] += count
                if len(plain) < len(group):
                    self._count_others(counts, [end for end in group if end[1] is not SUCCEEDED])

    def on_wake(self, channel: str) -> None:
        with self.lock:
            self.wakes[channel] += 1

    def on_poll(self, reason: str, claimed: int) -> None:
        with self.lock:
            self.polls[reason] += 1
            if reason in UNASKED:
                self.polled_jobs += claimed

    def _count_others(self, counts: DefinitionCounts, ends: Sequence[AttemptEnd]) -> None:
        """Counts ends by their verdicts; the plainest verdict, which most jobs have, is counted without this."""
        for claim, verdict, _, _ in ends:
            counts.attempts[verdict.attempt.value] += 1
            if verdict.status is not Status.QUEUED:
                counts.ends[verdict.status.value] += 1
                self._tenant(claim.tenant)[verdict.status.value] += 1
            elif verdict.error_code is not None:
                counts.retries += 1

    def __call__(self, event: Event) -> None:
        with self.lock:
            self._count(event)

    def _count(self, event: Event) -> None:
        match event:
            case JobEnqueued():
                counts = self._definition(event.definition)
                counts.enqueued[event.source.value] += event.created
                counts.duplicates += event.count - event.created
            case LoopLag():
                self.loop_lag.add(event.seconds)
            case TriggerDecided():
                self.decisions[event.kind] += 1
                if event.lag is not None:
                    self.schedule_lag.add(event.lag)
            case EventEmitted():
                self.events_emitted += 1
            case JobReclaimed() | JobGivenBack() | JobDiscarded() | LeaseLost() | StaleFinishRefused():
                self._count_loss(event)
            case _:
                self._count_trouble(event)

    def _count_loss(self, event: Event) -> None:
        match event:
            case JobReclaimed():
                counts = self._definition(event.definition)
                counts.reclaimed += 1
                counts.attempts[AttemptStatus.CRASHED.value] += 1
                if event.status is Status.QUEUED:
                    counts.retries += 1
                else:
                    counts.ends[event.status.value] += 1
                    self._tenant(event.tenant)[event.status.value] += 1
            case JobGivenBack():
                self._definition(event.definition).attempts["given_back"] += 1
            case JobDiscarded():
                self._definition(event.definition).attempts["discarded"] += 1
            case LeaseLost():
                self._definition(event.definition).leases_lost += 1
            case StaleFinishRefused():
                self._definition(event.definition).finishes_refused += 1

    def _count_trouble(self, event: Event) -> None:
        match event:
            case HeartbeatLate():
                self.heartbeats_late += 1
            case LoopBlocked():
                self.blocked_seconds += event.seconds
                for definition in event.definitions:
                    self._definition(definition).loop_blocked += 1
            case DatabaseLost():
                self.outages += 1
            case DatabaseBack():
                self.outage_seconds += event.seconds
            case WorkerListening():
                self.listeners_lost += not event.listens
            case WorkerRegistrationLost():
                self.registrations_lost += 1

    def _definition(self, key: str) -> DefinitionCounts:
        """Returns the counts of a definition, or those of all that have no name here."""
        if (counts := self.definitions.get(key)) is not None:
            return counts
        if len(self.definitions) >= self.most_definitions:
            key = OTHER
        return self.definitions.setdefault(key, DefinitionCounts())

    def _tenant(self, tenant: str) -> Counter[str]:
        if (counts := self.tenants.get(tenant)) is not None:
            return counts
        if len(self.tenants) >= self.most_tenants:
            tenant = OTHER
        return self.tenants.setdefault(tenant, Counter())


def _by_definition(items: Sequence[T], keys: Sequence[str]) -> Mapping[str, Sequence[T]]:
    """Groups the items of a batch by their keys. Most batches are of one definition."""
    if keys.count(keys[0]) == len(keys):
        return {keys[0]: items}
    groups: dict[str, list[T]] = {key: [] for key in set(keys)}
    for key, item in zip(keys, items, strict=True):
        groups[key].append(item)
    return groups
