"""Commands in a TOML file: the options of app.command, and errors with file, table and key."""

from datetime import timedelta
from pathlib import Path

import pytest
from tests.model.commands import UUID

from leasehold import Leasehold, Retention, Steps
from leasehold.app.command_definition import CommandDefinition
from leasehold.app.command_file import load_commands
from leasehold.errors import CannotLoad, InvalidInput
from leasehold.model.backoff import SCHEDULED, Exponential
from leasehold.model.command import ResourceLimits

SCHEMA = """
[commands.sync-dropbox.schema]
type = "object"
properties.provider_id = { type = "string", format = "uuid" }
properties.path = { type = "string" }
required = ["provider_id"]
additionalProperties = false
"""
ARGV = 'argv = ["zoltag", "sync", "--provider-id", "{provider_id}", ["--path={path}"]]'


def load(folder: Path, content: str) -> CommandDefinition:
    """Returns the command sync-dropbox."""
    (folder / "commands.toml").write_text(content)
    app = Leasehold()
    load_commands(app, folder / "commands.toml")
    found = app.definition("sync-dropbox")
    assert isinstance(found, CommandDefinition)
    return found


def with_keys(keys: str, argv: str = ARGV) -> str:
    return f"[commands.sync-dropbox]\n{argv}\n{keys}\n{SCHEMA}"


def test_a_command_has_argv_groups_and_schema(tmp_path: Path) -> None:
    command = load(tmp_path, with_keys("")).command
    assert command.template == ("zoltag", "sync", "--provider-id", "{provider_id}", ("--path={path}",))
    assert command.definition.schema is not None
    assert command.definition.schema["required"] == ["provider_id"]
    assert command.definition.durable_claims


def test_all_options_can_be_set(tmp_path: Path) -> None:
    declared = load(
        tmp_path,
        with_keys("""
            timeout = "10m"
            max_attempts = 7
            priority = 10
            on_exhausted = "failed"
            description = "Syncs a provider."
            retention = { succeeded = "7d", failed = "90d" }
            payload_file = "JOB_PAYLOAD"
            env = { PATH = "/opt/bin" }
            pass_env = ["HOME"]
            fail_on = [2, 3]
            snooze_on = { 75 = "5m" }
            grace = "20s"
            limits = { memory = 2_000_000_000, cpu = "10m" }
            progress = false
        """),
    )
    definition, command = declared.definition, declared.command
    assert (definition.timeout, definition.max_attempts, definition.priority) == (timedelta(minutes=10), 7, 10)
    assert (definition.on_exhausted, definition.description) == ("failed", "Syncs a provider.")
    assert definition.retention == Retention("7d", failed="90d")
    assert (command.payload_file, command.env, command.pass_env) == ("JOB_PAYLOAD", {"PATH": "/opt/bin"}, ("HOME",))
    assert (set(command.fail_on), dict(command.snooze_on)) == ({2, 3}, {75: timedelta(minutes=5)})
    assert command.grace == timedelta(seconds=20)
    assert command.limits == ResourceLimits(memory=2_000_000_000, cpu=timedelta(minutes=10))
    assert not command.progress


@pytest.mark.parametrize(
    ("backoff", "expected"),
    [
        ('["30s", "5m"]', Steps(30, 300)),
        ('{ base = "1m", factor = 3, jitter = 0 }', Exponential(60, 3, jitter=0)),
        ('"scheduled"', SCHEDULED.backoff),
    ],
)
def test_a_backoff_is_a_list_a_table_or_a_name(tmp_path: Path, backoff: str, expected: object) -> None:
    assert load(tmp_path, with_keys(f"backoff = {backoff}")).definition.backoff == expected


def test_a_relative_program_is_found_from_the_folder_of_the_file(tmp_path: Path) -> None:
    command = load(tmp_path, with_keys("", ARGV.replace("zoltag", "./bin/zoltag"))).command
    assert command.program == str(tmp_path.resolve() / "bin/zoltag")


def test_a_key_may_have_any_character(tmp_path: Path) -> None:
    (tmp_path / "commands.toml").write_text('[commands."zoltag.sync all"]\nargv = ["zoltag"]')
    assert load_commands(Leasehold(), tmp_path / "commands.toml") == ["zoltag.sync all"]


def test_a_job_is_made_of_its_fields(tmp_path: Path) -> None:
    assert load(tmp_path, with_keys("")).bind(provider_id=UUID).payload == {"provider_id": UUID}


@pytest.mark.parametrize(
    ("content", "place", "why"),
    [
        ("", "commands.toml", "it has no commands"),
        ("[jobs.a]", "commands.toml", 'the table "jobs" is unknown'),
        ("[commands]\nsync = 1", "commands.toml, [commands.sync]", "1 is not a table"),
        ("[commands.sync]", "commands.toml, [commands.sync]", "argv is missing"),
        (with_keys('timeot = "1h"'), "[commands.sync-dropbox], timeot", 'did you mean "timeout"?'),
        (with_keys('timeout = "soon"'), "[commands.sync-dropbox]", "timeout='soon' is not a duration"),
        (with_keys('backoff = "often"'), "[commands.sync-dropbox], backoff", "'often' is none of outbox"),
        (with_keys("backoff = { base = -1 }"), "[commands.sync-dropbox], backoff", "is not a backoff"),
        (with_keys("limits = { memry = 1 }"), "[commands.sync-dropbox], limits", '"memry" is none of memory'),
        (with_keys("limits = 7"), "[commands.sync-dropbox], limits", "7 is not a table"),
        (with_keys("retention = { done = 1 }"), "[commands.sync-dropbox], retention", '"done" is none of succeeded'),
        (with_keys('snooze_on = { busy = "5m" }'), "[commands.sync-dropbox], snooze_on", "'busy'"),
        (with_keys("snooze_on = [75]"), "[commands.sync-dropbox], snooze_on", "is not a table of exit codes"),
        (with_keys("fail_on = [0]"), "[commands.sync-dropbox]", "fail_on=0"),
        (with_keys("", 'argv = "zoltag"'), "[commands.sync-dropbox]", "no shell would split it"),
        (with_keys("", 'argv = ["sh", "-c", "id"]'), "[commands.sync-dropbox]", "sh -c runs code"),
        (with_keys("durable_claims = false"), "[commands.sync-dropbox], durable_claims", "no such key"),
    ],
)
def test_a_mistake_is_told_with_file_table_and_key(tmp_path: Path, content: str, place: str, why: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        load(tmp_path, content)
    assert str(tmp_path / "commands.toml") in refused.value.happened
    assert place in refused.value.happened
    assert why in refused.value.happened
    assert "Nothing was registered" in refused.value.fix


@pytest.mark.parametrize(
    ("content", "why"), [(None, "No such file"), ("[commands", "end of document"), ("a = \x00", "line 1")]
)
def test_a_file_that_can_not_be_read_is_told(tmp_path: Path, content: str | None, why: str) -> None:
    file = tmp_path / "commands.toml"
    if content is not None:
        file.write_text(content)
    with pytest.raises(CannotLoad, match=why):
        load_commands(Leasehold(), file)
