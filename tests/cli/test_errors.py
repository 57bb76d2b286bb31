"""`leasehold errors`: failed and dead jobs by their error."""

from tests.cli.terminal import CommandLine
from tests.store.bench import Bench
from tests.store.test_error_groups import failed_with

from leasehold.model.error_group import error_group
from leasehold.model.status import Status

GROUP = error_group("report", "Unlucky", "no file 1")


async def test_errors_are_listed_by_group(leasehold: CommandLine, bench: Bench) -> None:
    for number in range(2):
        await failed_with(bench, f"no file {number}")
    listed = await leasehold("errors", "--tenant", "acme")
    assert listed.code == 0
    (line,) = [line for line in listed.out.splitlines() if GROUP in line]
    assert "Unlucky: no file 1" in line
    (document,) = (await leasehold("errors", "-t", "acme", "--json")).document["groups"]
    assert (document["id"], document["jobs"], document["tenant_id"]) == (GROUP, 2, "acme")
    assert GROUP in (await leasehold("errors")).out


async def test_a_group_shows_the_values_of_its_payloads(leasehold: CommandLine, bench: Bench) -> None:
    for number in range(2):
        claim = await bench.running(payload={"provider": "p_9", "n": number, "password": "s3cret"})
        await bench.fail(claim, f"no file {number}", final=True)
    shown = await leasehold("errors", GROUP, "-t", "acme")
    assert 'provider: "p_9" × 2' in shown.out
    assert "n: 0 × 1, 1 × 1" in shown.out
    assert "s3cret" not in shown.out
    assert f"leasehold retry --error {GROUP}" in shown.err


async def test_the_jobs_of_a_group_are_listed_and_retried(leasehold: CommandLine, bench: Bench) -> None:
    job, other = await failed_with(bench, "no file 1"), await failed_with(bench, "no folder")
    listed = await leasehold("jobs", "-t", "acme", "--error", GROUP, "--json")
    assert [each["id"] for each in listed.document] == [job]
    done = await leasehold("retry", "--error", GROUP, "-t", "acme", "--reason", "it is back", "--json")
    assert (done.document["done"], done.document["reason"]) == (1, "it is back")
    assert done.document["filter"] == {"statuses": ["dead_letter", "failed"], "error_group": GROUP}
    assert [await bench.status(each) for each in (job, other)] == [Status.QUEUED, Status.FAILED]


async def test_an_unknown_group_is_refused(leasehold: CommandLine) -> None:
    unknown = await leasehold("errors", "0" * 16, "-t", "acme")
    wrong = await leasehold("errors", "timeout", "-t", "acme")
    assert (unknown.code, "no failed or dead job" in unknown.err) == (3, True)
    assert (wrong.code, "16 hexadecimal digits" in wrong.err) == (2, True)
