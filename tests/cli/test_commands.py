"""Commands on the command line: a TOML file in place of an app, and the argv of a payload."""

import sys
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
from tests.cli.dev_process import Start, ends, enqueue
from tests.cli.terminal import CommandLine, run
from tests.cli.test_processes import run as run_process
from tests.cli.test_processes import started as begun
from tests.conftest import PATIENCE
from tests.model.commands import UUID

from leasehold import Leasehold, Status
from leasehold.store import Store, TenantJobs

PROGRAM = f"#!{sys.executable}\nimport sys\nprint(*sys.argv[1:], sep='|')\n"
COMMANDS = """
[commands.sync-dropbox]
argv = ["./zoltag", "sync", "--tenant-id", "{tenant}", "--provider-id", "{provider_id}", ["--path={path}"]]
payload_file = "JOB_PAYLOAD"

[commands.sync-dropbox.schema]
type = "object"
properties.provider_id = { type = "string", format = "uuid" }
properties.path = { type = "string" }
properties.rows = { type = "array" }
required = ["provider_id"]
additionalProperties = false
"""
APP = """
from leasehold import Job, Leasehold

app = Leasehold()


@app.job
def greet(job: Job) -> None: ...


app.command("train", argv=["no-such-zoltag", "train", "--tenant-id={tenant}"])
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder with commands.toml, its program, and an app. Undoes the effects of importing it."""
    (tmp_path / "commands.toml").write_text(COMMANDS)
    (tmp_path / "zoltag").write_text(PROGRAM)
    (tmp_path / "zoltag").chmod(0o755)
    (tmp_path / "leasehold_app_under_test.py").write_text(APP)
    path = list(sys.path)
    yield tmp_path
    sys.path[:] = path
    sys.modules.pop("leasehold_app_under_test", None)


# --------------------------------------------------------------------------------------------------------------- show


def show(folder: Path, payload: str, *words: str) -> list[str]:
    file = str(folder / "commands.toml")
    return ["definitions", "show", "sync-dropbox", "--commands", file, "--payload", payload, *words]


def test_the_argv_of_a_payload_is_shown_without_a_database(folder: Path) -> None:
    asked = run(show(folder, f'{{"provider_id": "{UUID}", "path": "a b"}}', "--tenant", "acme"))
    program = folder.resolve() / "zoltag"
    assert (asked.code, asked.err) == (0, "")
    assert asked.out == (f"{program} sync --tenant-id acme --provider-id {UUID} '--path=a b'\nJOB_PAYLOAD: {{}}\n")


def test_the_argv_is_a_document_for_machines(folder: Path) -> None:
    asked = run(show(folder, f'{{"provider_id": "{UUID}", "rows": [1, null]}}', "--json"))
    assert asked.document == {
        "argv": [f"{folder.resolve() / 'zoltag'}", "sync", "--tenant-id", "{tenant}", "--provider-id", UUID],
        "env": {},
        "payload_file": {"rows": [1, None]},
        "program_found": True,
    }


SIGN_IN = """
[commands.sign-in]
argv = ["./zoltag", "sign-in", "--user={user}"]
env = { SHOP_PASSWORD = "{password}", SHOP_REGION = "{region}" }
payload_file = "JOB_PAYLOAD"

[commands.sign-in.schema]
type = "object"
properties.user = { type = "string" }
properties.region = { type = "string" }
properties.password = { type = "string", x-secret = true }
properties.pins = { type = "array", items = { type = "string", x-secret = true } }
properties.rows = { type = "array" }
required = ["user"]
additionalProperties = false
"""


def test_secrets_of_a_payload_are_not_shown(folder: Path) -> None:
    (folder / "commands.toml").write_text(SIGN_IN)
    payload = {"user": "ada", "region": "eu", "password": "hunter2-and-more", "pins": ["s3cr3t-pin"], "rows": [1]}
    words = show(folder, orjson.dumps(payload).decode())
    words[2] = "sign-in"
    asked = run(words)
    assert asked.out == (
        f"{folder.resolve() / 'zoltag'} sign-in --user=ada\n"
        'SHOP_PASSWORD: [secret]\nSHOP_REGION: eu\nJOB_PAYLOAD: {"pins":"[secret]","rows":[1]}\n'
    )
    document = run([*words, "--json"]).document
    assert document["env"] == {"SHOP_PASSWORD": "[secret]", "SHOP_REGION": "eu"}
    assert document["payload_file"] == {"pins": "[secret]", "rows": [1]}


def test_a_program_that_is_missing_is_told_with_its_argv(folder: Path) -> None:
    app = str(folder / "leasehold_app_under_test.py")
    asked = run(["definitions", "show", "train", "--app", app, "--payload", "{}"])
    assert (asked.code, asked.out) == (0, "no-such-zoltag train '--tenant-id={tenant}'\n")
    assert '! its program "no-such-zoltag" is not on its PATH' in asked.err


def test_a_payload_that_does_not_fit_is_an_error(folder: Path) -> None:
    asked = run(show(folder, '{"provider_id": "p_9"}'))
    assert (asked.code, asked.out) == (2, "")
    assert 'payload.provider_id: "p_9" is not a "uuid"' in asked.err


