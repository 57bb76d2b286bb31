"""Finds the jobs that people mean: one by its id or the end of it, several by the states that they name."""

import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any
from uuid import UUID

import orjson

from leasehold.errors import InvalidInput, UnknownJob
from leasehold.model.job import JobId, JobRecord, TenantId
from leasehold.model.status import DisplayState, Status, parse_status
from leasehold.operations.views import format_count, visible
from leasehold.store import Filter, Page, Store

Find = Callable[[Filter, str | None, int], Awaitable[Page]]

NEWEST = 1000
AT_ONCE = 200
WAITING = frozenset({DisplayState.READY, DisplayState.SCHEDULED, DisplayState.RETRYING})
_END_OF_AN_ID = re.compile(r"[0-9a-f-]{4,35}")


# ----------------------------------------------------------------------------------------------------------- by id


@dataclass(frozen=True, slots=True)
class Address:
    """A job and its tenant; with its record, if the search has read it."""

    tenant: TenantId
    job: JobId
    record: JobRecord | None = field(default=None, compare=False)


async def find_job(store: Store, text: str, tenant: TenantId | None) -> Address:
    """Finds a job by its whole id, or by the end of it among the newest 1,000 jobs. Changes nothing.

    Raises UnknownJob, or InvalidInput for text that is not an id or fits several jobs.
    """
    spelled = text.strip().lower()
    whole = _whole_id(spelled)
    if whole is None and not _END_OF_AN_ID.fullmatch(spelled):
        raise InvalidInput(
            f"{text[:120]!r} is not a job id: that is a UUID, or at least the last 4 characters of one.",
            fix="Nothing was changed. Copy it from `leasehold jobs`.",
        )
    if whole is None:
        return await _find_by_end(store, spelled, tenant)
    return await _find_in_all_tenants(store, whole) if tenant is None else Address(tenant, whole)


def _whole_id(text: str) -> JobId | None:
    try:
        return JobId(str(UUID(text)))
    except ValueError:
        return None


async def _find_in_all_tenants(store: Store, job: JobId) -> Address:
    found = await store.jobs_with_id(job)
    if not found:
        raise UnknownJob(f"no tenant has a job {job}.", fix="Nothing was changed. Look for it: leasehold jobs.")
    if len(found) > 1:
        tenants = ", ".join(visible(record.tenant) for record in found)
        raise InvalidInput(
            f"{format_count(len(found), 'tenant')} have a job {job}: {tenants}.",
            fix="Nothing was changed. Say whose you mean, with --tenant.",
        )
    return Address(found[0].tenant, job, found[0])


async def _find_by_end(store: Store, end: str, tenant: TenantId | None) -> Address:
    matching = [job async for job in _newest(store, tenant) if job.id.endswith(end)]
    if not matching:
        where = f"tenant {tenant!r}" if tenant else "all tenants"
        raise UnknownJob(
            f"no id of the newest {NEWEST:,} jobs of {where} ends with {end!r}.",
            fix="Nothing was changed. Pass the whole id, or look for it: leasehold jobs.",
        )
    if len(matching) > 1:
        raise InvalidInput(
            f"{format_count(len(matching), 'job')} end with {end!r}: {_list(matching)}.",
            fix="Nothing was changed. Pass more of the id.",
        )
    return Address(matching[0].tenant, matching[0].id, matching[0])


