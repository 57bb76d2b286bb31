"""Commands with `--api`: the same output as with a database, and the same exit codes."""

import re
import shlex
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import orjson
import pytest
import typer.main
from tests.cli.terminal import Answer, CommandLine, run
from tests.conftest import eventually

from leasehold import Job, Leasehold
from leasehold.cli import app as command_line
from leasehold.cli.api_server import address_of, bind, serving
from leasehold.cli.help import DatabaseCommand
from leasehold.control import records
from leasehold.errors import SchemaMismatch
from leasehold.model.access import Permission, Role
from leasehold.model.job import JobRecord, TenantId
from leasehold.model.operation import OperationState
from leasehold.model.status import Status
from leasehold.operations import tokens

ACME, GLOBEX = TenantId("acme"), TenantId("globex")
ADMIN = "administrator"
# Ids, moments, authors and tokens differ between two runs, and between two tenants.
_ALIKE = {
    r"lh_[a-z0-9_]+": "TOKEN",
    r"[0-9a-f]{8}-[0-9a-f-]{27}": "ID",
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?": "MOMENT",
    r"\b[0-9a-f]{8}\b": "SHORT",
    r"\b[a-z2-7]{12}\b": "PUBLIC",
    r"cli:[^\s\",;]+|administrator": "AUTHOR",
    r"\d+[smhd] ago|just now": "AGO",
    r"\b(in|took|for|after) [0-9dhms. ]+": "SPAN ",
    r", [0-9dhms. ]+ ago": ", SPAN ago",
    r"\d\d:\d\d:\d\d": "CLOCK",
    r"(?i)acme|globex": "TENANT",
    r"(\"source_ref\":|\"created_by\":|\"token\":)(null|\"[^\"]*\")": "ORIGIN",
}


JOB_FIELDS = tuple(each.name for each in fields(JobRecord))
_AT = "2026-02-16T10:30:01Z"
KNOWN: dict[str, Any] = {
    **dict.fromkeys(("id", "tenant_id", "definition_key"), "x"),
    **dict.fromkeys(("version", "priority", "attempt", "max_attempts", "free_attempts"), 1),
    "due": True,
    "source": "manual",
    "status": "queued",
    "scheduled_for": _AT,
    "queued_at": _AT,
    "unreadable": [],
}


def alike(text: str) -> str:
    for pattern, name in _ALIKE.items():
        text = re.sub(pattern, name, text)
    return "\n".join(" ".join(line.split()) for line in text.splitlines())


@dataclass
class Queue:
    """A database, and a server of it with a super admin's token."""

    app: Leasehold
    url: str
    api: str
    token: str

    async def database(self, line: str) -> Answer:
        return await CommandLine(self.url)(*shlex.split(line))

    async def server(self, line: str, token: str | None = None) -> Answer:
        words = shlex.split(line)
        return await CommandLine(self.url)("--api", self.api, *words, LEASEHOLD_TOKEN=token or self.token)

    async def make_token(
        self, role: Role, tenant: TenantId | None, permissions: frozenset[Permission] | None = None
    ) -> str:
        _, text = await tokens.create(self.app.store, "ci", role, tenant=tenant, permissions=permissions)
        return str(text)

    async def both(self, line: str, other: str | None = None) -> tuple[Answer, Answer]:
        """Runs a line with the database, and the same or another one with the server. Both print the same."""
        here, there = await self.database(line), await self.server(other or line)
        assert (there.code, alike(there.out), alike(there.err)) == (here.code, alike(here.out), alike(here.err)), line
        return here, there

    async def mirrored(self, line: str, **ids: Sequence[str]) -> tuple[str, str]:
        """Runs a line for acme with the database, and for globex with the server; returns what is on stdout."""
        here, there = (
            line.format(T=tenant, **{name: value[side] for name, value in ids.items()})
            for side, tenant in enumerate((ACME, GLOBEX))
        )
        answers = await self.both(here, there)
        assert answers[0].code == 0, answers[0].err
        return answers[0].out.strip(), answers[1].out.strip()

    async def until_all_operations_run(self) -> None:
        """Waits until the server has run the first batch of each operation."""

        async def all_run() -> bool:
            page = await self.app.store.operations.list(None, None, 10)
            return all(each.state is OperationState.RUNNING for each in page.operations)

        await eventually(all_run, what="the first batches of the operations")


