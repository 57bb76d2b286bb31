"""The capacity that a rate of jobs needs on DynamoDB, from its published limits and the writes of a job's way.

A job that succeeds at its first attempt is written three times: when it is enqueued, claimed and finished; later it
is pruned. Each of these writes also changes entries of indexes. An entry whose key changes is deleted and put, which
are two writes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

KB = 1024
WRITE_UNIT, READ_UNIT = KB, 4 * KB
PARTITION_WRITES, PARTITION_READS = 1000, 3000
"""Units per second of one partition, and so of one key."""
FIRST_WRITES = 4000
"""Units per second of a table on demand that is new. It grows to twice its highest traffic within 30 minutes."""
TABLE_WRITES = 40_000
"""Units per second of a table, unless AWS raises the quota of the account."""
LARGEST_ITEM = 400 * KB

OTHER_ATTRIBUTES = 800
"""Bytes of a job's item beside its payload: names, keys, times, and the keys of indexes."""
USABLE = 0.7
"""The share of a limit to plan with: traffic is never even."""


@dataclass(frozen=True, slots=True)
class Step:
    """A write of a job's way: how often it writes the item, and entries of each index."""

    name: str
    due: int
    listing: int
    prune: int


ENQUEUE = Step("enqueue", due=1, listing=1, prune=0)
CLAIM = Step("claim", due=2, listing=2, prune=0)
FINISH = Step("finish", due=1, listing=2, prune=1)
PRUNE = Step("prune", due=0, listing=1, prune=1)
STEPS = (ENQUEUE, CLAIM, FINISH, PRUNE)

# The writes of one job to the busiest key of an index, in its life: entries come and go.
_DUE_KEY = sum(step.due for step in STEPS)
_LISTING_KEY = 2
_PRUNE_KEY = 2


@dataclass(frozen=True, slots=True)
class Load:
    """A steady load. All jobs are of `definitions` definitions and `tenants` tenants, in equal parts."""

    rate: float
    payload: int
    definitions: int = 1
    tenants: int = 1
    dedupe: bool = False

    @property
    def item(self) -> int:
        return self.payload + OTHER_ATTRIBUTES


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit, and the rate of jobs at which it is reached. `remedy` says how to raise it."""

    name: str
    rate: float
    remedy: str


@dataclass(frozen=True, slots=True)
class Capacity:
    """The needs of a load. `limits` are sorted: the first breaks first."""

    load: Load
    shards: int
    units_of_steps: Sequence[tuple[Step, int]]
    units_of_job: int
    table_units: float
    partitions: int
    limits: Sequence[Limit]

    @property
    def fits(self) -> bool:
        return self.limits[0].rate >= self.load.rate


def capacity_for(load: Load, shards: int | None = None) -> Capacity:
    """Returns the capacity for a load, with so many shards; None: as many as it needs."""
    chosen = shards or needed_shards(load)
    steps = [(step, units_of(step, load)) for step in STEPS]
    units = sum(each for _, each in steps)
    return Capacity(
        load=load,
        shards=chosen,
        units_of_steps=steps,
        units_of_job=units,
        table_units=units * load.rate,
        partitions=max(1, ceil(units * load.rate / (PARTITION_WRITES * USABLE))),
        limits=sorted(_limits(load, chosen, units), key=lambda limit: limit.rate),
    )


def needed_shards(load: Load) -> int:
    """Returns the shards that keep each key of an index below its share of a partition."""
    usable = PARTITION_WRITES * USABLE
    due = load.rate / load.definitions * _DUE_KEY / usable
    listing = load.rate / load.tenants * _LISTING_KEY / usable
    prune = load.rate * _PRUNE_KEY / usable
    return max(1, ceil(max(due, listing, prune)))


def units_of(step: Step, load: Load) -> int:
    """Returns the write units of a step.

    A job and its dedupe key are written by a transaction, at twice the price. A finish leaves the key as it is.
    """
    item = ceil(load.item / WRITE_UNIT)
    base = 2 * (item + 1) if load.dedupe and step is ENQUEUE else item
    return base + step.due + step.listing + step.prune


def _limits(load: Load, shards: int, units: int) -> list[Limit]:
    more = "more shards, in a table that is created with them"
    return [
        Limit(
            "one key of the due index",
            PARTITION_WRITES * shards * load.definitions / _DUE_KEY,
            f"{more}, or more definitions",
        ),
        Limit(
            "one key of the listing index",
            PARTITION_WRITES * shards * load.tenants / _LISTING_KEY,
            f"{more}, or more tenants",
        ),
        Limit("one key of the prune index", PARTITION_WRITES * shards / _PRUNE_KEY, more),
        Limit("a new table on demand", FIRST_WRITES / units, "pre-warm the table, or let traffic grow"),
        Limit("the quota of a table", TABLE_WRITES / units, "ask AWS for a higher quota"),
    ]


def idle_reads(definitions: int, shards: int, polls_per_hour: float) -> float:
    """Returns the read units per hour of a worker that finds nothing: half a unit for each empty query."""
    return definitions * shards * polls_per_hour / 2
