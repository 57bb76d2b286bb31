"""The jobs repository: a queue by hand, with the rules of the code that people bring, number by number."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from tests.conftest import Clock

from leasehold import EnqueueJobInput, InvalidInput, Job, JobsRepository, Leasehold, PayloadInvalid, Status
from leasehold.engines import engine_for
from leasehold.engines.postgres.store import PostgresStore
from leasehold.errors import RegistrationLost, Unreachable
from leasehold.model.duration import Duration
from leasehold.model.job import tenant_id


@contextmanager
def answers_lost(monkeypatch: pytest.MonkeyPatch, verb: str) -> Iterator[None]:
    """Executes calls of the store, and then breaks the connection."""
    done = getattr(PostgresStore, verb)

    async def do(*arguments: Any) -> Any:
        await done(*arguments)
        raise Unreachable("the connection broke before the answer came.", fix="Ask again.")

    with monkeypatch.context() as patch:
        patch.setattr(PostgresStore, verb, do)
        yield


MAIL = EnqueueJobInput("send_mail", org_id="acme", payload={"to": "ada@example.com"})


async def test_a_job_is_enqueued_claimed_and_marked_as_success(app: Leasehold) -> None:
    async with app.open(), JobsRepository(app, types=["send_mail"]) as jobs:
        job = await jobs.enqueue(MAIL)
        (claim,) = await jobs.claim(10)
        assert (claim.job, claim.tenant, claim.attempt) == (job, "acme", 1)
        assert (await app.tenant("acme").aget(job)).status is Status.RUNNING
        await jobs.mark_success(claim, {"sent": True})
        record = await app.tenant("acme").aget(job)
        assert (record.status, record.result) == (Status.SUCCEEDED, {"sent": True})
        assert await jobs.claim(10) == []


async def test_a_failure_waits_for_its_backoff_and_fails_after_five(app: Leasehold, clock: Clock) -> None:
    async with app.open(), JobsRepository(app, types=["send_mail"], lease=timedelta(hours=1)) as jobs:
        job = await jobs.enqueue(MAIL)
        waits = []
        for attempt in range(1, 6):
            (claim,) = await jobs.claim()
            assert claim.attempt == attempt
            await jobs.mark_failure(claim, f"attempt {attempt}")
            record = await app.tenant("acme").aget(job)
            if attempt < 5:
                assert (record.status, record.last_error) == (Status.QUEUED, f"attempt {attempt}")
                assert await jobs.claim() == []
                assert claim.started_at is not None
                waits.append(round((record.scheduled_for - claim.started_at).total_seconds()))
                await clock.move(JobsRepository.backoff(attempt))
        assert waits == [1, 2, 4, 8]
        assert (record.status, record.attempt, record.last_error) == (Status.FAILED, 5, "attempt 5")


async def test_a_final_failure_is_not_tried_again(app: Leasehold) -> None:
    async with app.open(), JobsRepository(app, types=["send_mail"]) as jobs:
        job = await jobs.enqueue(MAIL)
        (claim,) = await jobs.claim()
        await jobs.mark_failure(claim, "no such address", code="bounced", final=True)
        record = await app.tenant("acme").aget(job)
        assert (record.status, record.last_error_code) == (Status.FAILED, "bounced")


async def test_run_at_and_a_missing_org(database_url: str, app: Leasehold) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    async with app.open(), JobsRepository(app, types=["send_mail"]) as jobs:
        job = await jobs.enqueue(EnqueueJobInput("send_mail", run_at=later))
        record = await app.tenant("default").aget(job)
        assert (record.scheduled_for, record.payload) == (later, {})
        assert await jobs.claim() == []
    single = Leasehold(database_url, tenant="only")
    async with single.open(), JobsRepository(single, types=["send_mail"]) as jobs:
        job = await jobs.enqueue(EnqueueJobInput("send_mail"))
        assert (await single.tenant("only").aget(job)).status is Status.QUEUED


async def test_the_types_of_an_app_are_those_of_its_handlers(app: Leasehold) -> None:
    @app.job(max_attempts=1)
    def send_mail(job: Job, to: str) -> None: ...

    async with app.open(), JobsRepository(app) as jobs:
        job = await jobs.enqueue(MAIL)
        (claim,) = await jobs.claim()
        await jobs.mark_failure(claim, "once")
        assert (await app.tenant("acme").aget(job)).status is Status.DEAD_LETTER


async def test_a_type_registered_by_other_code_stays_as_it_is(app: Leasehold, database_url: str) -> None:
    other = Leasehold(database_url)

    @other.job(max_attempts=1)
    def send_mail(job: Job, to: str) -> None: ...

    async with other.open(), app.open():
        await other.store.sync_definitions(other.handlers.definitions)
        (before,) = await other.store.definitions()
        async with JobsRepository(app, types=["send_mail", "new_here"]) as jobs:
            await jobs.enqueue(MAIL)
            (claim,) = await jobs.claim()
            assert (claim.definition.key, claim.definition.max_attempts) == ("send_mail", 1)
            await jobs.mark_success(claim)
        after = {registered.definition.key: registered for registered in await other.store.definitions()}
        assert (after["send_mail"], after["new_here"].definition.max_attempts) == (before, 5)


async def test_a_mark_of_a_lost_claim_raises_and_writes_nothing(app: Leasehold, clock: Clock) -> None:
    async with app.open(), JobsRepository(app, types=["send_mail"]) as first:
        job = await first.enqueue(MAIL)
        (stale,) = await first.claim()
        await clock.move(timedelta(minutes=2))
        async with JobsRepository(app, types=["send_mail"], lease=timedelta(hours=2)) as second:
            assert await second.claim() == []  # reclaimed, and waits for its backoff
            await clock.move(timedelta(minutes=1))
            (claim,) = await second.claim()
            assert (claim.job, claim.attempt) == (job, 2)
            for mark in (first.mark_success(stale), first.mark_failure(stale, "late")):
                with pytest.raises(RegistrationLost, match=r"LH-4001.*try 1 lost its lease.*Nothing was written"):
                    await mark
            with pytest.raises(RegistrationLost, match="evicted"):
                await first.claim()
            await second.mark_success(claim)
        record = await app.tenant("acme").aget(job)
        assert (record.status, record.attempt, record.last_error_code) == (Status.SUCCEEDED, 2, "lease_lost")


async def test_renewals_and_marks_renew_all_claims_but_enqueues_do_not(app: Leasehold, clock: Clock) -> None:
    async with app.open(), JobsRepository(app, types=["send_mail"]) as jobs:
        await jobs.enqueue(MAIL)
        await jobs.enqueue(MAIL)
        marked, claim = await jobs.claim(2)
        for _ in range(3):
            await clock.move(timedelta(seconds=40))
            await jobs.renew()
        await clock.move(timedelta(seconds=40))
        await jobs.mark_success(marked)
        await clock.move(timedelta(seconds=40))
        await jobs.enqueue(MAIL)
        async with JobsRepository(app, types=["send_mail"], lease=timedelta(hours=1)) as second:
            assert claim.job not in {other.job for other in await second.claim(10)}
            await clock.move(timedelta(seconds=40))
            await second.claim(10)
        with pytest.raises(RegistrationLost):
            await jobs.mark_success(claim)


async def test_jobs_of_a_lost_claim_are_given_back_at_no_cost(
    app: Leasehold, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with app.open(), JobsRepository(app, types=["send_mail"]) as jobs:
        await jobs.enqueue(MAIL)
        (held,) = await jobs.claim()
        job = await jobs.enqueue(MAIL)
        with answers_lost(monkeypatch, "claim"), pytest.raises(Unreachable):
            await jobs.claim(10)
        (again,) = await jobs.claim(10)
        assert (again.job, again.attempt, again.free_attempts) == (job, 2, 1)
        for claim in (held, again):
            await jobs.mark_success(claim)


async def test_a_repository_follows_its_app_to_another_store(
    app: Leasehold, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker of this process that joins again closes the store that it lent to the app, and lends another."""
    lent = await engine_for(database_url).open()
    another = await engine_for(database_url).open()
    async with app.open():
        with monkeypatch.context() as patch:
            patch.setattr(Leasehold, "store", property(lambda _: lent))
            jobs = await JobsRepository(app, types=["send_mail"]).__aenter__()
            job = await jobs.enqueue(MAIL)
            with answers_lost(monkeypatch, "claim"), pytest.raises(Unreachable):
                await jobs.claim()
            await lent.close()
            patch.setattr(Leasehold, "store", property(lambda _: another))
            (claim,) = await jobs.claim()
            assert claim.job == job
            await jobs.mark_success(claim)
            await jobs.__aexit__()
            assert await another.workers() == []
    await another.close()