@pytest.fixture
async def queue(database_url: str) -> AsyncIterator[Queue]:
    app = Leasehold(database_url)

    @app.job(max_attempts=1, description="Prints a report.")
    async def report(job: Job, name: str, pages: int = 1) -> str:
        job.log(f"about {name}")
        if name == "bad":
            raise ValueError("out of paper")
        return name.upper()

    bound = bind("127.0.0.1", 0)
    address = address_of(bound)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(app.open())
        await stack.enter_async_context(serving(Leasehold(database_url).api(), bound))
        await app.store.sync_definitions(app.handlers.definitions)
        _, text = await tokens.create(app.store, ADMIN, Role.SUPER_ADMIN)
        yield Queue(app, database_url, address, str(text))


async def test_jobs_are_read_alike(queue: Queue) -> None:
    acme = queue.app.tenant(ACME)
    waits = await acme.options(delay="30d", correlation_id="c1").aenqueue_key("report", {"name": "july"})
    bad = await acme.aenqueue_key("report", {"name": "bad"})
    await acme.aenqueue_key("report", {"name": "june"})
    await queue.app.atick()
    ready = await queue.app.tenant(GLOBEX).aenqueue_key("report", {"name": "may"})
    await queue.database("pause tenant globex unpaid")
    for line in (
        "jobs",
        "jobs --json",
        "jobs --state dead-letter --state ready --definition report",
        "jobs -t acme --correlation-id c1 --source manual --after 2020-01-01T00:00Z --before 2999-01-01T00:00Z",
        f"job {bad.id}",
        f"job {bad.id[-8:]} --json",
        f"why {ready.id}",
        f"why {waits.id} --json",
        f"logs {bad.id} --try 1 --json",
        f"logs {bad.id} --try 7",
        f"logs {bad.id} --follow --json",
        "counts -t acme --json",
        "job 0000",
        "job 01989c1e-77b0-7000-8000-000000000042 -t acme",
    ):
        await queue.both(line)
    more = re.search(r"--cursor (\S+)", (await queue.server("jobs --limit 2")).err)
    assert more is not None
    await queue.both(f"jobs --limit 2 --cursor {more[1]}")


async def test_jobs_are_changed_alike(queue: Queue) -> None:
    jobs = await queue.mirrored("enqueue report name=june pages=3 -t {T} --in 30d --priority 5 --dedupe-key k")
    for line in (
        "enqueue report name=june -t {T} --dedupe-key k",
        'enqueue report -t {T} --at 2999-01-01T00:00Z --json --payload \'{{"name": "may"}}\'',
        "enqueue report name=april -t {T} --id 01989c1e-77b0-7000-8000-000000000042",
        "enqueue report name=april -t {T} --id 01989c1e-77b0-7000-8000-000000000042",
        "run-now {job}",
        "cancel {job} -t {T}",
        "retry {job} --json",
        "cancel --all -t {T} --plan",
        "retry --state succeeded -t {T} --plan --json --pace 50/s",
        "retry --error 5f0c9a3be2d14471 -t {T} --plan --json",
        "jobs --error 5f0c9a3be2d14471 -t {T}",
        "errors -t {T} --json",
    ):
        await queue.mirrored(line, job=jobs)
    for line in (
        "enqueue reprot",
        "enqueue report pages=x",
        "enqueue report nme=1",
        f"retry {jobs[0]}",
        "errors 5f0c9a3be2d14471",
    ):
        await queue.both(f"{line} -t acme")
    operations = await queue.mirrored("cancel --all -t {T} --detach --pace 1/h")
    await queue.until_all_operations_run()
    for line in (
        "operations list -t {T}",
        "operations show {operation}",
        "operations abort {operation}",
        "operations show {operation} --json",
    ):
        await queue.mirrored(line, operation=operations)
    await queue.both("operations show 01989c1e-77b0-7000-8000-000000000042")


