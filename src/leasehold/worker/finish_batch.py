"""Writes verdicts in one batch; if the batch is refused, in halves, down to the verdict that can't be written."""

import logging
from collections.abc import Awaitable, Callable, Sequence

from leasehold.errors import ValueRefused
from leasehold.model.job import Claim
from leasehold.model.outcome import Verdict, not_written

log = logging.getLogger("leasehold.worker")

Done = Sequence[tuple[Claim, Verdict]]
Finish = Callable[[Done], Awaitable[frozenset[Claim]]]


async def finish_all(finish: Finish, done: Done) -> tuple[Done, frozenset[Claim]]:
    """Writes every verdict that can be written. Returns the written verdicts, and the claims that were fenced off.

    A batch that the database refuses is written in halves, down to the verdict that can't be written: it would
    otherwise block its whole batch for as long as the worker lives. That claim ends as failed, with the reason. An
    error that concerns all of them, such as Unreachable, is raised.
    """
    try:
        return done, await finish(done)
    except ValueRefused as error:
        if len(done) == 1:
            return await _finish_as_failed(finish, done[0][0], error)
    half = len(done) // 2
    first, fenced_first = await finish_all(finish, done[:half])
    rest, fenced_rest = await finish_all(finish, done[half:])
    return [*first, *rest], fenced_first | fenced_rest


async def _finish_as_failed(finish: Finish, claim: Claim, error: ValueRefused) -> tuple[Done, frozenset[Claim]]:
    done = [(claim, not_written(f"what became of the attempt can't be written: {error.happened}"))]
    log.error("job %s try %d ends as failed: %s", claim.job, claim.tries, error)
    try:
        return done, await finish(done)
    except ValueRefused:
        log.exception("job %s try %d can't be ended, whatever the verdict", claim.job, claim.tries)
        return done, frozenset({claim})
