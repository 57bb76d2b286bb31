"""Calls that enqueue many jobs, in both colours, and an iterable that notes what it was asked for."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import asyncpg
import pytest

from leasehold import EnqueuedMany, Job, Leasehold, NewJob

Many = Callable[..., EnqueuedMany]


def note(job: Job, number: int, text: str = "") -> None: ...


def other(job: Job) -> None: ...


@pytest.fixture
def bound(app: Leasehold) -> Callable[[int], NewJob]:
    app.job(other)
    return app.job(note).bind


def blocking(app: Leasehold, jobs: Iterable[NewJob], **how: Any) -> EnqueuedMany:
    return app.tenant("acme").enqueue_many(jobs, **how)


def awaited(app: Leasehold, jobs: Iterable[NewJob], **how: Any) -> EnqueuedMany:
    async def call() -> EnqueuedMany:
        async with app.open():
            return await app.tenant("acme").aenqueue_many(jobs, **how)

    return asyncio.run(call())


def awaited_outside_of_open(app: Leasehold, jobs: Iterable[NewJob], **how: Any) -> EnqueuedMany:
    return asyncio.run(app.tenant("acme").aenqueue_many(jobs, **how))


@pytest.fixture(params=[blocking, awaited, awaited_outside_of_open], ids=lambda way: way.__name__)
def enqueue_many(app: Leasehold, request: pytest.FixtureRequest) -> Many:
    def call(jobs: Iterable[NewJob], **how: Any) -> EnqueuedMany:
        answer: EnqueuedMany = request.param(app, jobs, **how)
        return answer

    return call


def asked(url: str, question: str) -> list[Any]:
    async def ask() -> list[Any]:
        connection = await asyncpg.connect(url)
        try:
            return [row[0] for row in await connection.fetch(question)]
        finally:
            await connection.close()

    return asyncio.run(ask())


def numbers(url: str) -> list[int]:
    """In the order in which they run."""
    return asked(url, "select (payload ->> 'number')::int from leasehold.jobs where definition = 'note' order by seq")