async def test_a_job_is_followed_to_its_end_alike(queue: Queue) -> None:
    async with queue.app.open(worker=True):
        await queue.both("enqueue report name=june -t acme --follow")
        await queue.both("enqueue report name=bad -t acme --wait")
        await queue.both("retry --all -t acme --json")
    await queue.both("enqueue report name=june -t acme --follow --timeout 100ms --json")


async def test_triggers_and_events_are_alike(queue: Queue) -> None:
    daily = await queue.mirrored(
        "triggers add report -t {T} --cron '0 2 * * *' --zone Europe/Berlin --label daily "
        '--payload \'{{"name": "june"}}\''
    )
    await queue.mirrored(
        "triggers add report -t {T} --event order.* --dedupe-window 1h --label ordered "
        '--filter \'{{"paid": true}}\' --payload \'{{"name": "{{{{ event.data.name }}}}"}}\''
    )
    for line in (
        "triggers ls -t {T}",
        "triggers show daily -t {T} --json",
        "triggers edit {daily} --cron '0 3 * * *' --catch-up skip",
        "triggers edit ordered -t {T} --dedupe-window 2h --enabled on",
        "triggers preview {daily} --count 3",
        "triggers preview {daily} --viewer-zone Asia/Tokyo --json",
        "triggers preview --every 15m --anchor 2030-01-31T09:00Z",
        "triggers pause daily -t {T} unpaid --until 2999-01-01T00:00Z",
        "triggers pause ordered -t {T} unpaid --for 1h",
        "triggers resume ordered -t {T}",
        'events test order.made -t {T} --data \'{{"paid": true, "name": "may"}}\'',
        'events emit order.made -t {T} --correlation-id c --data \'{{"paid": true, "name": "may"}}\'',
        'events test order.made -t {T} --data \'{{"paid": true, "name": "may"}}\'',
        "events test order.made -t {T} --json --data '{{\"paid\": false}}'",
        "events ls -t {T}",
        "events -t {T} --json",
        "triggers decisions ordered -t {T}",
        "triggers rm {daily}",
        "triggers restore {daily} -t {T}",
        "triggers show daily -t {T} --json",
    ):
        await queue.mirrored(line, daily=daily)
    await queue.both("triggers")
    for line in ("triggers show nothing", "triggers add report --cron x -t acme", "events ls --name 'a b' -t acme"):
        await queue.both(line)


async def test_triggers_for_all_tenants_are_changed_by_a_server(queue: Queue) -> None:
    added = await queue.server(
        "triggers add report --all-tenants --cron '0 2 * * *' --spread 1h --label nightly "
        '--payload \'{"name": "june"}\''
    )
    assert added.code == 0, added.err
    for line in (
        "triggers edit nightly --all-tenants --spread 2h",
        "triggers preview nightly --all-tenants --count 2",
        "triggers pause nightly --all-tenants unpaid",
        "triggers resume nightly",
        "triggers decisions nightly --all-tenants",
    ):
        answer = await queue.server(line)
        assert answer.code == 0, answer.err
    here, _ = await queue.both("triggers show nightly --all-tenants --json")
    assert (orjson.loads(here.out)["all_tenants"], orjson.loads(here.out)["spread"]) == (True, 7200)
    await queue.both("triggers ls --all-tenants")
    assert (await queue.server("triggers rm nightly --all-tenants")).code == 0
    assert (await queue.database("triggers show nightly")).code != 0


