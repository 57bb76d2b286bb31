"""`job.state` in users' tests."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from leasehold import InvalidInput, Job, Leasehold
from leasehold.testing import QueueTester


@asynccontextmanager
async def lifespan(app: Leasehold) -> AsyncIterator[str]:
    yield "the real state"


app = Leasehold(lifespan=lifespan)


@app.job
def tell(job: Job) -> str:
    return str(job.state)


@pytest.fixture
def leasehold_app() -> Leasehold:
    return app


def test_a_drain_opens_the_lifespan(leasehold: QueueTester) -> None:
    placed = app.tenant("acme").enqueue(tell)
    leasehold.drain()
    assert leasehold.job(placed).result == "the real state"


def test_an_overridden_state_is_seen_by_calls_and_by_drains(leasehold: QueueTester) -> None:
    with app.override(state="a fake"):
        assert leasehold.call("acme", tell) == "a fake"
        with leasehold.inline():
            inline = app.tenant("acme").enqueue(tell)
        drained = app.tenant("acme").enqueue(tell)
        leasehold.drain()
    assert [leasehold.job(job).result for job in (inline, drained)] == ["a fake", "a fake"]


def test_none_is_a_state_too(leasehold: QueueTester) -> None:
    with app.override(state=None):
        assert leasehold.call("acme", tell) == "None"


def test_a_call_without_a_state_says_how_to_give_one(leasehold: QueueTester) -> None:
    with pytest.raises(InvalidInput, match=r"is not open.*app\.override\(state=…\)"):
        leasehold.call("acme", tell)
