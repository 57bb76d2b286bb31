"""The states that people name, as a filter that the store understands."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from difflib import get_close_matches
from typing import Any

import orjson

from leasehold.errors import InvalidInput
from leasehold.model.job import JobRecord
from leasehold.model.status import DisplayState, Status, parse_status
from leasehold.store import Filter, Page

Find = Callable[[Filter, str | None, int], Awaitable[Page]]

WAITING = frozenset({DisplayState.READY, DisplayState.SCHEDULED, DisplayState.RETRYING})


def read_states(words: Iterable[str]) -> frozenset[DisplayState]:
    """Display states and stored statuses, in any spelling; `queued` is all that waits for its time or a worker."""
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
    return InvalidInput(f"{word!r} is no state.{hint}", fix=f"Nothing was listed. There are: {', '.join(known)}.")


def as_filters(states: frozenset[DisplayState], **others: Any) -> tuple[Filter, ...]:
    """Filters that match just these states, each job by one of them; the store's clock says what is due."""
    waiting, rest = states & WAITING, tuple(sorted(Status[state.name] for state in states - WAITING))
    if not waiting:
        return (Filter(statuses=rest, **others),)
    if waiting == WAITING:
        return (Filter(statuses=(Status.QUEUED, *rest), **others),)
    filters = []
    if DisplayState.READY in waiting:
        filters.append(Filter(statuses=(Status.QUEUED, *rest), due=True, **others))  # what does not wait is due too
    elif rest:
        filters.append(Filter(statuses=rest, **others))
    if early := waiting - {DisplayState.READY}:
        tried = DisplayState.RETRYING in early if len(early) == 1 else None
        filters.append(Filter(statuses=(Status.QUEUED,), due=False, tried=tried, **others))
    return tuple(filters)


async def matching(find: Find, filters: Sequence[Filter], cursor: str | None, limit: int) -> Page:
    """A page of the jobs that match any of the filters, newest first."""
    if len(filters) == 1:
        return await find(filters[0], cursor, limit)
    listings = [Listing(find, where, start) for where, start in zip(filters, _starts(cursor, filters), strict=True)]
    for listing in listings:
        await listing.read(limit)
    newest = _newest_first((job, listing) for listing in listings for job in listing.page.jobs)
    shares = Counter(listing for _, listing in newest[:limit])
    for listing in listings:
        if shares[listing] < len(listing.page.jobs):  # once more: only what a page ends with has a cursor
            await listing.read(shares[listing])
    shown = _newest_first((job, listing) for listing in listings for job in listing.page.jobs)
    nexts = [listing.page.next for listing in listings]
    over = all(each is None for each in nexts)
    return Page([job for job, _ in shown], None if over else orjson.dumps(nexts).decode())


class Listing:
    """What one filter matches, from where it was left: a cursor, "" for its beginning, None if nothing is left."""

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


def _newest_first(found: Iterable[tuple[JobRecord, Listing]]) -> list[tuple[JobRecord, Listing]]:
    """As the store lists them: two tenants may have a job of the same id."""
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
        fix="Nothing was read. Pass what the page before said, with the same states.",
    )