async def test_administration_is_alike(queue: Queue) -> None:
    await queue.mirrored("tenants --add {T}")
    for line in (
        "limit tenant {T} --max-running 3",
        "pause tenant {T} 'the bill' --for 1d",
        "tenants usage {T}",
        "resume tenant {T} --json",
        "definitions create push_{T} timeout=10m",
        "definitions set push_{T} max_attempts=7 active=false",
        "definitions reset push_{T} max_attempts --json",
        "definitions activate push_{T}",
        "definitions deactivate push_{T} --json",
    ):
        await queue.mirrored(line)
    await queue.mirrored("enqueue report name=june -t {T}")
    await queue.both("tenants export acme")
    await queue.mirrored("tenants delete {T} --yes --detach --pace 1/h")
    await queue.until_all_operations_run()
    _, token = await queue.mirrored("token create ci --role viewer -t {T} --for 1d")
    public = token.split("_")[1]
    for line in (
        "tenants",
        "tenants list --limit 1",
        "limits",
        "limits --json",
        "definitions",
        "definitions --json",
        "definitions show push_acme",
        "workers",
        "top --once",
        "top --once --json",
        "token list",
        "token list --json",
        "audit --limit 5",
        "audit --action tenant.add --json",
        "series",
        "series --by tenant --json",
        "usage --since 2d",
        "usage --by tenant,day --json",
        "usage --csv",
        "operations list",
        f"token rotate {public} --overlap 1h",
        f"token revoke {public}",
        "tenants usage nobody",
        "definitions set push_acme timeout=7d --revision 1",
        "token revoke aaaaaaaaaaaa",
    ):
        await queue.both(line)


async def test_saved_views_are_alike(queue: Queue) -> None:
    for line in (
        "views save 'dead syncs' 'status:dead-letter definition:report' --limit 100 --column due -t {T}",
        "views save ours created:<2h -t {T} --shared --json",
        "views list -t {T}",
        "views list -t {T} --json",
        "views delete 'dead syncs' -t {T}",
        "views delete ours --shared -t {T} --json",
        "views list -t {T}",
    ):
        await queue.mirrored(line)
    for line in ("views delete nothing -t acme", "views delete nothing --shared"):
        here, _ = await queue.both(line)
        assert here.code == 2


# Whose token, which server


async def test_a_bound_token_needs_no_tenant(queue: Queue) -> None:
    token = await queue.make_token(Role.TENANT_ADMIN, ACME)
    made = await queue.server("enqueue report name=june --json", token)
    assert made.document["tenant"] == ACME
    assert (await queue.server("counts --json", token)).document["queued"] == 1
    assert (await queue.server('triggers add report --every 1d --payload \'{"name": "x"}\'', token)).code == 0
    assert [each["created_by"] for each in (await queue.server("jobs --json", token)).document] == ["ci"]


async def test_a_token_of_all_tenants_has_to_name_one(queue: Queue) -> None:
    refused = await queue.server("enqueue report name=june")
    assert (refused.code, "LH-1004" in refused.err, "--tenant acme" in refused.err) == (2, True, True)


async def test_a_token_of_another_tenant_finds_nothing(queue: Queue) -> None:
    job = await queue.app.tenant(ACME).aenqueue_key("report", {"name": "june"})
    token = await queue.make_token(Role.TENANT_ADMIN, GLOBEX)
    for line in (f"job {job.id}", f"cancel {job.id}", f"why {job.id[-8:]}"):
        assert (await queue.server(line, token)).code == 3
    refused = await queue.server("jobs -t acme --json", token)
    assert (refused.code, refused.error["code"]) == (5, "LH-6002")


