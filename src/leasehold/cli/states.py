"""The states that people name, as a filter that the store understands."""

from collections.abc import Awaitable, Callable, Iterable
from difflib import get_close_matches
from typing import Any

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


def as_filter(states: frozenset[DisplayState], **others: Any) -> Filter:
    """As narrow as one filter can be; `matching` leaves out the rest."""
    statuses = {Status.QUEUED if state in WAITING else Status[state.name] for state in states}
    due, tried = _only_waiting(states) if states and states < WAITING else (None, None)
    return Filter(statuses=tuple(sorted(statuses)), due=due, tried=tried, **others)


def _only_waiting(states: frozenset[DisplayState]) -> tuple[bool | None, bool | None]:
    if DisplayState.READY in states:
        return (True, None) if len(states) == 1 else (None, None)
    return False, DisplayState.RETRYING in states if len(states) == 1 else None


async def matching(
    find: Find, where: Filter, states: frozenset[DisplayState], cursor: str | None, limit: int
) -> Page:
    """A page of jobs in these states; all of them, if none is named. No page is cut, so that its cursor holds."""
    jobs: list[JobRecord] = []
    while True:
        page = await find(where, cursor, limit - len(jobs))
        jobs += [job for job in page.jobs if not states or job.display in states]
        cursor = page.next
        if cursor is None or len(jobs) >= limit:
            return Page(jobs, cursor)
