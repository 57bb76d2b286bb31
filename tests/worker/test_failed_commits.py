"""A handler's transaction whose commit fails: it is rolled back, or abandoned if that can't be asked any more."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import asyncpg
import pytest
from tests.model.claims import a_claim
from tests.proxy import Proxy

from leasehold.engines.postgres.drivers.asyncpg import AsyncpgDriver
from leasehold.errors import Unreachable
from leasehold.model.outcome import Outcome, Raised, Succeeded
from leasehold.model.redaction import Redactor
from leasehold.store import FinishAnswer
from leasehold.worker import handler_transaction
from leasehold.worker.handler_transaction import HandlerTransaction


class Steps:
    """Stands for a transaction, and notes what is asked of it."""

    blocking = False
    connection = None

    def __init__(self, commit: BaseException, rollback: Callable[[], Awaitable[None]]) -> None:
        self.asked: list[str] = []
        self.rolls_back = asyncio.Event()
        self._commit, self._rollback = commit, rollback

    async def begin(self) -> None: ...

    async def finish(self, result: object) -> FinishAnswer:
        return FinishAnswer.FINISHED

    async def commit(self) -> None:
        raise self._commit

    async def rollback(self) -> None:
        self.asked.append("rollback")
        self.rolls_back.set()
        await self._rollback()

    def abandon(self) -> None:
        self.asked.append("abandon")


async def succeed() -> None: ...


async def fail() -> None:
    raise RuntimeError("the session is of no use any more")


async def hang() -> None:
    await asyncio.Event().wait()


async def end(steps: Steps) -> Outcome | None:
    """Begins the transaction of a handler that returns, and ends it."""

    async def nothing(*_: object) -> None: ...

    claim = a_claim()
    owner: Any = SimpleNamespace(
        _claim=claim, _transaction=None, _given_up=False, _in_thread=False, _redactor=Redactor()
    )
    tenant = SimpleNamespace(get=nothing)
    context: Any = SimpleNamespace(
        begin=lambda *_: steps,
        in_time=lambda asked: asked,
        write_lines=nothing,
        holds=lambda: True,
        store=SimpleNamespace(tenant=lambda _: tenant),
        loop=asyncio.get_running_loop(),
    )
    transaction: HandlerTransaction[Any] = HandlerTransaction(owner, context, None)
    async with transaction:
        pass
    return await transaction.end(Succeeded(None))


@pytest.mark.parametrize(
    ("rollback", "asked"), [(succeed, ["rollback"]), (fail, ["rollback", "abandon"]), (hang, ["rollback", "abandon"])]
)
async def test_a_commit_that_fails_by_itself_is_rolled_back(
    rollback: Callable[[], Awaitable[None]], asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handler_transaction, "ROLLING_BACK", 0.01)
    steps = Steps(RuntimeError("a hook said no"), rollback)
    outcome = await end(steps)
    assert isinstance(outcome, Raised)
    assert steps.asked == asked


@pytest.mark.parametrize(
    "error", [Unreachable("no answer for 60 s.", fix="It is asked again."), ConnectionResetError(), TimeoutError()]
)
async def test_a_server_that_is_away_is_asked_for_no_rollback(error: Exception) -> None:
    steps = Steps(error, hang)
    assert isinstance(await end(steps), Raised)
    assert steps.asked == ["abandon"]


async def test_a_canceled_commit_is_abandoned() -> None:
    steps = Steps(asyncio.CancelledError(), hang)
    with pytest.raises(asyncio.CancelledError):
        await end(steps)
    assert steps.asked == ["abandon"]


async def test_a_cancel_during_the_rollback_abandons_it() -> None:
    steps = Steps(RuntimeError("a hook said no"), hang)
    ending = asyncio.create_task(end(steps))
    await steps.rolls_back.wait()
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending
    assert steps.asked == ["rollback", "abandon"]


async def test_a_rollback_after_a_lost_answer_closes_the_connection(proxy: Proxy) -> None:
    """asyncpg refuses to roll back a transaction whose commit was not answered."""
    connection = await asyncpg.connect(proxy.url)
    driver = AsyncpgDriver(connection)
    await driver.begin()
    proxy.strand()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(driver.commit(), 0.05)
    await driver.rollback()
    assert connection.is_closed()
