"""`leasehold logs`."""

import asyncio
from collections.abc import AsyncGenerator
from datetime import timedelta

import pytest
from tests.cli.terminal import CommandLine
from tests.store.bench import UNKNOWN_ID, Bench
from tests.tenant_kit import HOUR

from leasehold.engines.postgres import tenant
from leasehold.model.job import Claim, LineKind, LogLine
from leasehold.model.outcome import Snoozed
from leasehold.operations import jobs
from leasehold.operations.jobs import NumberedLine, follow_lines


async def say(bench: Bench, claim: Claim, *texts: str, after: int = 0) -> None:
    await bench.store.append_log(
        [(claim, LogLine(number=after + n, text=text)) for n, text in enumerate(texts, start=1)]
    )


def without_times(text: str) -> list[str]:
    return [line.partition(" ")[2] for line in text.splitlines()]


async def tried_twice(bench: Bench) -> Claim:
    first = await bench.running()
    await say(bench, first, "one", "two")
    await bench.fail(first)
    await bench.move_clock(HOUR)
    second = await bench.claim_one()
    await say(bench, second, "three")
    return second


async def test_lines_go_to_stdout_and_the_try_they_belong_to_to_stderr(leasehold: CommandLine, bench: Bench) -> None:
    claim = await tried_twice(bench)
    printed = await leasehold("logs", claim.job)
    assert without_times(printed.out) == ["one", "two", "three"]
    assert printed.err.splitlines() == ["try 1", "try 2"]


async def test_of_one_attempt_its_lines(leasehold: CommandLine, bench: Bench) -> None:
    claim = await tried_twice(bench)
    assert without_times((await leasehold("logs", claim.job, "--try", "1")).out) == ["one", "two"]


async def test_lines_after_a_snooze_are_of_the_same_try(leasehold: CommandLine, bench: Bench) -> None:
    first = await bench.running()
    await say(bench, first, "one")
    await bench.finish(first, Snoozed(timedelta()))
    second = await bench.claim_one()
    await say(bench, second, "two")

    printed = await leasehold("logs", second.job)
    assert printed.err.splitlines() == ["try 1", "try 1"]
    assert without_times((await leasehold("logs", second.job, "--try", "1")).out) == ["one", "two"]


async def test_as_json_they_are_a_list(leasehold: CommandLine, bench: Bench) -> None:
    claim = await tried_twice(bench)
    lines = (await leasehold("logs", claim.job, "--json")).document
    assert [(line["attempt"], line["number"], line["text"]) for line in lines] == [
        (1, 1, "one"),
        (1, 2, "two"),
        (2, 1, "three"),
    ]


async def test_progress_is_a_percentage(leasehold: CommandLine, bench: Bench) -> None:
    claim = await bench.running()
    await bench.store.append_log([(claim, LogLine(number=1, text="page 3", kind=LineKind.PROGRESS, progress=0.25))])
    assert without_times((await leasehold("logs", claim.job)).out) == ["25% page 3"]


async def test_an_attempt_that_there_was_not_exits_with_2(leasehold: CommandLine, bench: Bench) -> None:
    job = await bench.succeeded()
    refused = await leasehold("logs", job, "--try", "2", "--json")
    assert refused.code == 2
    assert refused.error["message"] == f"job {job} has no try 2: it is succeeded, after 1 of them."
    assert (await leasehold("logs", job, "--try", "2", "-f")).code == 2


async def test_a_job_that_is_not_there_exits_with_3(leasehold: CommandLine, bench: Bench) -> None:
    assert (await leasehold("logs", UNKNOWN_ID)).code == 3
    assert (await leasehold("logs", UNKNOWN_ID, "-f", "--tenant", "acme")).code == 3


async def test_a_job_that_said_nothing_has_no_lines(leasehold: CommandLine, bench: Bench) -> None:
    job = await bench.enqueue()
    silent = await leasehold("logs", job)
    assert (silent.code, silent.out) == (0, "")


async def test_more_lines_than_the_store_gives_at_once_are_all_printed(
    leasehold: CommandLine, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tenant, "LINES_AT_ONCE", 2)
    claim = await bench.running()
    await say(bench, claim, *"abcde")
    assert without_times((await leasehold("logs", claim.job)).out) == list("abcde")


async def test_following_goes_on_over_attempts_until_the_job_is_final(bench: Bench) -> None:
    """Each step is taken when the line before has come through, so none can have been read at the end only."""
    first = await bench.running()
    await say(bench, first, "one")
    heard = follow_lines(bench.jobs, first.job)
    assert await _next(heard) == (1, "one")
    await say(bench, first, "two", after=1)
    assert await _next(heard) == (1, "two")
    await bench.fail(first)
    await bench.move_clock(HOUR)
    second = await bench.claim_one()
    await say(bench, second, "three")
    assert await _next(heard) == (2, "three")
    await say(bench, second, "four", after=1)
    await bench.succeed(second)
    assert [(attempt, line.text) async for attempt, _, line in heard] == [(2, "four")]


async def test_following_ends_at_once_with_the_job(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "BETWEEN_READS", HOUR)
    claim = await bench.running()
    await say(bench, claim, "one")
    heard = follow_lines(bench.jobs, claim.job)
    assert await _next(heard) == (1, "one")
    rest = asyncio.create_task(_all(heard))
    await say(bench, claim, "two", after=1)
    await bench.succeed(claim)
    assert await rest == [(1, "two")]


async def test_following_one_attempt_ends_with_it(bench: Bench) -> None:
    claim = await bench.running()
    await say(bench, claim, "one")
    heard = follow_lines(bench.jobs, claim.job, only=1)
    assert await _next(heard) == (1, "one")
    await bench.fail(claim)
    assert await _all(heard) == []
    assert (await bench.job(claim.job)).status == "queued"


async def test_following_as_json_is_an_object_a_line(leasehold: CommandLine, bench: Bench) -> None:
    claim = await tried_twice(bench)
    await bench.succeed(claim)
    printed = await leasehold("logs", claim.job, "-f", "--json")
    assert [(line["attempt"], line["text"]) for line in printed.documents] == [(1, "one"), (1, "two"), (2, "three")]


async def _next(heard: AsyncGenerator[NumberedLine, None]) -> tuple[int, str]:
    attempt, _, line = await anext(heard)
    return attempt, line.text


async def _all(heard: AsyncGenerator[NumberedLine, None]) -> list[tuple[int, str]]:
    return [(attempt, line.text) async for attempt, _, line in heard]
