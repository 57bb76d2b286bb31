"""Commands of an app: declared, enqueued by their fields, and registered where their program is."""

import asyncio
import logging
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.app.helpers import ended, rows
from tests.model.commands import TEXT, UUID, schema_of

from leasehold import (
    OUTBOX,
    SCHEDULED,
    Job,
    Leasehold,
    NewJob,
    PayloadInvalid,
    ResourceLimits,
    Retention,
    Status,
    Steps,
)
from leasehold.app.command_definition import CommandDefinition
from leasehold.errors import InvalidInput, LeaseholdError
from leasehold.telemetry import DefinitionUnavailable, Event, WorkerJoined

ID = {"type": "string", "format": "uuid"}
SCHEMA = schema_of({"provider_id": ID, "path": TEXT}) | {"required": ["provider_id"]}
ARGV = ["zoltag", "sync", "--tenant-id", "{tenant}", "--provider-id", "{provider_id}", ["--path={path}"]]


def declare(app: Leasehold, **options: Any) -> CommandDefinition:
    declared = app.command("sync-dropbox", **{"argv": ARGV, "schema": SCHEMA, **options})
    assert isinstance(declared, CommandDefinition)
    return declared


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program that prints its arguments."""
    file = tmp_path / "zoltag"
    file.write_text(f"#!{sys.executable}\nimport sys\nprint(*sys.argv[1:], sep='|')\n")
    file.chmod(0o755)
    return file


# ------------------------------------------------------------------------------------------------------------ declare


def test_a_command_has_the_defaults_of_commands() -> None:
    definition = declare(Leasehold()).definition
    assert (definition.max_attempts, definition.timeout) == (3, timedelta(hours=1))
    assert definition.durable_claims
    assert definition.schema == SCHEMA


def test_options_are_those_of_jobs_and_of_processes() -> None:
    declared = declare(
        Leasehold(),
        timeout="10m",
        backoff=OUTBOX,
        retention=Retention("7d"),
        on_exhausted="failed",
        description="Syncs a provider.",
        priority=10,
        env={"LANG": "C"},
        pass_env=["HOME"],
        fail_on=[2],
        snooze_on={75: "5m"},
        grace="20s",
        limits=ResourceLimits(memory=10**9, cpu="10m"),
        progress=False,
    )
    command = declared.command
    assert (declared.definition.max_attempts, declared.definition.priority) == (3, 10)
    assert declared.definition.description == "Syncs a provider."
    assert command.template[-1] == ("--path={path}",)
    assert (dict(command.env), command.pass_env, set(command.fail_on)) == ({"LANG": "C"}, ("HOME",), {2})
    assert command.snooze_on == {75: timedelta(minutes=5)}
    assert (command.grace, command.limits.cpu) == (timedelta(seconds=20), timedelta(minutes=10))
    assert not command.progress


@pytest.mark.parametrize(("backoff", "tries"), [(Steps(1), 3), (SCHEDULED, 5)])
def test_a_preset_also_sets_the_tries(backoff: Any, tries: int) -> None:
    assert declare(Leasehold(), backoff=backoff).definition.max_attempts == tries


def test_a_command_without_a_schema_takes_no_fields() -> None:
    declared = Leasehold().command("train", argv=["zoltag", "train", "--tenant-id={tenant}"])
    assert declared.bind().payload == {}
    with pytest.raises(PayloadInvalid, match="unknown field"):
        declared.bind(model="siglip")


def test_a_program_may_be_given_as_a_path(program: Path) -> None:
    declared = declare(Leasehold(), argv=[program, *ARGV[1:]])
    assert declared.command.program == str(program)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"argv": "zoltag sync"}, "no shell would split it"),
        ({"argv": ["sh", "-c", "zoltag {provider_id}"]}, "sh -c runs code from an argument"),
        ({"argv": ["zoltag", "{provider_id}", "{path}"]}, "path may be missing"),
        ({"schema": {"type": "objekt"}}, "The schema can't be used"),
        ({"timeout": "soon"}, "timeout='soon'"),
        ({"pass_env": "HOME"}, "pass_env='HOME' is not a list"),
        ({"fail_on": 2}, "fail_on=2 is not a list"),
        ({"snooze_on": [75]}, r"snooze_on=\[75\] is not a dict"),
        ({"limits": {"memory": 1}}, "is not ResourceLimits"),
        ({"max_attempts": 0}, "max_attempts=0"),
    ],
)
def test_a_wrong_declaration_registers_nothing(options: dict[str, Any], why: str) -> None:
    app = Leasehold()
    with pytest.raises(InvalidInput, match=why):
        declare(app, **options)
    assert app.handlers.keys == ()


def test_a_second_command_of_the_same_key_is_refused_with_both_places() -> None:
    app = Leasehold()
    declare(app)
    with pytest.raises(InvalidInput, match=r"test_commands.py:\d+ and the one in .*test_commands.py:\d+"):
        declare(app)


def test_a_command_can_not_be_called() -> None:
    with pytest.raises(InvalidInput, match="only a worker runs"):
        declare(Leasehold())(provider_id=UUID)


# ------------------------------------------------------------------------------------------------------------ enqueue


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, '"provider_id" is a required property'),
        ({"provider_id": "p_9"}, 'payload.provider_id: "p_9" is not a "uuid"'),
        ({"provider_id": UUID, "pth": "/"}, r'payload.pth: unknown field \(did you mean "path"\?\)'),
        ({"provider_id": UUID, "path": "x" * 200_000}, "200,007 bytes, an argument has at most 131,071"),
        ({"provider_id": UUID, "path": "a\0"}, "NUL"),
        ({"provider_id": UUID, "path": "\ud800"}, "surrogate"),
        ({"provider_id": UUID, "path": {"a": 1}}, "payload.path"),
    ],
)
async def test_fields_that_do_not_fit_are_refused_at_every_enqueue(
    app: Leasehold, database_url: str, fields: dict[str, Any], why: str
) -> None:
    sync, acme = declare(app), app.tenant("acme")
    async with app.open():
        with pytest.raises(PayloadInvalid, match=why):
            sync.bind(**fields)
        for refused in (
            acme.aenqueue(sync, **fields),
            acme.aenqueue_key("sync-dropbox", fields),
            acme.aenqueue_many([NewJob(definition="sync-dropbox", payload=fields)]),
        ):
            with pytest.raises(LeaseholdError, match=why) as error:
                await refused
            assert "Nothing was enqueued" in str(error.value)
    assert await rows(database_url) == 0


def test_fields_are_given_by_name() -> None:
    with pytest.raises(PayloadInvalid, match=r"1 arguments by position.* It takes: provider_id=…, path=…"):
        declare(Leasehold()).bind(UUID)


async def test_a_producer_without_the_program_enqueues(app: Leasehold) -> None:
    sync, acme = declare(app), app.tenant("acme")
    async with app.open():
        placed = [
            await acme.aenqueue(sync, provider_id=UUID),
            await acme.aenqueue_key("sync-dropbox", {"provider_id": UUID, "path": "/"}),
            *await acme.aenqueue_many([sync.bind(provider_id=UUID), sync.bind(provider_id=UUID, path="-x")]),
        ]
        found = [await acme.aget(each.id) for each in placed]
    assert [job.payload.get("path") for job in found] == [None, "/", None, "-x"]
    assert {job.max_attempts for job in found} == {3}


async def test_a_command_is_scheduled_like_a_handler(app: Leasehold) -> None:
    sync = app.schedule("0 2 * * *", tenant="acme", payload={"provider_id": UUID})(declare(app))
    assert [trigger.rule.definition for trigger in app.handlers.triggers] == [sync.key]


# ------------------------------------------------------------------------------------------------------------ workers


async def test_a_worker_runs_the_program_with_exactly_its_argv(app: Leasehold, program: Path) -> None:
    sync = declare(app, argv=[program, *ARGV[1:]])
    async with app.open(worker=True):
        job = await ended(app, await app.tenant("acme").aenqueue(sync, provider_id=UUID, path="-rf $(id); a\nb"))
        lines = (await app.tenant("acme").jobs.alines(job.id)).lines
    assert job.status is Status.SUCCEEDED, job.last_error
    assert [line.text for line in lines] == [f"sync|--tenant-id|acme|--provider-id|{UUID}|--path=-rf $(id); a", "b"]


async def test_a_tenant_that_looks_like_an_option_fails_by_decision(app: Leasehold, program: Path) -> None:
    sync = declare(app, argv=[program, *ARGV[1:]])
    async with app.open(worker=True):
        job = await ended(app, await app.tenant("-rf").aenqueue(sync, provider_id=UUID))
    assert (job.status, job.last_error_code, job.tries) == (Status.FAILED, "payload_invalid", 1)
    assert "tenant='-rf' starts with -" in (job.last_error or "")


async def test_a_payload_of_an_older_schema_fails_by_decision(database_url: str, program: Path) -> None:
    before, after = Leasehold(database_url), Leasehold(database_url)
    narrow = schema_of({"provider_id": ID})
    old = declare(before, argv=[program, *ARGV[1:]])
    async with before.open():
        placed = await before.tenant("acme").aenqueue(old, provider_id=UUID, path="/")
    declare(after, argv=[program, *ARGV[1:-1]], schema=narrow)
    async with after.open(worker=True):
        job = await ended(after, replace(placed, _store=after._store))
    assert (job.status, job.last_error_code) == (Status.FAILED, "payload_invalid")
    assert "payload.path: unknown field" in (job.last_error or "")


async def test_a_worker_without_the_program_says_so_and_runs_the_others(
    app: Leasehold, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    sync = declare(app)

    @app.job
    async def greet(job: Job) -> str:
        return "hello"

    heard: list[Event] = []
    async with app.open():
        waits = await app.tenant("acme").aenqueue(sync, provider_id=UUID)
        runs = await app.tenant("acme").aenqueue(greet)
        worker = app.make_worker(database_url, app.worker_settings(), heard.append)
        with caplog.at_level(logging.ERROR, "leasehold.worker"):
            running = asyncio.create_task(worker.run())
            try:
                assert (await ended(app, runs)).status is Status.SUCCEEDED
                assert (await app.tenant("acme").aget(waits.id)).status is Status.QUEUED
            finally:
                worker.stop()
                await running
    (missing,) = [event for event in heard if isinstance(event, DefinitionUnavailable)]
    assert missing.definition == "sync-dropbox"
    assert 'its program "zoltag" is not on its PATH' in missing.why
    assert [event.definitions for event in heard if isinstance(event, WorkerJoined)] == [("greet",)]
    assert "sync-dropbox is not served by this worker" in caplog.text


async def test_a_tick_without_the_program_runs_the_others(app: Leasehold) -> None:
    sync = declare(app)

    @app.job
    async def greet(job: Job) -> None: ...

    async with app.open():
        await app.tenant("acme").aenqueue(sync, provider_id=UUID)
        await app.tenant("acme").aenqueue(greet)
    assert (await app.atick()).ran == 1


async def test_triggers_of_a_missing_program_stay_as_they_are(app: Leasehold) -> None:
    declare(app)
    app.schedule("0 2 * * *", tenant="acme", payload={"provider_id": UUID})(declare_other(app))
    usable, problems = app.handlers.of_this_machine()
    assert (usable.keys, usable.triggers) == ((), [])
    assert set(problems) == {"sync-dropbox", "train"}
    assert len(app.handlers.triggers) == 1


def declare_other(app: Leasehold) -> CommandDefinition:
    declared = app.command("train", argv=["/no/such/zoltag", "{provider_id}"], schema=schema_of({"provider_id": ID}))
    assert isinstance(declared, CommandDefinition)
    return declared


def test_the_program_is_found_by_its_name_on_the_path_of_the_command(program: Path) -> None:
    declared = declare(Leasehold(), env={"PATH": str(program.parent)})
    assert (declared.problem_here(), declared.located.executable) == (None, str(program))


def test_a_file_that_can_not_be_executed_is_not_a_program(program: Path) -> None:
    program.chmod(0o644)
    declared = declare(Leasehold(), argv=[program, *ARGV[1:]])
    assert "does not exist or can't be executed" in (declared.problem_here() or "")


def test_a_link_to_an_interpreter_is_that_interpreter(tmp_path: Path) -> None:
    (tmp_path / "zoltag").symlink_to("other-name")
    (tmp_path / "other-name").symlink_to(sys.executable)
    path = {"PATH": str(tmp_path)}
    given = {"schema": schema_of({"path": TEXT}), "env": path}
    code = declare(Leasehold(), argv=["zoltag", "-c", "print(7)", "--", "{path}"], **given)
    assert 'its program "zoltag" is a link' in (code.problem_here() or "")
    assert "-c runs code from an argument" in (code.problem_here() or "")
    script = declare(Leasehold(), argv=["zoltag", "run.py", "--", "{path}"], **given)
    assert script.problem_here() is None


def test_a_link_to_a_file_of_many_programs_is_allowed(tmp_path: Path) -> None:
    busybox = tmp_path / "busybox"
    busybox.write_text("#!/bin/true\n")
    busybox.chmod(0o755)
    (tmp_path / "zoltag").symlink_to(busybox)
    declared = declare(Leasehold(), argv=["zoltag"], schema=None, env={"PATH": str(tmp_path)})
    assert declared.problem_here() is None
