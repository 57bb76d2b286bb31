"""Dedupe on enqueue, by the keys that a jobs repository's helper makes."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from leasehold import EnqueueJobInput, Job, JobsRepository, Leasehold, Status
from leasehold.model.dedupe import Always, WhileActive

PAYLOAD: dict[str, Any] = {"b": 1, "a": {"d": [2], "c": None}}
LONG = {"text": "é" * 2_000}


@pytest.fixture
async def jobs(app: Leasehold) -> AsyncIterator[JobsRepository]:
    async with app.open(), JobsRepository(app, types=["mail"]) as repository:
        yield repository


def mail(org: str | None = None, payload: dict[str, Any] = PAYLOAD, **fields: Any) -> EnqueueJobInput:
    return EnqueueJobInput("mail", org_id=org, payload=payload, **fields)


async def test_the_job_that_holds_the_key_is_the_answer(jobs: JobsRepository) -> None:
    first = await jobs.enqueue(mail("acme", dedupe_key="k"))
    assert await jobs.enqueue(mail("acme", {}, dedupe_key="k")) == first
    assert await jobs.enqueue(mail("other", dedupe_key="k")) != first
    assert await jobs.enqueue(mail("acme")) != first


async def test_a_key_is_free_when_its_job_has_ended(jobs: JobsRepository) -> None:
    first = await jobs.enqueue(mail("acme", dedupe_key="k"))
    (claim,) = await jobs.claim()
    await jobs.mark_success(claim)
    assert await jobs.enqueue(mail("acme", dedupe_key="k")) != first


async def test_a_key_can_be_held_beyond_its_job(jobs: JobsRepository) -> None:
    first = await jobs.enqueue(mail("acme", dedupe=Always()))
    (claim,) = await jobs.claim()
    await jobs.mark_success(claim)
    assert await jobs.enqueue(mail("acme", dedupe=Always())) == first


@pytest.mark.parametrize("payload", [PAYLOAD, LONG], ids=["short", "long"])
@pytest.mark.parametrize("org", [None, "default", "acme"])
async def test_the_helpers_key_is_the_one_that_is_indexed(
    app: Leasehold, jobs: JobsRepository, org: str | None, payload: dict[str, Any]
) -> None:
    key = JobsRepository.dedupe_key("mail", org, payload)
    tenant = app.tenant(org or "default")
    by_key = await tenant.options(dedupe_key=key).aenqueue_key("mail", payload)
    by_payload = await tenant.options(dedupe=WhileActive()).aenqueue_key("mail", payload)
    by_repository = await jobs.enqueue(mail(org, payload, dedupe_key=key))
    by_default = await jobs.enqueue(mail(org, payload, dedupe=WhileActive()))
    assert {by_payload.id, by_repository, by_default} == {by_key.id}


async def test_the_helpers_key_meets_the_apps_own_tenant(database_url: str) -> None:
    app = Leasehold(database_url, tenant="only")
    async with app.open(), JobsRepository(app, types=["mail"]) as jobs:
        first = await jobs.enqueue(mail(dedupe_key=JobsRepository.dedupe_key("mail", None, PAYLOAD)))
        again = await app.tenant("only").options(dedupe=WhileActive()).aenqueue_key("mail", PAYLOAD)
        assert (again.id, again.created) == (first, False)


async def test_the_helpers_key_meets_a_payload_with_defaults(app: Leasehold) -> None:
    @app.job(key="mail")
    def send(job: Job, to: str, subject: str = "hello") -> None: ...

    async with app.open(), JobsRepository(app) as jobs:
        payload = {"to": "ada@example.com"}
        key = JobsRepository.dedupe_key("mail", "acme", payload)
        first = await jobs.enqueue(mail("acme", payload, dedupe_key=key))
        again = await app.tenant("acme").options(dedupe=WhileActive()).aenqueue(send, "ada@example.com")
        assert again.id == first
        assert (await app.tenant("acme").aget(first)).status is Status.QUEUED