async def test_a_mark_whose_answer_was_lost_may_be_repeated(app: Leasehold, monkeypatch: pytest.MonkeyPatch) -> None:
    async with app.open(), JobsRepository(app, types=["send_mail"]) as jobs:
        sent, bounced = [await jobs.enqueue(MAIL) for _ in range(2)]
        first, second = await jobs.claim(2)
        for mark in (partial(jobs.mark_success, first), partial(jobs.mark_failure, second, "bounced")):
            with answers_lost(monkeypatch, "finish"), pytest.raises(Unreachable):
                await mark()
            await mark()
        records = [await app.tenant("acme").aget(job) for job in (sent, bounced)]
        assert [(record.status, record.attempt) for record in records] == [(Status.SUCCEEDED, 1), (Status.QUEUED, 1)]


async def test_but_what_was_marked_otherwise_stays_so(app: Leasehold) -> None:
    async with app.open(), JobsRepository(app, types=["send_mail"]) as jobs:
        job = await jobs.enqueue(MAIL)
        (claim,) = await jobs.claim()
        await jobs.mark_success(claim)
        with pytest.raises(RegistrationLost, match="Nothing was written"):
            await jobs.mark_failure(claim, "it bounced after all")
        assert (await app.tenant("acme").aget(job)).status is Status.SUCCEEDED


