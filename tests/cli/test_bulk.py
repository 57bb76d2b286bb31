"""`leasehold retry` and `cancel` by filter, and `leasehold operations`."""

from tests.cli.terminal import CommandLine
from tests.store.bench import UNKNOWN_ID, Bench
from tests.tenant_kit import HOUR, OTHER

from leasehold.model.status import Status


async def test_retry_by_filter_queues_all_that_match(leasehold: CommandLine, bench: Bench) -> None:
    dead, failed = await bench.dead_lettered(), await bench.failed(definition="email")
    done = await leasehold("retry", "--definition", "report", "--tenant", "acme")
    assert done.code == 0
    assert "done: 1 of 1 done" in done.out
    assert await bench.status(dead) is Status.QUEUED
    assert await bench.status(failed) is Status.FAILED


async def test_a_plan_counts_and_changes_nothing(leasehold: CommandLine, bench: Bench) -> None:
    jobs = [await bench.dead_lettered() for _ in range(2)]
    done = await leasehold("retry", "--all", "--tenant", "acme", "--plan", "--json")
    assert (done.document["matching"], done.document["is_cap"]) == (2, False)
    assert sorted(done.document["sample"]) == sorted(jobs)
    assert (await leasehold("retry", "--all", "-t", "acme", "--plan")).out.startswith("2 jobs of acme")
    assert await bench.status(jobs[0]) is Status.DEAD_LETTER
    assert (await leasehold("operations", "list", "--json")).document == []


async def test_cancel_by_filter_takes_states_in_any_spelling(leasehold: CommandLine, bench: Bench) -> None:
    job = await bench.enqueue(delay=HOUR)
    done = await leasehold("cancel", "-s", "Queued", "-t", "acme", "--json")
    assert (done.document["state"], done.document["done"]) == ("done", 1)
    assert await bench.status(job) is Status.CANCELED


async def test_a_detached_operation_is_shown_run_and_listed(leasehold: CommandLine, bench: Bench) -> None:
    await bench.dead_lettered()
    begun = await leasehold("retry", "--all", "-t", "acme", "--pace", "50/s", "--detach", "--json")
    operation = begun.document["id"]
    assert (begun.document["state"], begun.document["pace"]) == ("planned", 50)
    shown = (await leasehold("operations", "show", operation)).out
    assert "planned: 0 of 1 done, waits for a worker to begin it" in shown
    assert (await leasehold("operations", "run", operation, "--json")).document["state"] == "done"
    assert [each["id"] for each in (await leasehold("operations", "list", "--json")).document] == [operation]
    assert (await leasehold("operations", "list", "-t", OTHER, "--json")).document == []


async def test_an_operation_is_aborted_once(leasehold: CommandLine, bench: Bench) -> None:
    job = await bench.dead_lettered()
    begun = await leasehold("retry", "--all", "-t", "acme", "--detach", "--json")
    operation = begun.document["id"]
    assert (await leasehold("operations", "abort", operation, "--json")).document["state"] == "aborted"
    again = await leasehold("operations", "abort", operation)
    assert (again.code, "LH-1009" in again.err) == (4, True)
    assert await bench.status(job) is Status.DEAD_LETTER


async def test_a_failed_canary_is_an_exit_code(leasehold: CommandLine, bench: Bench) -> None:
    first = await bench.dead_lettered()
    second = await bench.dead_lettered()
    begun = await leasehold("retry", "--all", "-t", "acme", "--canary", "--detach", "--json")
    operation = begun.document["id"]
    await bench.store.operations.step(operation)
    await bench.jobs.cancel([first, second])
    done = await leasehold("operations", "run", operation)
    assert done.code == 1
    assert "✕" in done.out
    assert "canary" in done.out


async def test_wrong_choices_are_refused(leasehold: CommandLine, bench: Bench) -> None:
    for words, code, told in (
        (["retry"], 2, "LH-1000"),
        (["retry", UNKNOWN_ID, "--all"], 2, "not both"),
        (["retry", "--all"], 2, "LH-1004"),
        (["retry", "--pace", "5/s", "-t", "acme"], 2, "which jobs"),
        (["retry", "-s", "running", "-t", "acme"], 2, "can't change jobs"),
        (["cancel", "--all", "-t", "acme", "--pace", "fast"], 2, "not a pace"),
        (["operations", "show", "soon"], 2, "LH-1000"),
        (["operations", "show", UNKNOWN_ID], 3, "LH-1016"),
    ):
        done = await leasehold(*words)
        assert (done.code, told in done.err) == (code, True), (words, done.err)
