"""Dedupe: one key, one job, for as long as its mode says, per tenant."""

import asyncio
from datetime import timedelta

import pytest
from tests.store.bench import KEY, Bench, all_jobs, keyed
from tests.tenant_kit import DAY, HOUR, OTHER

from leasehold.errors import DuplicateJob
from leasehold.model.dedupe import Always, Dedupe, Mode, OnConflict, WhileActive, Within
from leasehold.model.job import EnqueueResult, JobId, NewJob
from leasehold.model.outcome import Raised, Released
from leasehold.model.status import Status
from leasehold.store import Store

MODES: list[Mode] = [WhileActive(), Within(HOUR), Always(), Always(DAY)]
BEYOND_THE_JOB = [Within(HOUR), Always(), Always(DAY)]


async def ask(bench: Bench, dedupe: Dedupe, **fields: object) -> EnqueueResult:
    (placed,) = await bench.jobs.enqueue([NewJob(definition="report", dedupe=dedupe, **fields)])  # type: ignore[arg-type]
    return placed


@pytest.mark.parametrize("mode", MODES, ids=str)
async def test_a_second_request_gets_the_job_that_holds_the_key(bench: Bench, mode: Mode) -> None:
    first = await bench.enqueue(dedupe=keyed(mode))
    assert await ask(bench, keyed(mode)) == EnqueueResult(first, created=False)


@pytest.mark.parametrize("mode", MODES, ids=str)
async def test_32_requests_at_once_make_one_job_and_all_get_its_id(bench: Bench, mode: Mode) -> None:
    placed = await asyncio.gather(*(ask(bench, keyed(mode)) for _ in range(32)))
    assert sum(each.created for each in placed) == 1
    assert {each.id for each in placed} == {job.id for job in await all_jobs(bench.jobs)}
    assert len(await all_jobs(bench.jobs)) == 1


@pytest.mark.parametrize("mode", MODES, ids=str)
async def test_a_key_twice_in_one_batch_is_one_job(bench: Bench, mode: Mode) -> None:
    first, second = await bench.jobs.enqueue([NewJob(definition="report", dedupe=keyed(mode))] * 2)
    assert (first.created, second) == (True, EnqueueResult(first.id, created=False))


@pytest.mark.parametrize("mode", MODES, ids=str)
async def test_the_same_key_of_another_tenant_is_another_key(bench: Bench, store: Store, mode: Mode) -> None:
    await bench.enqueue(dedupe=keyed(mode))
    (placed,) = await store.tenant(OTHER).enqueue([NewJob(definition="report", dedupe=keyed(mode))])
    assert placed.created


@pytest.mark.parametrize("mode", MODES, ids=str)
async def test_batches_with_crossed_keys_all_come_through(bench: Bench, mode: Mode) -> None:
    forth = [NewJob(definition="report", dedupe=keyed(mode, f"{KEY}-{number}")) for number in range(10)]
    batches = [forth, forth[::-1]] * 4
    answers = await asyncio.gather(*(bench.jobs.enqueue(batch) for batch in batches))
    assert sum(placed.created for answer in answers for placed in answer) == 10
    assert len(await all_jobs(bench.jobs)) == 10


async def test_other_keys_make_other_jobs(bench: Bench) -> None:
    first = await bench.enqueue(dedupe=keyed(key="one"))
    assert await bench.enqueue(dedupe=keyed(key="two")) != first


async def test_without_a_key_equal_jobs_are_two_jobs(bench: Bench) -> None:
    first = await bench.enqueue(payload={"month": 3})
    assert await bench.enqueue(payload={"month": 3}) != first


async def test_without_a_key_of_its_own_a_payload_is_the_key(bench: Bench) -> None:
    first = await bench.enqueue(dedupe=Dedupe(), payload={"month": 3, "year": 2026})
    assert await ask(bench, Dedupe(), payload={"year": 2026, "month": 3}) == EnqueueResult(first, created=False)
    assert (await ask(bench, Dedupe(), payload={"year": 2026, "month": 4})).created


async def test_while_active_holds_while_the_job_runs(bench: Bench) -> None:
    claim = await bench.running(dedupe=keyed())
    assert await ask(bench, keyed()) == EnqueueResult(claim.job, created=False)


