"""Reading goes on with any value in the tables: people write there by hand, newer releases in their own way."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest
from asyncpg import CheckViolationError
from tests.cli.terminal import CommandLine
from tests.conftest import Raw
from tests.store.bench import EMAIL, REPORT, Bench
from tests.tenant_kit import DAY, OTHER

from leasehold.errors import ValueRefused
from leasehold.model.backoff import DEFAULT
from leasehold.model.bounds import LATEST, LONGEST
from leasehold.model.definition import Definition
from leasehold.model.job import JobRecord, LogLine, NewJob, TenantId
from leasehold.model.outcome import Raised, Succeeded, decide
from leasehold.model.status import Status
from leasehold.store import Filter

OUTPUTS: Sequence[Sequence[str]] = ((), ("--json",))
ANYTHING = """
    do $$
    declare
        one record;
    begin
        for one in
            select conrelid::regclass as on_table, conname from pg_constraint
            where connamespace = 'leasehold'::regnamespace and contype = 'c'
        loop
            execute format('alter table %s drop constraint %I', one.on_table, one.conname);
        end loop;
    end $$
"""


async def stored(bench: Bench, observer: Raw, change: str, tenant: TenantId = OTHER) -> JobRecord:
    """A job of another tenant, whose row is then changed by hand."""
    (placed,) = await bench.store.tenant(tenant).enqueue([NewJob(definition="report", delay=DAY)])
    await observer.execute(ANYTHING)
    await observer.execute(f"update leasehold.jobs set {change} where id = $1", placed.id)  # noqa: S608
    found = await bench.store.tenant(tenant).get(placed.id)
    assert found is not None
    return found


@pytest.mark.parametrize("moment", ["infinity", "-infinity", "294276-01-01", "4000-01-01 BC", "9999-12-31"])
@pytest.mark.parametrize("column", ["scheduled_for", "deadline", "queued_at"])
async def test_a_job_with_any_moment_is_shown(bench: Bench, observer: Raw, column: str, moment: str) -> None:
    job = await stored(bench, observer, f"{column} = '{moment}'")
    assert job.unreadable == (f"{column} is stored as a moment beyond the years 1900 to 9998, the nearest is shown",)
    shown = LATEST if "-" not in moment[:1] and "BC" not in moment else datetime(1899, 12, 31, 23, 59, 59, tzinfo=UTC)
    assert getattr(job, column) == shown
    listed = [
        *(await bench.store.tenant(OTHER).find(Filter(), None, 10)).jobs,
        *(await bench.store.find_all_tenants(Filter(), None, 10)).jobs,
    ]
    assert {record.id for record in listed} == {job.id}


@pytest.mark.parametrize("moment", ["infinity", "294276-01-01"])
async def test_one_endless_delay_stops_no_claim(bench: Bench, observer: Raw, moment: str) -> None:
    await stored(bench, observer, f"scheduled_for = '{moment}'")
    registration = await bench.join(tenants=None)
    renewal = await bench.store.renew(registration, (), DAY)
    claimed = await bench.store.claim(registration, 10)
    assert claimed.claims == []
    assert renewal.next_due is not None
    assert claimed.next_due is not None
    assert renewal.next_due > claimed.next_due > timedelta(days=365 * 5000)
    assert not (await bench.store.prepare_to_sleep(registration)).claims


async def test_a_job_without_further_attempt_numbers_stops_no_claim(bench: Bench, observer: Raw) -> None:
    """A claim adds 1 to the attempt of each job, by one statement for all tenants: an overflow would fail all."""
    ended, waiting = await bench.succeeded(), await bench.enqueue(delay=DAY)
    await observer.execute("update leasehold.jobs_done set attempt = 2147483647 where id = $1", ended)
    with pytest.raises(ValueRefused):
        await bench.jobs.retry({ended: 2147483647})
    with pytest.raises(asyncpg.CheckViolationError):
        await observer.execute("update leasehold.jobs set attempt = 2147483647 where id = $1", waiting)
    assert (await bench.job(ended)).attempt == 2147483647
    other = await bench.enqueue()
    assert [claim.job for claim in await bench.claim(10)] == [other]


async def test_a_job_at_the_greatest_attempt_number_fails_alone(bench: Bench, observer: Raw) -> None:
    jobs = [await bench.enqueue(), await bench.enqueue()]
    await observer.execute("update leasehold.jobs set attempt = 2147483646, max_attempts = 5 where id = $1", jobs[0])
    claims = {claim.job: claim for claim in await bench.claim(10)}
    assert claims[jobs[0]].attempt == 2147483647
    raised = Raised("error", "no", final=False)
    assert not await bench.store.finish([(claims[job], decide(raised, claims[job], 0.5)) for job in jobs])
    assert [(await bench.job(job)).status for job in jobs] == [Status.DEAD_LETTER, Status.QUEUED]


async def test_one_endless_pause_stops_no_other_tenant(bench: Bench, observer: Raw) -> None:
    await observer.execute(ANYTHING)
    await observer.execute(
        "insert into leasehold.limits (kind, key, paused_at, paused_until, pause_reason)"
        " values ('tenant', 'other', now(), 'infinity', 'for ever')"
    )
    await bench.store.tenant(OTHER).enqueue([NewJob(definition="report")])
    job = await bench.enqueue()
    registration = await bench.join(tenants=None)
    assert [claim.job for claim in (await bench.store.claim(registration, 10)).claims] == [job]
    assert not (await bench.store.prepare_to_sleep(registration)).claims


@pytest.mark.parametrize(
    "change", ["scheduled_for = 'infinity'", "scheduled_for = '-infinity'"], ids=["never", "always"]
)
async def test_a_table_takes_no_endless_delay(bench: Bench, observer: Raw, change: str) -> None:
    job = await bench.enqueue()
    with pytest.raises(Exception, match="scheduled_for_check"):
        await observer.execute(f"update leasehold.jobs set {change} where id = $1", job)  # noqa: S608


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1e131071"])
async def test_a_payload_that_python_cannot_read_is_shown_as_text(bench: Bench, observer: Raw, number: str) -> None:
    job = await stored(bench, observer, f"payload = '{{\"n\": {number}}}'")
    assert isinstance(job.payload, str)
    assert job.payload.startswith('{"n": ')
    assert "payload is shown as text" in job.unreadable[0]


@pytest.mark.parametrize("words", OUTPUTS, ids=["text", "json"])
@pytest.mark.parametrize("command", ["job", "jobs"])
async def test_a_command_shows_a_row_that_is_hard_to_read(
    bench: Bench, observer: Raw, leasehold: CommandLine, command: str, words: Sequence[str]
) -> None:
    change = "payload = '{\"n\": 1e400}', scheduled_for = 'infinity', deadline = '-infinity'"
    job = await stored(bench, observer, change)
    answer = await leasehold(command, *([job.id] if command == "job" else []), *words)
    assert answer.code == 0
    assert job.id in answer.out
    if command == "job":
        assert "payload is shown as text" in answer.out
        assert "scheduled_for is stored as a moment beyond" in answer.out


@pytest.mark.parametrize("words", OUTPUTS, ids=["text", "json"])
@pytest.mark.parametrize("kind", ["tenant", "definition"])
@pytest.mark.parametrize("key", ["k" * 200, ""], ids=["long", "empty"])
async def test_the_limits_of_a_key_that_nothing_can_have_are_shown(
    bench: Bench, observer: Raw, leasehold: CommandLine, kind: str, key: str, words: Sequence[str]
) -> None:
    await observer.execute(ANYTHING)
    for each in (key, "known"):
        await observer.execute("insert into leasehold.limits (kind, key, max_running) values ($1, $2, 3)", kind, each)
    answer = await leasehold("limits", *words)
    assert answer.code == 0
    assert "known" in answer.out
    assert {(record.scope.kind, record.scope.key) for record in await bench.store.scopes()} == {
        (kind, key),
        (kind, "known"),
    }


@pytest.mark.parametrize("words", OUTPUTS, ids=["text", "json"])
@pytest.mark.parametrize(
    ("column", "name"),
    [
        ("tenant_id", "k" * 200),
        ("tenant_id", " k "),
        ("definition", "k" * 200),
        ("definition", " k "),
        ("definition", ""),
    ],
    ids=["long-tenant", "spaced-tenant", "long-definition", "spaced-definition", "empty-definition"],
)
async def test_a_job_of_a_name_that_nothing_can_have_is_shown(
    bench: Bench, observer: Raw, leasehold: CommandLine, column: str, name: str, words: Sequence[str]
) -> None:
    job, calm = await bench.enqueue(), await bench.enqueue()
    await observer.execute(ANYTHING)
    await observer.execute(f"update leasehold.jobs set {column} = $2 where id = $1", job, name)  # noqa: S608
    if column == "tenant_id":
        await observer.execute("insert into leasehold.tenants (id, created_at) values ($1, now())", name)
    answer = await leasehold("jobs", *words)
    assert (answer.code, job in answer.out, calm in answer.out) == (0, True, True)
    cursor, walked = None, list[str]()
    while cursor is not None or not walked:
        page = await bench.store.find_all_tenants(Filter(), cursor, 1)
        cursor, walked = page.next, [*walked, *(record.id for record in page.jobs)]
    assert {job, calm} <= set(walked)
    assert (await leasehold("job", job, *words)).code == 0


UNKNOWN_WORDS = [
    ("jobs", "status"),
    ("jobs", "source"),
    ("jobs_done", "status"),
    ("job_attempts", "status"),
    ("job_lines", "kind"),
    ("limits", "kind"),
]


@pytest.mark.parametrize(("table", "column"), UNKNOWN_WORDS)
async def test_a_table_takes_no_unknown_word(bench: Bench, observer: Raw, table: str, column: str) -> None:
    await bench.failed()
    claim = await bench.running()
    await bench.store.append_log([(claim, LogLine(1, "said"))])
    await observer.execute("insert into leasehold.limits (kind, key, max_running) values ('tenant', 'acme', 3)")
    with pytest.raises(CheckViolationError):
        await observer.execute(f"update leasehold.{table} set {column} = 'oracle'")  # noqa: S608


async def test_an_ended_job_with_an_unreadable_result_is_shown(bench: Bench, observer: Raw) -> None:
    job = await bench.succeeded()
    await observer.execute(
        "update leasehold.jobs_done set result = '1e400', finished_at = 'infinity', source = 'oracle' where id = $1",
        job,
    )
    record = await bench.job(job)
    assert (record.finished_at, record.source) == (LATEST, "system")
    assert len(record.unreadable) == 3
    assert (await bench.jobs.attempts(job))[0].finished_at == LATEST


async def test_details_and_facts_that_are_no_objects_are_shown(bench: Bench, observer: Raw) -> None:
    await bench.worker()
    await observer.execute("update leasehold.workers set metadata = '[1e400]', lease_expires_at = 'infinity'")
    (worker,) = await bench.store.workers()
    assert "unreadable" in worker.facts.metadata
    assert worker.lease_expires_at == LATEST
    job = await bench.failed()
    await observer.execute("update leasehold.job_attempts set details = '7' where job_id = $1", job)
    assert (await bench.last_attempt(job)).details == {"unreadable": "7"}


# ------------------------------------------------------------------------------------------------------- definitions

FOREIGN = [
    ("backoff", """'{"kind": "fibonacci", "seed": 3}'"""),
    ("backoff", """'{"base": 1e400}'"""),
    ("backoff", "'[]'"),
    ("retention", """'{"succeeded": "86399999999999.98 parsecs"}'"""),
    ("retention", """'{"succeeded": 7, "archived": "1 seconds"}'"""),
    ("schema", "'[1]'"),
    ("schema", """'{"maximum": 1e400}'"""),
    ("timeout", "interval '-3 days'"),
    ("timeout", "interval '-3000000 years'"),
    ("timeout", "interval '-infinity'"),
]
FIRST_WITH_ENDLESS_INTERVALS = 17


@pytest.mark.parametrize(("column", "value"), FOREIGN)
async def test_a_definition_of_another_release_stops_no_sync(
    bench: Bench, observer: Raw, leasehold: CommandLine, column: str, value: str
) -> None:
    if "infinity" in value and observer.get_server_version().major < FIRST_WITH_ENDLESS_INTERVALS:
        pytest.skip("this Postgres has no endless intervals")
    await observer.execute(f"update leasehold.definition_versions set {column} = {value} where key = 'report'")  # noqa: S608
    await bench.store.sync_definitions([EMAIL, Definition("new")])
    (foreign,) = [each for each in await bench.store.definitions() if each.definition.key == "report"]
    assert foreign.unreadable[0].startswith(f"{column} ")
    for words in OUTPUTS:
        answer = await leasehold("definitions", *words)
        assert answer.code == 0
        assert "report" in answer.out
        assert "can't be read" in (await leasehold("definitions", "show", "report", *words)).out
    (change,) = await bench.store.sync_definitions([REPORT])
    assert change.version == 2, "what can't be read is never taken for the same"


async def test_an_overlong_stored_retention_counts_as_the_longest(bench: Bench, observer: Raw) -> None:
    """Release 0.1.0 stored `Retention(timedelta.max)`, and then no app could sync any definition."""
    await observer.execute(
        """update leasehold.definition_versions
           set retention = '{"succeeded": "86399999999999.98 seconds", "canceled": "86399999999999.98 seconds"}'
           where key = 'report'"""
    )
    (foreign,) = [each for each in await bench.store.definitions() if each.definition.key == "report"]
    assert foreign.definition.retention.succeeded == timedelta(days=36500)
    claim = await bench.running()
    await bench.succeed(claim)
    waiting = await bench.enqueue()
    await bench.jobs.cancel([waiting])
    assert await bench.status(waiting) is Status.CANCELED
    kept = await observer.fetch("select extract(year from prune_after - finished_at) from leasehold.jobs_done")
    assert len(kept) == 2


@pytest.mark.parametrize("timeout", ["3000000 years", "-3000000 years", "10 years 50 days", "-10 years -50 days"])
async def test_a_timeout_beyond_the_bounds_stops_no_claim(bench: Bench, observer: Raw, timeout: str) -> None:
    """Postgres compares a year as 360 days, Python gets it as 365."""
    await observer.execute(
        f"update leasehold.definition_versions set timeout = interval '{timeout}' where key = 'report'"  # noqa: S608
    )
    jobs = {await bench.enqueue("email"), await bench.enqueue()}
    claims = await bench.claim()
    assert {claim.job for claim in claims} == jobs
    assert [claim.definition.timeout for claim in claims if claim.definition.key == "report"] == [LONGEST]
    await bench.store.sync_definitions([REPORT])


async def test_a_claim_whose_definition_is_gone_comes_with_the_others(bench: Bench, observer: Raw) -> None:
    other = await bench.enqueue("email")
    job = await bench.enqueue()
    await observer.execute("delete from leasehold.definition_versions where key = 'report'")
    claims = {claim.job: claim for claim in await bench.claim()}
    assert claims.keys() == {job, other}
    assert "version 1 of 'report' is not in the database any more" in (claims[job].unusable or "")
    assert claims[other].unusable is None


async def test_a_claim_of_an_unreadable_backoff_waits_as_by_default(bench: Bench, observer: Raw) -> None:
    job = await bench.enqueue()
    await observer.execute("update leasehold.definition_versions set backoff = '{\"kind\": 1}' where key = 'report'")
    (claim,) = await bench.claim()
    assert (claim.job, claim.unusable, claim.definition.backoff) == (job, None, DEFAULT.backoff)


# --------------------------------------------------------------------------------------------------- values refused


async def test_a_verdict_that_cannot_be_written_is_refused_as_ours(bench: Bench) -> None:
    claim = await bench.running()
    verdict = replace(decide(Succeeded(), claim, jitter=0), error_code="a\0b")
    with pytest.raises(ValueRefused, match="LH-1014"):
        await bench.store.finish([(claim, verdict)])
    assert await bench.status(claim.job) is Status.RUNNING


async def test_a_number_that_no_column_holds_is_refused_as_ours(bench: Bench) -> None:
    with pytest.raises(ValueRefused, match="LH-1014"):
        await bench.jobs.find(Filter(), None, 10**30)
    with pytest.raises(ValueRefused, match="LH-1014"):
        await bench.store.activate("re\0port", True)
    claim = await bench.running()
    await bench.finish(claim, Raised("E", "x", retry_in=timedelta.max))
    assert (await bench.job(claim.job)).unreadable == ()


@pytest.mark.parametrize("column", ["payload", "result"])
async def test_a_value_nested_too_deep_is_shown_as_text(
    bench: Bench, observer: Raw, leasehold: CommandLine, column: str
) -> None:
    job = await bench.succeeded()
    await observer.execute(
        f"update leasehold.jobs_done set {column} = (repeat('[', 900) || repeat(']', 900))::jsonb where id = $1",  # noqa: S608
        job,
    )
    record = await bench.job(job)
    assert getattr(record, column) == "[" * 900 + "]" * 900
    assert record.unreadable[0].startswith(f"{column} is shown as text")
    for options in OUTPUTS:
        assert (await leasehold("job", job, *options)).code == 0


async def test_an_attempt_without_a_start_is_shown(bench: Bench, observer: Raw, leasehold: CommandLine) -> None:
    job = await bench.succeeded()
    await observer.execute("update leasehold.jobs_done set started_at = null where id = $1", job)
    (attempt,) = await bench.jobs.attempts(job)
    assert attempt.started_at == attempt.finished_at
    for options in OUTPUTS:
        assert (await leasehold("job", job, *options)).code == 0


@pytest.mark.parametrize("column", ["definitions", "tenants"])
async def test_a_worker_that_serves_null_is_shown(
    bench: Bench, observer: Raw, leasehold: CommandLine, column: str
) -> None:
    await bench.join()
    await observer.execute(f"update leasehold.workers set {column} = '{{null,report}}'")  # noqa: S608
    (worker,) = await bench.store.workers()
    assert getattr(worker.serves, column) == ("report",)
    for options in OUTPUTS:
        assert (await leasehold("workers", *options)).code == 0