async def test_what_was_not_marked_is_taken_over_when_the_block_is_left(app: Leasehold, clock: Clock) -> None:
    async with app.open():
        async with JobsRepository(app, types=["send_mail"]) as jobs:
            job = await jobs.enqueue(MAIL)
            assert len(await jobs.claim()) == 1
        async with JobsRepository(app, types=["send_mail"]) as jobs:
            assert await jobs.claim() == []
            await clock.move(timedelta(seconds=2))
            assert [claim.attempt for claim in await jobs.claim()] == [2]
        assert (await app.store.tenant(tenant_id("acme")).get(job)) is not None


async def test_misuse_is_refused(app: Leasehold) -> None:
    with pytest.raises(InvalidInput, match="no types"):
        JobsRepository(app)
    async with app.open():
        with pytest.raises(InvalidInput, match="not open"):
            await JobsRepository(app, types=["send_mail"]).claim()
        async with JobsRepository(app, types=["send_mail"]) as jobs:
            await jobs.enqueue(MAIL)
            (claim,) = await jobs.claim()
            with pytest.raises(PayloadInvalid):
                await jobs.mark_success(claim, object())


@pytest.mark.parametrize(
    ("attempts", "seconds"), [(0, 1), (1, 1), (2, 2), (3, 4), (4, 8), (5, 16), (6, 32), (7, 60), (8, 60), (5000, 60)]
)
def test_the_backoff_number_by_number(attempts: int, seconds: int) -> None:
    assert JobsRepository.backoff(attempts) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("status", "attempts", "expected"),
    [
        ("success", 0, False),
        ("succeeded", 0, False),
        ("running", 0, False),
        ("queued", 0, True),
        ("failed", 4, True),
        ("failed", 5, False),
        ("dead_letter", 6, False),
        (Status.CANCELED, 1, True),
    ],
)
def test_what_can_be_retried(status: str, attempts: int, expected: bool) -> None:
    assert JobsRepository.can_retry(status, attempts) is expected
    assert JobsRepository.can_retry(status, attempts, max_attempts=attempts) is False


@pytest.mark.parametrize(
    ("org", "payload", "key"),
    [
        ("o-1", {"b": 1, "a": {"d": [2], "c": None}}, 'mail::o-1::{"a":{"c":null,"d":[2]},"b":1}'),
        (None, {}, "mail::global::{}"),
    ],
)
def test_the_dedupe_key_character_by_character(org: str | None, payload: dict[str, Any], key: str) -> None:
    assert JobsRepository.dedupe_key("mail", org, payload) == key


@pytest.mark.parametrize("lease", [0, "500ms", timedelta(hours=-1), "3651d", timedelta.max, "long", None], ids=repr)
def test_a_lease_beyond_the_bounds_is_refused(app: Leasehold, lease: Any) -> None:
    with pytest.raises(InvalidInput, match=r"lease=.* is not (between 1 s and 3650 days|a duration)"):
        JobsRepository(app, types=["send_mail"], lease=lease)


@pytest.mark.parametrize("lease", [1, "1m30s", timedelta(days=3650)], ids=repr)
async def test_a_lease_is_any_duration_in_the_bounds(app: Leasehold, lease: Duration) -> None:
    async with app.open(), JobsRepository(app, types=["send_mail"], lease=lease) as jobs:
        await jobs.renew()


@pytest.mark.parametrize("payload", [None, 7, "text", [1], [("to", "ada")]])
async def test_a_payload_that_is_not_a_mapping_is_refused(app: Leasehold, payload: Any) -> None:
    async with app.open(), JobsRepository(app, types=["send_mail"]) as jobs:
        with pytest.raises(PayloadInvalid, match=r"is not a mapping. Nothing was enqueued"):
            await jobs.enqueue(EnqueueJobInput("send_mail", payload=payload))


@pytest.mark.parametrize("key", [7, b"send_mail", None, ["send_mail"]])
async def test_a_type_that_is_not_text_is_refused(app: Leasehold, key: Any) -> None:
    async with app.open(), JobsRepository(app, types=["send_mail"]) as jobs:
        with pytest.raises(InvalidInput, match="is not"):
            await jobs.enqueue(EnqueueJobInput(key))


@pytest.mark.parametrize(
    "words", [{"error": 7}, {"error": b"no"}, {"error": "no", "code": 7}, {"error": ValueError("no")}]
)
async def test_a_failure_without_text_is_refused_and_can_be_repeated(app: Leasehold, words: dict[str, Any]) -> None:
    async with app.open(), JobsRepository(app, types=["send_mail"]) as jobs:
        job = await jobs.enqueue(MAIL)
        (claim,) = await jobs.claim()
        with pytest.raises(InvalidInput, match=r"is not text. Nothing was written, and the claim is still held"):
            await jobs.mark_failure(claim, **words)
        await jobs.mark_failure(claim, "no such address", final=True)
        assert (await app.tenant("acme").aget(job)).status is Status.FAILED