@pytest.mark.parametrize("outcome", [Raised("Unlucky", "no jitter"), Released()], ids=["retry", "release"])
async def test_while_active_holds_while_the_job_waits_again(bench: Bench, outcome: Raised | Released) -> None:
    claim = await bench.running(dedupe=keyed())
    await bench.finish(claim, outcome)
    assert await ask(bench, keyed()) == EnqueueResult(claim.job, created=False)


@pytest.mark.parametrize("status", [Status.SUCCEEDED, Status.FAILED, Status.CANCELED, Status.DEAD_LETTER])
async def test_while_active_lets_go_when_the_job_ends(bench: Bench, status: Status) -> None:
    ended = await bench.ended(status, dedupe=keyed())
    placed = await ask(bench, keyed())
    assert placed.created
    assert placed.id != ended


async def test_while_active_lets_go_of_a_job_canceled_before_it_ran(bench: Bench) -> None:
    await bench.jobs.cancel([await bench.enqueue(dedupe=keyed())])
    assert (await ask(bench, keyed())).created


@pytest.mark.parametrize("mode", BEYOND_THE_JOB, ids=str)
async def test_other_modes_hold_after_the_job_ended(bench: Bench, mode: Mode) -> None:
    ended = await bench.succeeded(dedupe=keyed(mode))
    assert await ask(bench, keyed(mode)) == EnqueueResult(ended, created=False)


@pytest.mark.parametrize(("mode", "lifetime"), [(Within(HOUR), HOUR), (Always(DAY), DAY)], ids=str)
async def test_a_key_that_expires_holds_until_then(bench: Bench, mode: Mode, lifetime: timedelta) -> None:
    first = await bench.enqueue(dedupe=keyed(mode))
    await bench.move_clock(lifetime - timedelta(minutes=1))
    assert await ask(bench, keyed(mode)) == EnqueueResult(first, created=False)


@pytest.mark.parametrize("ended", [False, True], ids=["still waiting", "ended"])
@pytest.mark.parametrize(("mode", "lifetime"), [(Within(HOUR), HOUR), (Always(DAY), DAY)], ids=str)
async def test_a_key_that_expired_makes_a_new_job(bench: Bench, mode: Mode, lifetime: timedelta, ended: bool) -> None:
    first = await (bench.succeeded if ended else bench.enqueue)(dedupe=keyed(mode))
    await bench.move_clock(lifetime)
    second = await ask(bench, keyed(mode))
    assert second.created
    assert second.id != first


async def test_a_key_that_expired_is_held_by_the_new_job(bench: Bench) -> None:
    await bench.enqueue(dedupe=keyed(Within(HOUR)))
    await bench.move_clock(HOUR)
    second = await ask(bench, keyed(Within(HOUR)))
    assert await ask(bench, keyed(Within(HOUR))) == EnqueueResult(second.id, created=False)


async def test_32_requests_at_once_for_an_expired_key_make_one_job(bench: Bench) -> None:
    await bench.enqueue(dedupe=keyed(Within(HOUR)))
    await bench.move_clock(HOUR)
    placed = await asyncio.gather(*(ask(bench, keyed(Within(HOUR))) for _ in range(32)))
    assert sum(each.created for each in placed) == 1
    assert len({each.id for each in placed}) == 1


async def test_a_key_for_ever_outlives_years(bench: Bench) -> None:
    first = await bench.succeeded(dedupe=keyed(Always()))
    await bench.move_clock(3600 * DAY)
    assert await ask(bench, keyed(Always())) == EnqueueResult(first, created=False)


async def test_a_window_counts_from_the_enqueue_and_not_from_when_it_is_due(bench: Bench) -> None:
    await bench.enqueue(dedupe=keyed(Within(HOUR)), delay=2 * HOUR)
    await bench.move_clock(HOUR)
    assert (await ask(bench, keyed(Within(HOUR)))).created


async def test_a_duplicate_changes_nothing_about_the_job_that_holds_the_key(bench: Bench) -> None:
    first = await bench.enqueue(dedupe=keyed(), payload={"call": 1}, priority=5)
    before = await bench.job(first)
    await ask(bench, keyed(), payload={"call": 2}, priority=1)
    assert await bench.job(first) == before


