"""Runs jobs at once when they are enqueued, in the caller's thread or on its loop."""

import warnings
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from random import random
from typing import Any, TypeVar
from unittest import mock

from leasehold.app import Enqueued, Leasehold, Tenant
from leasehold.app.bulk import EnqueuedMany
from leasehold.app.opened import Opened
from leasehold.app.within import frames_of_ours
from leasehold.model.job import Claim
from leasehold.model.outcome import decide
from leasehold.store import Registration, Store, Subscription, WorkerFacts
from leasehold.testing.execution import Execution, Ran


class NotRunInline(UserWarning):
    """A job was enqueued within a transaction while `inline()` lasted, and waits for its commit and a worker."""


T = TypeVar("T")
Ask = Callable[[Opened], Coroutine[Any, Any, T]]

# Long, since no heartbeat is sent, and a debugger may hold the job.
LEASE = timedelta(days=3650)
FACTS = WorkerFacts("inline", 0)


@contextmanager
def inline(app: Leasehold) -> Iterator[None]:
    """While it lasts, an enqueue returns when its jobs have run, and raises the error of the first that failed.

    Jobs are enqueued, claimed and finished for real. A job that is not due yet waits as ever. A job that was enqueued
    within a transaction is not run, because nothing here hears of the commit: it waits, and a NotRunInline warning
    says so. On a connection in autocommit it runs at once.
    """
    wait, ask = app._wait, app._ask
    many, amany = Tenant.enqueue_many, Tenant.aenqueue_many
    within, awithin = Tenant._enqueue_within, Tenant._aenqueue_within

    def run(placed: Iterable[Enqueued[Any]], instead: str) -> None:
        for each in placed:
            turn = _Turn(app, each)
            while execution := wait(turn.begin, instead):
                ran = execution.run()
                wait(partial(turn.end, ran), instead)
                _surface(ran)

    async def arun(placed: Iterable[Enqueued[Any]]) -> None:
        for each in placed:
            turn = _Turn(app, each)
            while execution := await ask(turn.begin):
                ran = await execution.arun()
                await ask(partial(turn.end, ran))
                _surface(ran)

    def wait_and_run(asked: Ask[T], instead: str) -> T:
        answer = wait(asked, instead)
        run(_created([answer]), instead)
        return answer

    async def ask_and_run(asked: Ask[T]) -> T:
        answer = await ask(asked)
        await arun(_created([answer]))
        return answer

    def many_and_run(door: Tenant, /, *args: Any, **options: Any) -> EnqueuedMany:
        answer = many(door, *args, **options)
        if door._app is app and _is_committed(door):
            run(_created(answer), "aenqueue_many")
        return answer

    async def amany_and_run(door: Tenant, /, *args: Any, **options: Any) -> EnqueuedMany:
        answer = await amany(door, *args, **options)
        if door._app is app and await _ais_committed(door):
            await arun(_created(answer))
        return answer

    def within_and_run(door: Tenant, /, *args: Any) -> Enqueued[Any]:
        answer = within(door, *args)
        if door._app is app and _is_committed(door):
            run(_created([answer]), "aenqueue")
        return answer

    async def awithin_and_run(door: Tenant, /, *args: Any) -> Enqueued[Any]:
        answer = await awithin(door, *args)
        if door._app is app and await _ais_committed(door):
            await arun(_created([answer]))
        return answer

    with (
        mock.patch.multiple(app, _wait=wait_and_run, _ask=ask_and_run),
        mock.patch.multiple(Tenant, enqueue_many=many_and_run, aenqueue_many=amany_and_run),
        mock.patch.multiple(Tenant, _enqueue_within=within_and_run, _aenqueue_within=awithin_and_run),
    ):
        yield


class _Turn:
    """Claims jobs of one job's tenant and definition, older ones first, until that job is claimed."""

    def __init__(self, app: Leasehold, placed: Enqueued[Any]) -> None:
        self._app = app
        self._placed = placed
        self._registration: Registration | None = None
        self._claim: Claim | None = None
        self._execution: Execution | None = None
        self._over = False

    async def begin(self, opened: Opened) -> Execution | None:
        if self._over:
            return None
        if self._registration is None:
            serves = Subscription((self._placed.definition,), (self._placed.tenant,))
            self._registration = await opened.store.join(serves, FACTS, LEASE)
        claimed = await opened.store.claim(self._registration, 1)
        if not claimed.claims:
            await self._leave(opened.store)
            return None
        (self._claim,) = claimed.claims
        self._execution = Execution(self._app.handlers[self._claim.definition.key], self._claim)
        return self._execution

    async def end(self, ran: Ran, opened: Opened) -> None:
        assert self._claim is not None
        assert self._execution is not None
        if self._execution.lines:
            await opened.store.append_log(self._execution.lines)
        await opened.store.finish([(self._claim, decide(ran.outcome, self._claim, random()))])
        if self._claim.job == self._placed.id or ran.error is not None:
            await self._leave(opened.store)

    async def _leave(self, store: Store) -> None:
        assert self._registration is not None
        self._over = True
        await store.leave(self._registration)


def _is_committed(door: Tenant) -> bool:
    """Warns if the jobs of this enqueue belong to a transaction of the caller."""
    return door._within is None or door._within.caller.commits_at_once() or _warn()


async def _ais_committed(door: Tenant) -> bool:
    return door._within is None or await door._within.caller.acommits_at_once() or _warn()


def _warn() -> bool:
    warnings.warn(
        "inline() does not run jobs that were enqueued within a transaction: they are not there before its commit. "
        "After the commit, run them with leasehold.drain(), or in async tests with await leasehold.adrain().",
        NotRunInline,
        stacklevel=frames_of_ours(),
    )
    return False


def _created(answers: Iterable[object]) -> Iterator[Enqueued[Any]]:
    return (each for each in answers if isinstance(each, Enqueued) and each.created)


def _surface(ran: Ran) -> None:
    if ran.error is not None:
        raise ran.error
