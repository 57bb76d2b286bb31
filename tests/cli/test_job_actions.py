"""`leasehold retry`, `cancel` and `run-now`."""

from collections.abc import Mapping, Sequence

import pytest
from tests.cli.terminal import NOWHERE, CommandLine
from tests.store.bench import UNKNOWN_ID, Bench, keyed
from tests.tenant_kit import HOUR, OTHER

from leasehold.engines.postgres.tenant import PostgresTenantJobs
from leasehold.errors import Unreachable
from leasehold.model.job import JobId, NewJob
from leasehold.model.status import DisplayState, Status
from leasehold.store import CancelAnswer

VERBS = ("retry", "cancel", "run-now")


async def test_retry_queues_an_ended_job_again(leasehold: CommandLine, bench: Bench) -> None:
    job = await bench.dead_lettered()
    done = await leasehold("retry", job)
    assert (done.code, done.out) == (0, f"✓ {job}  queued again\n")
    assert await bench.status(job) is Status.QUEUED


async def test_cancel_ends_what_waits_and_asks_what_runs_to_stop(leasehold: CommandLine, bench: Bench) -> None:
    running = (await bench.running()).job
    waiting = await bench.enqueue()
    done = await leasehold("cancel", waiting, running)
    assert (done.code, done.out) == (0, f"✓ {waiting}  canceled\n✓ {running}  asked to stop\n")
    assert await bench.status(waiting) is Status.CANCELED
    assert (await bench.job(running)).cancel_requested_at is not None


async def test_run_now_makes_a_waiting_job_due(leasehold: CommandLine, bench: Bench) -> None:
    job = await bench.enqueue(delay=HOUR)
    done = await leasehold("run-now", job)
    assert (done.code, done.out) == (0, f"✓ {job}  due now\n")
    assert (await bench.job(job)).display is DisplayState.READY


async def test_a_short_id_and_a_tenant_from_the_environment_are_enough(leasehold: CommandLine, bench: Bench) -> None:
    job = await bench.enqueue()
    assert (await leasehold("cancel", job[-8:], LEASEHOLD_TENANT="acme")).code == 0
    assert await bench.status(job) is Status.CANCELED


async def test_each_job_gets_its_answer_and_the_worst_is_the_exit_code(leasehold: CommandLine, bench: Bench) -> None:
    ended, waiting, last = await bench.succeeded(), await bench.enqueue(), await bench.enqueue()
    done = await leasehold("cancel", waiting, UNKNOWN_ID, ended, "xyz", last)
    assert done.code == 4
    assert done.out == f"✓ {waiting}  canceled\n✓ {last}  canceled\n"
    assert [line[:11] for line in done.err.splitlines()] == ["✕ LH-1008: ", "✕ LH-1009: ", "✕ LH-1000: "]


async def test_as_json_the_answers_are_a_list(leasehold: CommandLine, bench: Bench) -> None:
    running, waiting = (await bench.running()).job, await bench.enqueue()
    done = await leasehold("cancel", running, waiting[-8:], "0000", "--json")
    assert done.code == 3
    requested, canceled, unknown = done.document
    assert requested == {"id": running, "tenant": "acme", "answer": "requested"}
    assert canceled == {"id": waiting, "tenant": "acme", "answer": "canceled"}
    assert (unknown["id"], unknown["error"]["code"]) == ("0000", "LH-1008")
    assert (await leasehold("retry", waiting, "--json")).document[0]["answer"] == "queued"
    assert (await leasehold("run-now", waiting, "--json")).document[0]["answer"] == "due"


@pytest.mark.parametrize("verb", VERBS)
async def test_a_job_that_is_not_there_exits_with_3(leasehold: CommandLine, bench: Bench, verb: str) -> None:
    refused = await leasehold(verb, UNKNOWN_ID)
    assert (refused.code, refused.out) == (3, "")
    assert "LH-1008" in refused.err
    assert (await leasehold(verb, UNKNOWN_ID, "--tenant", "acme")).code == 3


@pytest.mark.parametrize(
    ("verb", "state"),
    [
        ("retry", "running"),
        ("retry", "ready"),
        ("retry", "scheduled"),
        ("cancel", "succeeded"),
        ("cancel", "dead letter"),
        ("cancel", "canceled"),
        ("run-now", "running"),
        ("run-now", "failed"),
    ],
)
async def test_a_wrong_state_exits_with_4_and_changes_nothing(
    leasehold: CommandLine, bench: Bench, verb: str, state: str
) -> None:
    match state:
        case "running":
            job = (await bench.running()).job
        case "ready":
            job = await bench.enqueue()
        case "scheduled":
            job = await bench.enqueue(delay=HOUR)
        case _:
            job = await bench.ended(Status[state.replace(" ", "_").upper()])
    before = await bench.job(job)
    refused = await leasehold(verb, job)
    assert (refused.code, refused.out) == (4, "")
    assert f"it is {state}. Nothing was changed." in refused.err
    assert await bench.job(job) == before


async def test_retrying_what_another_job_holds_the_key_of_exits_with_4(leasehold: CommandLine, bench: Bench) -> None:
    job = await bench.succeeded(dedupe=keyed())
    await bench.enqueue(dedupe=keyed())
    refused = await leasehold("retry", job, "--json")
    assert refused.code == 4
    assert refused.document[0]["error"]["code"] == "LH-1010"
    assert await bench.status(job) is Status.SUCCEEDED


async def test_a_tenant_can_not_reach_another_ones_job(leasehold: CommandLine, bench: Bench) -> None:
    (others,) = await bench.store.tenant(OTHER).enqueue([NewJob(definition="report")])
    for verb in VERBS:
        assert (await leasehold(verb, others.id, "--tenant", "acme")).code == 3
        assert (await leasehold(verb, others.id[-8:], "--tenant", "acme")).code == 3
    found = await bench.store.tenant(OTHER).get(others.id)
    assert found is not None
    assert found.status is Status.QUEUED


async def test_a_database_that_is_away_exits_with_7(leasehold: CommandLine) -> None:
    for verb in VERBS:
        assert (await leasehold(verb, UNKNOWN_ID, "--url", NOWHERE)).code == 7


async def test_a_database_that_goes_away_ends_it_with_its_answers(
    leasehold: CommandLine, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *others = [await bench.enqueue() for _ in range(3)]
    cancel, calls = PostgresTenantJobs.cancel, 0

    async def away_the_second_time(jobs: PostgresTenantJobs, ids: Sequence[JobId]) -> Mapping[JobId, CancelAnswer]:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise Unreachable("the database can't be reached.", fix="Check it.")
        return await cancel(jobs, ids)

    monkeypatch.setattr(PostgresTenantJobs, "cancel", away_the_second_time)
    done = await leasehold("cancel", first, *others, "--json")
    assert done.code == 7
    assert [(each["id"], "error" in each) for each in done.document] == [(first, False), (others[0], True)]