def test_an_unknown_key_is_an_error_with_the_nearest(folder: Path) -> None:
    words = show(folder, "{}")
    words[2] = "sync-dropbx"
    asked = run(words)
    assert asked.code == 3
    assert 'Did you mean "sync-dropbox"?' in asked.err


def test_a_handler_has_no_argv(folder: Path) -> None:
    app = str(folder / "leasehold_app_under_test.py")
    asked = run(["definitions", "show", "greet", "--app", app, "--payload", "{}"])
    assert (asked.code, asked.out) == (2, "")
    assert "greet is a handler, which has no argv" in asked.err


def test_a_file_without_a_payload_is_refused(folder: Path) -> None:
    asked = run(["definitions", "show", "sync-dropbox", "--commands", str(folder / "commands.toml")])
    assert asked.code == 2
    assert "need a --payload" in asked.err


def test_without_an_app_or_a_file_there_is_no_argv_to_show() -> None:
    asked = run(["definitions", "show", "sync-dropbox", "--payload", "{}"])
    assert asked.code == 2
    assert "--commands" in asked.err


# ------------------------------------------------------------------------------------------------------- sync, worker


@pytest.mark.parametrize("command", ["worker", "dev", "tick"])
def test_an_app_or_a_file_has_to_be_named(command: str) -> None:
    asked = run([command])
    assert asked.code == 2
    assert "name an app" in asked.err


async def test_commands_of_a_file_are_registered(leasehold: CommandLine, folder: Path, store: Store) -> None:
    synced = await leasehold("definitions", "sync", "--commands", str(folder / "commands.toml"))
    assert (synced.code, synced.out) == (0, "+ sync-dropbox  new, version 1\n")
    (registered,) = await store.definitions()
    assert registered.definition.durable_claims


async def test_commands_of_a_file_join_those_of_an_app(leasehold: CommandLine, folder: Path) -> None:
    app, file = str(folder / "leasehold_app_under_test.py"), str(folder / "commands.toml")
    synced = await leasehold("definitions", "sync", app, "--commands", file)
    assert [line.split()[1] for line in synced.out.splitlines()] == ["greet", "train", "sync-dropbox"]


def test_a_mistake_in_the_file_is_told_to_machines(folder: Path, database_url: str) -> None:
    (folder / "commands.toml").write_text(COMMANDS.replace("argv", "arg"))
    done = run_process("worker", "--commands", "commands.toml", "--json", url=database_url, folder=folder)
    assert done.returncode == 2
    error = orjson.loads(done.stdout)["error"]
    assert error["message"] == (
        'commands.toml, [commands.sync-dropbox], arg: a command has no such key (did you mean "argv"?).'
    )


def test_a_worker_that_could_run_nothing_does_not_start(folder: Path, database_url: str) -> None:
    (folder / "zoltag").unlink()
    done = run_process("worker", "--commands", "commands.toml", url=database_url, folder=folder)
    assert done.returncode == 2
    assert "this machine can't run any of the jobs" in done.stderr


async def test_a_worker_runs_the_commands_of_a_file(folder: Path, database_url: str) -> None:
    synced = run_process("definitions", "sync", "--commands", "commands.toml", url=database_url, folder=folder)
    assert synced.returncode == 0, synced.stderr
    async with Leasehold(database_url).open() as app:
        acme = app.tenant("acme")
        with begun("worker", "--commands", "commands.toml", url=database_url, folder=folder):
            placed = await acme.aenqueue_key("sync-dropbox", {"provider_id": UUID, "path": "-x"})
            job = await acme.jobs.await_until_final(placed.id, PATIENCE)
        lines = [line.text for line in (await acme.jobs.alines(placed.id)).lines]
    assert job is not None
    assert job.status is Status.SUCCEEDED, job.last_error
    assert lines == [f"sync|--tenant-id|acme|--provider-id|{UUID}|--path=-x"]


async def test_a_tick_runs_the_commands_of_a_file(leasehold: CommandLine, folder: Path, database_url: str) -> None:
    file = str(folder / "commands.toml")
    await leasehold("definitions", "sync", "--commands", file)
    placed = await leasehold("enqueue", "sync-dropbox", f"provider_id={UUID}", "--tenant", "acme")
    assert placed.code == 0, placed.err
    ticked = await leasehold("tick", "--commands", file, "--json")
    assert (ticked.document["ran"], ticked.document["succeeded"]) == (1, 1)


@pytest.mark.skipif(sys.platform != "linux", reason="it looks for processes in /proc")
async def test_dev_reads_commands_again_when_their_file_changes(
    started: Start, acme: TenantJobs, folder: Path
) -> None:
    dev = started("--json", "--commands", "commands.toml")
    assert "*.py and commands.toml" in (await dev.tells("dev.message", topic="watching"))["text"]
    await ends(acme, await enqueue(acme, "sync-dropbox", payload={"provider_id": UUID}))
    (folder / "commands.toml").write_text(COMMANDS.replace('"sync"', '"resync"'))
    assert "commands.toml changed" in (await dev.tells("dev.message", topic="changed"))["text"]
    await dev.tells("dev.message", topic="ready")
    again = await ends(acme, await enqueue(acme, "sync-dropbox", payload={"provider_id": UUID}))
    assert (await acme.lines(again.id, 1))[0].text.startswith("resync|")
    await dev.stop()
