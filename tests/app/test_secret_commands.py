"""Secrets of commands: in the payload file or the environment, never in argv, and redacted from the output."""

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from tests.app.helpers import ended
from tests.conftest import Raw

from leasehold import InvalidInput, Leasehold, WorkerSettings, new_secret_key
from leasehold.model.status import Status

SECRET = 'hunter2 "and" more'
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"user": {"type": "string"}, "password": {"type": "string", "x-secret": True}},
    "required": ["user", "password"],
    "additionalProperties": False,
}
PROGRAM = """#!/bin/sh
cat "$JOB_PAYLOAD"
echo
base64 < "$JOB_PAYLOAD" >&2
stat -c %a "$JOB_PAYLOAD"
cp "$JOB_PAYLOAD" "$OUT"
exit 3
"""


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LEASEHOLD_SECRET_KEY", new_secret_key())
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def sign_in(app: Leasehold, tmp_path: Path, *argv: str, schema: dict[str, Any] = SCHEMA) -> Any:
    program = tmp_path / "sign-in"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    return app.command(
        "sign_in",
        argv=[str(program), *argv],
        schema=schema,
        payload_file="JOB_PAYLOAD",
        env={"OUT": str(tmp_path / "seen.json")},
        max_attempts=1,
    )


async def rows_of_jobs(observer: Raw) -> str:
    rows = await observer.fetch(
        "select j::text from leasehold.jobs_done j union all select a::text from leasehold.job_attempts a "
        "union all select l::text from leasehold.job_lines l"
    )
    return "\n".join(row[0] for row in rows)


async def test_a_program_gets_its_secret_by_a_file_and_can_not_leak_it(
    app: Leasehold, observer: Raw, tmp_path: Path
) -> None:
    definition = sign_in(app, tmp_path, "--user={user}")
    async with app.open(worker=WorkerSettings(slots=1)):
        job = await ended(app, await app.tenant("acme").aenqueue(definition, user="ada", password=SECRET))
        (attempt,) = await app.tenant("acme").jobs.aattempts(job.id)
        lines = [line.text for line in (await app.tenant("acme").jobs.alines(job.id)).lines]
    assert job.last_error_code == "exit_3"
    assert json.loads((tmp_path / "seen.json").read_text()) == {"password": SECRET}
    assert "600" in lines
    assert '{"password":"[redacted]"}' in lines
    stored = await rows_of_jobs(observer)
    assert "hunter2" not in stored + repr(attempt)
    assert "aHVudGVyM" not in stored


BY_ENVIRONMENT = """#!/bin/sh
echo "the password is $SHOP_PASSWORD"
echo "$SHOP_PASSWORD" | base64 >&2
printf %s "$SHOP_PASSWORD" > "$OUT"
tr '\\0' ' ' < /proc/$$/cmdline > "$OUT.argv"
exit 3
"""


async def test_a_program_gets_its_secret_by_the_environment(app: Leasehold, observer: Raw, tmp_path: Path) -> None:
    program = tmp_path / "sign-in"
    program.write_text(BY_ENVIRONMENT)
    program.chmod(0o755)
    env = {"SHOP_PASSWORD": "{password}", "OUT": str(tmp_path / "seen")}
    argv = [str(program), "--user={user}"]
    definition = app.command("sign_in", argv=argv, schema=SCHEMA, env=env, max_attempts=1)
    async with app.open(worker=WorkerSettings(slots=1)):
        job = await ended(app, await app.tenant("acme").aenqueue(definition, user="ada", password=SECRET))
        lines = [line.text for line in await app.store.tenant(job.tenant).lines(job.id, 1)]
    assert job.last_error_code == "exit_3"
    assert (tmp_path / "seen").read_text() == SECRET
    assert "hunter2" not in (tmp_path / "seen.argv").read_text()
    assert "the password is [redacted]" in lines
    stored = await rows_of_jobs(observer)
    assert "hunter2" not in stored
    assert "aHVudGVyM" not in stored


def test_a_secret_can_not_have_a_slot(app: Leasehold, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="password is secret"):
        sign_in(app, tmp_path, "--user={user}", "--password={password}")


async def test_a_worker_whose_argv_would_show_a_secret_refuses_the_job(
    app: Leasehold, database_url: str, tmp_path: Path
) -> None:
    other = Leasehold(database_url)
    definition = sign_in(other, tmp_path, "--user={user}")
    plain = {**SCHEMA, "properties": {"user": {"type": "string"}, "password": {"type": "string"}}}
    sign_in(app, tmp_path, "--user={user}", "--password={password}", schema=plain)
    async with other.open():
        placed = await other.tenant("acme").aenqueue(definition, user="ada", password=SECRET)
    async with app.open(worker=WorkerSettings(slots=1)):
        job = await ended(app, placed)
    assert (job.status, job.last_error_code) == (Status.FAILED, "payload_invalid")
    assert "password was enqueued as a secret" in (job.last_error or "")
    assert not (tmp_path / "seen.json").exists()