async def test_fields_that_a_token_may_not_read_are_named(queue: Queue) -> None:
    job = await queue.app.tenant(ACME).aenqueue_key("report", {"name": "bad"})
    await queue.app.atick()
    shown = await queue.server(f"job {job.id}", await queue.make_token(Role.VIEWER, ACME))
    assert (shown.code, "out of paper" in shown.out, '"name"' in shown.out) == (0, False, False)
    assert "not shown: payload, result. The token has not the permission payloads:read." in shown.err
    assert "not shown: last_error, details, error, lines. The token has not the permission logs:read." in shown.err


async def test_a_wrong_or_missing_token_exits_with_5_or_2(queue: Queue, tmp_path: Path) -> None:
    assert (await queue.server("jobs", "lh_aaaaaaaaaaaa_" + "b" * 52)).code == 5
    assert run(["jobs", "--api", queue.api]).code == 2
    (tmp_path / "token").write_text(queue.token)
    named = await CommandLine(queue.url)("jobs", "--api", queue.api, "--token-file", str(tmp_path / "token"))
    assert (named.code, named.out) == (0, "")


async def test_a_url_of_a_server_and_the_variable_mean_the_api(queue: Queue) -> None:
    shell = CommandLine(queue.api)
    assert "0 jobs" in (await shell("jobs", LEASEHOLD_TOKEN=queue.token)).err
    assert "0 jobs" in (await shell("jobs", LEASEHOLD_API=queue.api, LEASEHOLD_TOKEN=queue.token)).err
    assert "0 jobs" in (await shell("jobs", "--url", queue.api, LEASEHOLD_TOKEN=queue.token)).err
    assert "0 jobs" in (await shell("jobs", "--url", queue.url, LEASEHOLD_API="http://127.0.0.1:1")).err


def test_a_server_that_is_away_exits_with_7() -> None:
    refused = run(["jobs", "--api", "http://127.0.0.1:1", "--json"], LEASEHOLD_TOKEN="lh_a_b")
    assert (refused.code, refused.error["code"]) == (7, "LH-3001")


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--api", "http://jobs.example.com"], "without TLS"),
        (["--api", "https://u:p@jobs.example.com"], "has a user"),
        (["--api", "postgresql://localhost/x"], "begins with neither"),
        (["--api", "https://jobs.example.com", "--url", "postgresql://localhost/x"], "two queues"),
        (["--api", "https://jobs.example.com", "--schema", "other"], "has its own"),
    ],
)
def test_an_unusable_server_is_refused_before_a_request(words: list[str], part: str) -> None:
    refused = run(["jobs", *words], LEASEHOLD_TOKEN="lh_a_b")
    assert (refused.code, part in refused.err) == (2, True)


def test_an_answer_of_a_newer_server_is_refused() -> None:
    job: dict[str, Any] = dict.fromkeys(JOB_FIELDS)
    with pytest.raises(SchemaMismatch, match="status") as refused:
        records.job(job | KNOWN | {"status": "hibernating"})
    assert refused.value.code == "LH-2002"
    assert records.job(job | KNOWN | {"a_new_field": 1}).status is Status.QUEUED


def commands(group: Any = None, words: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    group = group or typer.main.get_command(command_line)
    found: list[tuple[tuple[str, ...], Any]] = []
    for name, command in group.commands.items():
        inner = (*words, name)
        found += commands(command, inner) if hasattr(command, "commands") else [(inner, command)]
    return found


def test_commands_that_need_a_database_refuse_the_api() -> None:
    refusing = {words for words, command in commands() if isinstance(command, DatabaseCommand)}
    assert {" ".join(words) for words in refusing} == {
        *("dev", "worker", "scheduler", "serve", "tick", "migrate", "grants", "prune", "doctor", "psql", "capacity"),
        *("secrets new-key", "secrets rotate", "definitions sync", "console link"),
    }
    for words in refusing:
        refused = run(
            ["--api", "https://jobs.example.com", *words, *(["--rate", "1/s"] if words == ("capacity",) else [])]
        )
        assert (refused.code, "has no --api" in refused.err) == (2, True), words
