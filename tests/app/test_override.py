"""`app.override(…)`: another database or an enqueue strategy, for the length of a block."""

from collections.abc import Iterable
from typing import Any

import pytest

from leasehold import InvalidInput, Job, Leasehold
from leasehold.app.app_store import AppStore
from leasehold.store import Caller

NOWHERE = "postgresql://127.0.0.1:1/nobody"


class Recorded:
    """Records the jobs that the app has enqueued."""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    def after(self, store: AppStore, jobs: Iterable[Any], transaction: Caller | None, twin: str) -> None:
        assert twin.startswith("aenqueue")
        self.numbers.append(len(list(jobs)))

    async def aafter(self, store: AppStore, jobs: Iterable[Any], transaction: Caller | None) -> None:
        self.numbers.append(len(list(jobs)))


def test_another_url_counts_within_the_block_only(database_url: str) -> None:
    app = Leasehold(NOWHERE)

    @app.job
    def note(job: Job, number: int) -> None: ...

    with app.override(url=database_url):
        assert app.settings.url == database_url
        assert app.tenant("acme").enqueue(note, 1).created
    assert app.settings.url == NOWHERE


async def test_an_open_app_keeps_its_url(app: Leasehold, database_url: str) -> None:
    async with app.open():
        with pytest.raises(InvalidInput, match="the app is open"), app.override(url=NOWHERE):
            pass
    assert app.settings.url == database_url


async def test_a_strategy_is_called_after_every_enqueue(app: Leasehold) -> None:
    @app.job
    def note(job: Job, number: int) -> None: ...

    recorded = Recorded()
    async with app.open():
        with app.override(enqueue=recorded):
            acme = app.tenant("acme")
            await acme.aenqueue(note, 1)
            await acme.aenqueue_key("note", {"number": 2})
            await acme.aenqueue_many([note.bind(3), note.bind(4)])
        await acme.aenqueue(note, 5)
    assert recorded.numbers == [1, 1, 2]


def test_a_strategy_is_called_after_every_blocking_enqueue(app: Leasehold) -> None:
    @app.job
    def note(job: Job, number: int) -> None: ...

    recorded = Recorded()
    with app.override(enqueue=recorded):
        acme = app.tenant("acme")
        acme.enqueue(note, 1)
        acme.enqueue_key("note", {"number": 2})
        acme.enqueue_many([note.bind(3), note.bind(4)])
    acme.enqueue(note, 5)
    assert recorded.numbers == [1, 1, 2]
