"""Runs jobs at once when they are enqueued, in the caller's thread or on its loop."""

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from random import random
from typing import Any

from leasehold.app import Enqueued, Leasehold
from leasehold.app.app_store import AppStore
from leasehold.app.open_store import OpenStore
from leasehold.app.within import frames_of_ours
from leasehold.model.job import Claim
from leasehold.model.outcome import decide, with_process
from leasehold.store import Caller, Registration, Store, Subscription, WorkerFacts
from leasehold.testing.execution import Execution, Ran


class NotRunInline(UserWarning):
    """A job was enqueued within a transaction while `inline()` lasted, and waits for its commit and a worker."""


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
    with app.override(enqueue=_RunAtOnce(app)):
        yield


class _RunAtOnce:
    """Runs jobs that were just created, unless they are part of an open transaction."""

    def __init__(self, app: Leasehold) -> None:
        self._app = app

    def after(self, store: AppStore, jobs: Iterable[Enqueued[Any]], transaction: Caller | None, twin: str) -> None:
        if not (transaction is None or transaction.commits_at_once() or _warn()):
            return
        for job in _only_created(jobs):
            turn = _Turn(self._app, job)
            while execution := store.call(turn.begin, twin):
                ran = execution.run()
                store.call(partial(turn.end, ran), twin)
                _surface(ran)

    async def aafter(self, store: AppStore, jobs: Iterable[Enqueued[Any]], transaction: Caller | None) -> None:
        if not (transaction is None or await transaction.acommits_at_once() or _warn()):
            return
        for job in _only_created(jobs):
            turn = _Turn(self._app, job)
            while execution := await store.acall(turn.begin):
                ran = await execution.arun()
                await store.acall(partial(turn.end, ran))
                _surface(ran)


class _Turn:
    """Claims jobs of one job's tenant and definition, older ones first, until that job is claimed."""

    def __init__(self, app: Leasehold, placed: Enqueued[Any]) -> None:
        self._app = app
        self._placed = placed
        self._registration: Registration | None = None
        self._claim: Claim | None = None
        self._execution: Execution | None = None
        self._over = False

    async def begin(self, opened: OpenStore) -> Execution | None:
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
        handler = self._app.handlers[self._claim.definition.key]
        self._execution = Execution(handler, self._claim, self._app.state_without_worker)
        return self._execution

    async def end(self, ran: Ran, opened: OpenStore) -> None:
        assert self._claim is not None
        assert self._execution is not None
        if self._execution.lines:
            await opened.store.append_log(self._execution.lines)
        verdict = decide(ran.outcome, self._claim, random())
        if ran.process is not None:
            verdict = with_process(verdict, ran.process)
        await opened.store.finish([(self._claim, verdict)])
        if self._claim.job == self._placed.id or ran.error is not None:
            await self._leave(opened.store)

    async def _leave(self, store: Store) -> None:
        assert self._registration is not None
        self._over = True
        await store.leave(self._registration)


def _warn() -> bool:
    warnings.warn(
        "inline() does not run jobs that were enqueued within a transaction: they are not there before its commit. "
        "After the commit, run them with leasehold.drain(), or in async tests with await leasehold.adrain().",
        NotRunInline,
        stacklevel=frames_of_ours(),
    )
    return False


def _only_created(jobs: Iterable[Enqueued[Any]]) -> Iterator[Enqueued[Any]]:
    return (job for job in jobs if job.created)


def _surface(ran: Ran) -> None:
    if ran.error is not None:
        raise ran.error