async def _newest(store: Store, tenant: TenantId | None) -> AsyncIterator[JobRecord]:
    find = store.tenant(tenant).find if tenant else store.find_all_tenants
    cursor: str | None = None
    for _ in range(NEWEST // AT_ONCE):
        page = await find(Filter(), cursor, AT_ONCE)
        for job in page.jobs:
            yield job
        cursor = page.next
        if cursor is None:
            return


def _list(jobs: Sequence[JobRecord]) -> str:
    return ", ".join(
        f"{job.id} ({visible(job.tenant)}, {visible(job.definition)}, {job.display})" for job in jobs[:10]
    )


# ------------------------------------------------------------------------------------------------------- by state


def read_states(words: Iterable[str]) -> frozenset[DisplayState]:
    """Reads display states and stored statuses, in any spelling; `queued` is every waiting job."""
    return frozenset(state for word in words for state in _read(word))


def _read(word: str) -> frozenset[DisplayState]:
    spelled = word.strip().lower().replace("-", "_").replace(" ", "_")
    if spelled.upper() in DisplayState.__members__:
        return frozenset({DisplayState[spelled.upper()]})
    try:
        status = parse_status(spelled)
    except ValueError as error:
        raise _no_state(word) from error
    return WAITING if status is Status.QUEUED else frozenset({DisplayState[status.name]})


def _no_state(word: str) -> InvalidInput:
    known = [state.value.replace(" ", "-") for state in DisplayState] + ["queued"]
    near = get_close_matches(word.lower(), known, n=1)
    hint = f' Did you mean "{near[0]}"?' if near else ""
    return InvalidInput(f"{word!r} is not a state.{hint}", fix=f"Nothing was listed. There are: {', '.join(known)}.")


def as_filters(states: frozenset[DisplayState], **others: Any) -> tuple[Filter, ...]:
    """Returns filters that match only these states, each job by one filter; the store decides which are due."""
    waiting, rest = states & WAITING, tuple(sorted(Status[state.name] for state in states - WAITING))
    if not waiting:
        return (Filter(statuses=rest, **others),)
    if waiting == WAITING:
        return (Filter(statuses=(Status.QUEUED, *rest), **others),)
    filters = []
    if DisplayState.READY in waiting:
        filters.append(
            Filter(statuses=(Status.QUEUED, *rest), due=True, **others)
        )  # jobs that do not wait are due, too
    elif rest:
        filters.append(Filter(statuses=rest, **others))
    if early := waiting - {DisplayState.READY}:
        tried = DisplayState.RETRYING in early if len(early) == 1 else None
        filters.append(Filter(statuses=(Status.QUEUED,), due=False, tried=tried, **others))
    return tuple(filters)


async def list_matching(find: Find, filters: Sequence[Filter], cursor: str | None, limit: int) -> Page:
    """Returns a page of the jobs that match any of the filters, newest first."""
    if len(filters) == 1:
        return await find(filters[0], cursor, limit)
    listings = [_Listing(find, where, start) for where, start in zip(filters, _starts(cursor, filters), strict=True)]
    for listing in listings:
        await listing.read(limit)
    # Below the id that one listing has looked at, jobs of another would come before newer ones of this listing.
    down_to = max((listing.page.down_to for listing in listings if listing.page.down_to), default=None)
    newest = _newest_first(
        (job, listing) for listing in listings for job in listing.page.jobs if down_to is None or job.id >= down_to
    )
    shares = Counter(listing for _, listing in newest[:limit])
    for listing in listings:
        if shares[listing] < len(listing.page.jobs):  # only the last job of a page has a cursor
            await listing.read(shares[listing])
    shown = _newest_first((job, listing) for listing in listings for job in listing.page.jobs)
    nexts = [listing.page.next for listing in listings]
    over = all(each is None for each in nexts)
    following = None if over else orjson.dumps(nexts).decode()
    return Page([job for job, _ in shown], following, down_to if len(shown) < limit else None)


class _Listing:
    """The jobs of one filter from `start` on: a cursor, "" for the beginning, None if nothing is left."""

    def __init__(self, find: Find, where: Filter, start: str | None) -> None:
        self._find = find
        self._where = where
        self._start = start
        self.page = Page([], start)

    async def read(self, limit: int) -> None:
        if self._start is None or not limit:
            self.page = Page([], self._start)
        else:
            self.page = await self._find(self._where, self._start or None, limit)


def _newest_first(found: Iterable[tuple[JobRecord, _Listing]]) -> list[tuple[JobRecord, _Listing]]:
    """Sorts as the store does: by id, and two jobs with one id by tenant."""
    return sorted(sorted(found, key=lambda each: each[0].tenant), key=lambda each: each[0].id, reverse=True)


def _starts(cursor: str | None, filters: Sequence[Filter]) -> list[str | None]:
    if cursor is None:
        return ["" for _ in filters]
    with suppress(orjson.JSONDecodeError):
        starts = orjson.loads(cursor)
        if (
            isinstance(starts, list)
            and len(starts) == len(filters)
            and all(isinstance(start, str | None) for start in starts)
        ):
            return starts
    raise InvalidInput(
        f"{cursor!r} is not a cursor of this listing.",
        fix="Nothing was read. Pass the cursor of the page before, with the same states.",
    )
