"""Changes of jobs as they happen, for live pages: which jobs to read again, never what is in them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from leasehold.model.job import JobId, TenantId


@dataclass(frozen=True, slots=True)
class Watched:
    """The tenants whose jobs are watched. With `everything`, those of all tenants are."""

    tenants: frozenset[TenantId]
    everything: bool = False


@dataclass(frozen=True, slots=True)
class Changed:
    """The jobs that have changed since the look before.

    others     further jobs of any tenant have changed: more than a look reads
    elsewhere  further jobs have changed, of tenants that were not watched by name
    unlisted   tenants of which further jobs have changed, as by a bulk retry
    pause      after how many seconds the next look is worth its cost
    """

    pause: float
    jobs: Mapping[TenantId, frozenset[JobId]] = field(default_factory=dict)
    others: bool = False
    elsewhere: bool = False
    unlisted: frozenset[TenantId] = frozenset()


class ChangeWatcher(Protocol):
    """Remembers its look before. One watcher serves all readers of a process."""

    async def look(self, watched: Watched) -> Changed:
        """Returns what has changed since the look before.

        The first look at a tenant may tell of older changes, or of none. A change that became visible late, because
        its transaction took longer than some seconds, may be told only with the next one of the same job.
        """


class ChangeStore(Protocol):
    def watch_changes(self) -> ChangeWatcher: ...
