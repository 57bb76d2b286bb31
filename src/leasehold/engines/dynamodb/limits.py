"""Limits of running jobs: each limited scope has one item with the jobs that count, of which it holds so many.

A claim adds its jobs to the item before it claims them, and a finish takes them out after it. So more than the limit
never run, except those that ran before the limit was set and that the index did not show yet. An entry that a crash
left behind is taken out once its job was seen not to run for a while.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from time import monotonic

from leasehold.engines.dynamodb import keys
from leasehold.engines.dynamodb.due import DueIndex, Entry
from leasehold.engines.dynamodb.errors import ConditionFailed
from leasehold.engines.dynamodb.holds import Holds
from leasehold.engines.dynamodb.items import RUNNING
from leasehold.engines.dynamodb.keys import JOB, Key, read_timestamp
from leasehold.engines.dynamodb.table import LISTING, Delete, Put, Table, Update
from leasehold.model.job import Claim, TenantId
from leasehold.model.limits import Scope, ScopeKind
from leasehold.model.status import Status

TRIES = 5
# The job that started first is looked for among at most so many running jobs.
LOOKED_AT = 100
# A job that is being claimed is in the item and does not run yet.
LEFT_BEHIND = timedelta(seconds=10)


def _key(scope: Scope) -> Key:
    return f"running#{scope.kind.value}#{scope.key}", "jobs"


def scopes_of(definition: str, tenant: TenantId) -> tuple[Scope, Scope]:
    return Scope.of_row(ScopeKind.TENANT, tenant), Scope.of_row(ScopeKind.DEFINITION, definition)


class RunningLimits:
    def __init__(self, table: Table, due: DueIndex) -> None:
        self._table = table
        self._due = due
        self._suspects: dict[tuple[Scope, str], float] = {}
        self._checked: dict[Scope, float] = {}
        self._full: set[Scope] = set()

    async def full(self, held: Holds) -> frozenset[Scope]:
        """Returns scopes that were full at an earlier claim and still are: their jobs would hide others."""
        self._full &= held.limits.keys()
        for scope in tuple(self._full):
            if len(await self._counted(scope, held.limits[scope])) < held.limits[scope]:
                self._full.discard(scope)
        return frozenset(self._full)

    async def choose(self, entries: Sequence[Entry], limit: int, held: Holds) -> list[Entry]:
        """Returns the first jobs for which there is room, and counts them as running."""
        if not held.limits:
            return list(entries[:limit])
        counted: dict[Scope, set[str]] = {}
        chosen: list[Entry] = []
        for entry in entries:
            if len(chosen) == limit:
                break
            limited = [scope for scope in scopes_of(entry.definition, entry.tenant) if scope in held.limits]
            for scope in limited:
                if scope not in counted:
                    counted[scope] = await self._counted(scope, held.limits[scope])
                    if len(counted[scope]) >= held.limits[scope]:
                        self._full.add(scope)
            if all(len(counted[scope] | {entry.pk}) <= held.limits[scope] for scope in limited):
                chosen.append(entry)
                for scope in limited:
                    counted[scope].add(entry.pk)
        for scope in counted:
            chosen = await self._count(scope, held.limits[scope], chosen)
        return chosen

    async def _counted(self, scope: Scope, most: int) -> set[str]:
        item = await self._table.get(_key(scope))
        jobs: set[str] = item.get("jobs", set()) if item else set()
        return await self._without_left_behind(scope, jobs) if len(jobs) >= most else jobs

    async def _without_left_behind(self, scope: Scope, jobs: set[str]) -> set[str]:
        """Takes out jobs that have not been running for a while. Looks at them now and then."""
        now = monotonic()
        if now - self._checked.get(scope, -_SECONDS) < _SECONDS / 2:
            return jobs
        self._checked[scope] = now
        found = await self._table.get_many(((pk, JOB) for pk in jobs), only=("status",))
        running = {pk for (pk, _), item in found.items() if item["status"] == RUNNING}
        for pk in running:
            self._suspects.pop((scope, pk), None)
        idle = {pk for pk in jobs - running if now - self._suspects.setdefault((scope, pk), now) >= _SECONDS}
        if idle:
            await self._take_out(scope, idle)
            for pk in idle:
                self._suspects.pop((scope, pk), None)
        return jobs - idle

    async def _count(self, scope: Scope, most: int, chosen: Sequence[Entry]) -> list[Entry]:
        """Counts the chosen jobs of a scope. Returns those that fit, and those of other scopes."""
        mine = [entry for entry in chosen if scope in scopes_of(entry.definition, entry.tenant)]
        for _ in range(TRIES):
            if not mine:
                break
            condition = "attribute_not_exists(#jobs) OR size(#jobs) <= :before"
            values = {"before": most - len(mine), "added": {entry.pk for entry in mine}}
            try:
                await self._table.update(
                    Update(_key(scope), {}, condition, values, "ADD #jobs :added"), returns="NONE"
                )
                break
            except ConditionFailed as failed:
                jobs = failed.item.get("jobs", set()) if failed.item else set()
                if {entry.pk for entry in mine} <= jobs:
                    break
                mine = mine[: max(0, most - len(jobs))]
        else:
            mine = []
        return [entry for entry in chosen if entry in mine or scope not in scopes_of(entry.definition, entry.tenant)]

    async def release(self, jobs: Iterable[tuple[str, str, TenantId]], held: Holds) -> None:
        """Takes out jobs that do not run any more: (pk, definition, tenant) of each."""
        if not held.limits:
            return
        freed: dict[Scope, set[str]] = {}
        for pk, definition, tenant in jobs:
            for scope in scopes_of(definition, tenant):
                if scope in held.limits:
                    freed.setdefault(scope, set()).add(pk)
        for scope, pks in freed.items():
            await self._take_out(scope, pks)

    async def _take_out(self, scope: Scope, pks: set[str]) -> None:
        await self._table.update(Update(_key(scope), {}, None, {"gone": pks}, "DELETE #jobs :gone"), returns="NONE")

    async def begin(self, scope: Scope) -> None:
        """Counts the jobs that run already, before a limit is set."""
        if scope.kind is ScopeKind.DEFINITION:
            listed = [item["PK"] for item in await self._due.running(scope.key)]
        else:
            listed = await self._running_of(TenantId(scope.key))
        found = await self._table.get_many(((pk, JOB) for pk in listed), only=("status",))
        running = {pk for (pk, _), item in found.items() if item["status"] == RUNNING}
        pk, sk = _key(scope)
        await self._table.transact([Put({"PK": pk, "SK": sk, "jobs": running or None})])

    async def remove(self, scope: Scope) -> None:
        """Forgets which jobs count."""
        await self._table.delete(Delete(_key(scope)))

    async def _running_of(self, tenant: TenantId) -> list[str]:
        found: list[str] = []
        for shard in range(self._table.shards):
            values = {"pk": keys.list_pk(tenant, Status.RUNNING.value, shard)}
            found += [item["PK"] async for item in self._table.query("#list_pk = :pk", values, index=LISTING)]
        return found

    async def running(self, scope: Scope, most: int) -> tuple[int, tuple[str, datetime] | None]:
        """Returns how many jobs of a scope count, up to `most`, and the one of them that started first."""
        jobs = sorted(await self._counted(scope, most))[:most]
        found = await self._table.get_many(((pk, JOB) for pk in jobs[:LOOKED_AT]), only=("status", "started_at"))
        started = [(item["started_at"], pk) for (pk, _), item in found.items() if item["status"] == RUNNING]
        if not started:
            return len(jobs), None
        first, pk = min(started)
        return len(jobs), (pk, read_timestamp(first))


_SECONDS = LEFT_BEHIND.total_seconds()


def places_of(claims: Iterable[Claim]) -> list[tuple[str, str, TenantId]]:
    return [(keys.job_pk(claim.tenant, claim.job), claim.definition.key, claim.tenant) for claim in claims]
