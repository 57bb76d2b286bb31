"""Pages of all tenants' jobs: by indexes where they serve the filter, else by looks at a bounded number of jobs.

No index lists the jobs of all tenants by a definition, a source, a time or traits. A page by such a filter looks at
the newest jobs of each tenant, a few of each, and then once more, at more jobs of those tenants that have many. It
shows the matching jobs down to the id that all tenants have been looked at; the next page goes on from there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from asyncpg import Record

from leasehold.engines.postgres import pages, rows
from leasehold.engines.postgres.database import Database
from leasehold.errors import InvalidInput
from leasehold.model.job import JobId, TenantId
from leasehold.model.status import ACTIVE, Status
from leasehold.store import Filter, Page

# How many jobs the first look and the second one read: the first one at least two of each tenant, for its density,
# and the second one at most one more of each.
FIRST, SECOND = 8_000, 16_000


def is_served(where: Filter) -> bool:
    """Returns whether indexes find the jobs of a filter: by status, by correlation, or among the few that run."""
    if where.traits is not None:
        return False
    others = (where.source, where.due, where.tried, where.created_after, where.created_before)
    unfiltered = not where.definitions and all(each is None for each in others)
    return unfiltered or where.correlation_id is not None or _is_running_only(where)


async def find(database: Database, where: Filter, cursor: str | None, limit: int) -> Page:
    """Returns a page of matching jobs, newest first; with fewer of them and a cursor, if it has looked at enough."""
    wanted, behind = pages.one_more_than(limit), pages.behind_everywhere(cursor)
    if where.error_group is not None and where.traits is not None:
        raise InvalidInput(
            "Jobs of all tenants can't be listed by an error group and by a worker, a dedupe key, a priority, a "
            "duration or a payload at once.",
            fix="Nothing was read. Choose a tenant, or leave one of the two out.",
        )
    if where.error_group is not None:
        found = await database.fetch(
            "administration/find_in_error_group", limit=wanted, **behind, **pages.columns_of_group(where)
        )
        return pages.page(found, limit, cursor=pages.cursor_everywhere)
    if is_served(where):
        found = await database.fetch(
            "administration/find_all_tenants",
            limit=wanted,
            only_running=_is_running_only(where),
            **behind,
            **pages.filter_columns(where),
        )
        return pages.page(found, limit, cursor=pages.cursor_everywhere)
    return await _look(database, where, behind, limit)


async def _look(database: Database, where: Filter, behind: Mapping[str, Any], limit: int) -> Page:
    names = await _names(database, only_running=_is_running_only(where))
    later, up_to = behind["up_to_later"], behind["up_to"]
    starts = {
        name: start for name in names if (start := later if name > behind["last_tenant"] else up_to) is not None
    }
    look = _Look(database, where)
    await look.at(starts, dict.fromkeys(starts, first_share(len(starts))))
    if look.places and len(look.shown()) <= limit:
        shares = shares_of(look.places, SECOND)
        await look.at({name: look.places[name].after for name in shares}, shares)
    return await _page(database, look, names, limit)


async def _names(database: Database, *, only_running: bool) -> Sequence[str]:
    if only_running:
        return [row["id"] for row in await database.fetch("administration/tenants_that_run")]
    return [row["id"] for row in await database.fetch("administration/tenants", after="", limit=None)]


def _is_running_only(where: Filter) -> bool:
    return set(where.statuses) == {Status.RUNNING}


async def _page(database: Database, look: "_Look", names: Sequence[str], limit: int) -> Page:
    found, floor = look.shown(), look.floor
    shown = found[:limit]
    records = await database.fetch(
        "administration/jobs_by_id", tenants=[tenant for _, tenant in shown], jobs=[job for job, _ in shown]
    )
    jobs = [rows.job(row) for row in records]
    if len(found) > limit:
        return Page(jobs, pages.cursor_at(*shown[-1]))
    if floor is None:
        return Page(jobs, None)
    return Page(jobs, pages.cursor_at(floor, max(names)), down_to=JobId(str(floor)))


@dataclass(frozen=True, slots=True)
class Looked:
    """How far a tenant was looked at: `looked` jobs, from the id `newest` down to `oldest`; more may follow."""

    looked: int
    newest: UUID
    oldest: UUID

    @property
    def after(self) -> UUID | None:
        return pages.before(self.oldest)

    @property
    def density(self) -> float | None:
        """Jobs of an id: ids begin with a time, so tenants that enqueue more have more jobs of a range.

        None, if there is one job: it spans no range.
        """
        return None if self.looked < 2 else self.looked / (self.newest.int - self.oldest.int + 1)


class _Look:
    """Looks at tenants, and keeps the matching jobs, and the places of tenants that may have more."""

    def __init__(self, database: Database, where: Filter) -> None:
        self.places: dict[str, Looked] = {}
        self._database = database
        self._matching: list[tuple[UUID, TenantId]] = []
        statuses = where.statuses or tuple(Status)
        self._columns = pages.filter_columns(where) | pages.trait_columns(where)
        if not _is_running_only(where):
            active = [each.value for each in statuses if each in ACTIVE]
            self._columns |= {"active": active, "running": False}

    async def at(self, starts: Mapping[str, UUID | None], shares: Mapping[str, int]) -> None:
        """Looks at so many jobs of each tenant, from an id on; None if a tenant has no lower id."""
        names = [name for name, start in starts.items() if start is not None]
        found = await self._database.fetch(
            "administration/look_at_tenants",
            tenants=names,
            up_to=[starts[name] for name in names],
            shares=[shares[name] for name in names],
            **self._columns,
        )
        for name in starts:
            self.places.pop(name, None)
        for row in found:
            self._note(row, shares[row["tenant"]])

    def _note(self, row: Record, share: int) -> None:
        if row["looked"] >= share:
            self.places[row["tenant"]] = Looked(row["looked"], row["newest"], row["oldest"])
        self._matching += [(job, TenantId(row["tenant"])) for job in row["matching"]]

    @property
    def floor(self) -> UUID | None:
        """The id down to which every tenant was looked at; None if all jobs were."""
        return max((place.oldest for place in self.places.values()), default=None)

    def shown(self) -> list[tuple[UUID, TenantId]]:
        """Returns the matching jobs down to the floor, newest first and then by tenant."""
        floor = self.floor
        found = sorted(each for each in self._matching if floor is None or each[0] >= floor)
        return sorted(found, key=lambda each: each[0], reverse=True)


def first_share(tenants: int) -> int:
    """Returns how many jobs of each tenant to look at first."""
    return max(2, FIRST // max(1, tenants))


def shares_of(places: Mapping[str, Looked], most: int) -> dict[str, int]:
    """Returns how many jobs of each tenant to look at next, so that all are looked at down to about the same id.

    A tenant of unknown density gets an even share.
    """
    by_id = sorted(places.items(), key=lambda each: each[1].oldest, reverse=True)
    known = [(name, place, density) for name, place in by_id if (density := place.density) is not None]
    shares = {name: max(1, most // len(places)) for name, place in by_id if place.density is None}
    if known:
        target = _target([(place.oldest.int, density) for _, place, density in known], most - sum(shares.values()))
        shares |= {
            name: 1 + int(density * (place.oldest.int - target))
            for name, place, density in known
            if place.oldest.int > target
        }
    return shares


def _target(places: Sequence[tuple[int, float]], most: int) -> int:
    """Returns the id down to which the tenants have about `most` jobs, if each goes on as densely as before."""
    expected, density, level = 0.0, 0.0, places[0][0]
    for oldest, own_density in places:
        below = density * (level - oldest)
        if expected + below > most:
            break
        expected, density, level = expected + below, density + own_density, oldest
    return max(-1, level - int((most - expected) / density))
