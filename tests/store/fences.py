"""Every write of an attempt, tried with a claim that does not hold."""

from dataclasses import replace

from tests.store.bench import Bench
from tests.tenant_kit import DAY, HOUR

from leasehold.model.job import Attempt, Claim, JobRecord, LogLine
from leasehold.model.outcome import Canceled, Outcome, Raised, Released, Snoozed, Succeeded
from leasehold.store import FinishAnswer, Registration, Store, Subscription

EVERY_OUTCOME: list[Outcome] = [
    Succeeded('"stale"'),
    Raised("Stale", "stale"),
    Raised("Stale", "stale", final=True),
    Snoozed(HOUR),
    Released(),
    Canceled(),
]


async def assert_it_can_write_nothing(bench: Bench, stale: Claim) -> None:
    """Each write comes back as refused and leaves the job, its attempts and its lines as they are."""
    before = await standing(bench, stale)
    for outcome in EVERY_OUTCOME:
        assert await bench.finish_all([(stale, outcome)]) == {stale}, outcome
        assert await standing(bench, stale) == before, outcome
    if bench.store.abilities.fenced_logs:
        assert await bench.store.append_log([(stale, LogLine(99, "a ghost speaks"))]) == {stale}
        assert await standing(bench, stale) == before
    if bench.store.abilities.caller_transaction:
        assert await finish_within(bench.store, stale) is FinishAnswer.FENCED
        assert await standing(bench, stale) == before
    registration = Registration(stale.worker, Subscription(("report", "email"), (bench.tenant,)))
    assert (await bench.store.renew(registration, [stale], 365 * DAY)).lost == {stale}


async def finish_within(store: Store, claim: Claim) -> FinishAnswer:
    """The answer to a finish in the transaction of the claim's handler, which commits if it may."""
    transaction = store.transaction(claim, None)
    await transaction.begin()
    answer: FinishAnswer = await transaction.finish('"within"')
    await (transaction.commit() if answer is FinishAnswer.FINISHED else transaction.rollback())
    return answer


async def standing(bench: Bench, claim: Claim) -> tuple[JobRecord | None, list[Attempt], list[str]]:
    attempts = list(await bench.jobs.attempts(claim.job))
    lines = [text for attempt in attempts for text in await bench.texts(replace(claim, attempt=attempt.number))]
    return await bench.jobs.get(claim.job), attempts, lines