async def test_a_batch_with_a_duplicate_creates_the_rest(bench: Bench) -> None:
    held = await bench.enqueue(dedupe=keyed())
    placed = await bench.jobs.enqueue(
        [NewJob(definition="report"), NewJob(definition="report", dedupe=keyed()), NewJob(definition="email")]
    )
    assert [each.created for each in placed] == [True, False, True]
    assert placed[1].id == held


async def test_a_duplicate_brings_no_id_into_the_world(bench: Bench) -> None:
    held = await bench.enqueue(dedupe=keyed())
    brought = JobId("01890a5d-ac96-774b-bcce-b3020999aaaa")
    assert await ask(bench, keyed(), id=brought) == EnqueueResult(held, created=False)
    assert await bench.jobs.get(brought) is None


async def test_a_repeated_id_leaves_its_key_to_the_next_job(bench: Bench) -> None:
    brought = NewJob(definition="report", id=JobId("01890a5d-ac96-774b-bcce-b302099a8058"))
    await bench.jobs.enqueue([brought])
    again = NewJob(definition="report", id=brought.id, dedupe=keyed())
    first, second = await bench.jobs.enqueue([again, NewJob(definition="report", dedupe=keyed())])
    assert first == EnqueueResult(JobId("01890a5d-ac96-774b-bcce-b302099a8058"), created=False)
    assert second.created


async def test_no_key_can_be_taken_for_an_id(bench: Bench) -> None:
    brought = JobId("01890a5d-ac96-774b-bcce-b302099a8059")
    await bench.enqueue(dedupe=Dedupe(f"id:{brought}", Always()))
    assert await bench.enqueue(id=brought) == brought


# When the key is held


def asked(on_conflict: OnConflict, mode: Mode | None = None, key: str = KEY) -> Dedupe:
    return Dedupe(key, mode or WhileActive(), on_conflict)


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("on_conflict", OnConflict)
async def test_a_free_key_makes_a_job_whatever_shall_be_done_otherwise(
    bench: Bench, mode: Mode, on_conflict: OnConflict
) -> None:
    placed = await ask(bench, asked(on_conflict, mode))
    assert (placed.created, placed.replaced) == (True, False)


@pytest.mark.parametrize("mode", MODES, ids=str)
async def test_raise_names_the_job_that_holds_the_key_and_its_state(bench: Bench, mode: Mode) -> None:
    held = await bench.enqueue(dedupe=keyed(mode))
    with pytest.raises(DuplicateJob, match=rf'"{KEY}" is held by job {held} \(queued\)') as refused:
        await ask(bench, asked(OnConflict.RAISE, mode))
    assert refused.value.job == held


async def test_raise_keeps_nothing_of_the_batch(bench: Bench) -> None:
    held = await bench.enqueue(dedupe=keyed())
    with pytest.raises(DuplicateJob):
        await bench.jobs.enqueue(
            [
                NewJob(definition="email", dedupe=keyed(Always(), "another")),
                NewJob(definition="email", id=JobId("01890a5d-ac96-774b-bcce-b30209990001")),
                NewJob(definition="report", dedupe=asked(OnConflict.RAISE)),
            ]
        )
    assert [job.id for job in await all_jobs(bench.jobs)] == [held]
    assert (await ask(bench, keyed(Always(), "another"))).created


@pytest.mark.parametrize("mode", MODES, ids=str)
async def test_replace_makes_a_waiting_job_what_is_asked_for_now(bench: Bench, mode: Mode) -> None:
    held = await bench.enqueue(
        dedupe=keyed(mode), payload={"call": 1}, priority=5, correlation_id="first", created_by="ada"
    )
    placed = await ask(
        bench,
        asked(OnConflict.REPLACE, mode),
        payload={"call": 2},
        priority=1,
        max_attempts=7,
        delay=HOUR,
        correlation_id="second",
    )
    assert placed == EnqueueResult(held, created=False, replaced=True)
    job = await bench.job(held)
    assert (job.payload, job.priority, job.max_attempts, job.due) == ({"call": 2}, 1, 7, False)
    assert (job.correlation_id, job.created_by) == ("second", None)
    assert len(await all_jobs(bench.jobs)) == 1


async def test_a_replaced_job_still_holds_its_key(bench: Bench) -> None:
    held = await bench.enqueue(dedupe=keyed())
    await ask(bench, asked(OnConflict.REPLACE), payload={"call": 2})
    assert await ask(bench, keyed()) == EnqueueResult(held, created=False)


async def test_a_replaced_job_is_claimed_with_its_new_values(bench: Bench) -> None:
    held = await bench.enqueue(dedupe=keyed(), delay=HOUR, payload={"call": 1})
    await ask(bench, asked(OnConflict.REPLACE), payload={"call": 2})
    claim = await bench.claim_one()
    assert (claim.job, claim.payload.replace(" ", "")) == (held, '{"call":2}')


async def test_a_replaced_job_may_become_another_kind_of_job(bench: Bench) -> None:
    held = await bench.enqueue(dedupe=keyed())
    await bench.jobs.enqueue([NewJob(definition="email", dedupe=asked(OnConflict.REPLACE))])
    assert (await bench.job(held)).definition == "email"


async def test_a_replaced_job_has_all_its_attempts_before_it(bench: Bench) -> None:
    claim = await bench.running(dedupe=keyed())
    await bench.fail(claim)
    await ask(bench, asked(OnConflict.REPLACE), payload={"call": 2})
    again = await bench.claim_one()
    assert (again.job, again.attempt, again.tries) == (claim.job, 2, 1)
    assert (await bench.job(claim.job)).last_error is None
    assert [number for number, _ in await bench.history(claim.job)] == [1, 2]


@pytest.mark.parametrize("mode", MODES, ids=str)
async def test_a_running_job_is_not_replaced(bench: Bench, mode: Mode) -> None:
    claim = await bench.running(dedupe=keyed(mode), payload={"call": 1})
    with pytest.raises(DuplicateJob, match=r"\(running\).*Only a job that still waits can be replaced"):
        await ask(bench, asked(OnConflict.REPLACE, mode), payload={"call": 2})
    assert (await bench.job(claim.job)).payload == {"call": 1}


@pytest.mark.parametrize("mode", BEYOND_THE_JOB, ids=str)
async def test_an_ended_job_that_holds_its_key_is_not_replaced(bench: Bench, mode: Mode) -> None:
    await bench.succeeded(dedupe=keyed(mode))
    with pytest.raises(DuplicateJob, match=r"\(succeeded\)"):
        await ask(bench, asked(OnConflict.REPLACE, mode))


async def test_a_key_twice_in_one_batch_replaces_the_earlier_one(bench: Bench) -> None:
    first, second = await bench.jobs.enqueue(
        [NewJob(definition="report", dedupe=asked(OnConflict.REPLACE), payload={"call": call}) for call in (1, 2)]
    )
    assert second == EnqueueResult(first.id, created=False, replaced=True)
    assert [job.payload for job in await all_jobs(bench.jobs)] == [{"call": 2}]


async def test_one_of_32_callers_that_raise_makes_the_job(bench: Bench) -> None:
    answers = await asyncio.gather(*(ask(bench, asked(OnConflict.RAISE)) for _ in range(32)), return_exceptions=True)
    made = [answer for answer in answers if isinstance(answer, EnqueueResult)]
    refused = [answer for answer in answers if isinstance(answer, DuplicateJob)]
    assert (len(made), len(refused)) == (1, 31)
    assert {error.job for error in refused} == {made[0].id}


async def test_32_that_replace_at_once_leave_one_job(bench: Bench) -> None:
    placed = await asyncio.gather(
        *(ask(bench, asked(OnConflict.REPLACE), payload={"call": call}) for call in range(32))
    )
    assert sum(each.created for each in placed) == 1
    assert sum(each.replaced for each in placed) == 31
    assert len(await all_jobs(bench.jobs)) == 1


async def test_many_keys_of_many_callers_make_one_job_each(bench: Bench) -> None:
    await assert_each_key_makes_one_job(bench, keys=20, callers=8)


async def assert_each_key_makes_one_job(bench: Bench, keys: int, callers: int) -> None:
    """Callers ask at once for each key, in all modes by turns."""

    async def one_key(number: int) -> JobId:
        asking = (ask(bench, keyed(MODES[number % 4], f"key-{number}")) for _ in range(callers))
        placed = await asyncio.gather(*asking)
        assert sum(each.created for each in placed) == 1
        (holder,) = {each.id for each in placed}
        return holder

    holders = [await one_key(number) for number in range(keys)]
    assert {job.id for job in await all_jobs(bench.jobs)} == set(holders)
    assert len(set(holders)) == keys
