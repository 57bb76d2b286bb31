"""Fifty canaries through every channel: none is in the database, the logs or the output of commands."""

import asyncio
import base64
import json
import logging
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from pydantic import SecretStr
from tests.app.canaries import CHANNELS, COUNT, MARKS, canary, forms_of, found, parts_of, variable_of
from tests.app.canary_app import app as canary_app
from tests.app.helpers import ended
from tests.cli.terminal import CommandLine
from tests.cli.test_migrate import COMMAND

from leasehold import Enqueued, InvalidInput, Job, Leasehold, Status, WorkerSettings, new_secret_key
from leasehold.app.tenant import Tenant
from leasehold.embedded.binaries import find_installed
from leasehold.runtime.redacted_logs import RedactionFilter

ROOT = Path(__file__).parents[2]
SECRETS = [canary(number) for number in range(COUNT)]
OF_ENVIRONMENT = [canary(number + COUNT) for number in range(COUNT)]


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEASEHOLD_SECRET_KEY", new_secret_key())


@pytest.fixture
def logs(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """The logs as `leasehold worker` writes them."""
    added = RedactionFilter()
    caplog.handler.addFilter(added)
    caplog.set_level(logging.DEBUG)
    yield caplog
    caplog.handler.removeFilter(added)


async def dump(url: str) -> str:
    """The whole database, as pg_dump writes it."""
    pg_dump = next(each.folder / "pg_dump" for each in find_installed() if (each.folder / "pg_dump").exists())
    run = partial(subprocess.run, [str(pg_dump), url], capture_output=True, encoding="utf-8", check=True)
    made = await asyncio.to_thread(run)
    assert "COPY leasehold.jobs_done" in made.stdout
    return made.stdout


@contextmanager
def working(url: str, folder: Path) -> Iterator[None]:
    """`leasehold worker --json` in a process, with canaries in its environment. Its output is in the folder."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("LEASEHOLD_URL")}
    canaries = {variable_of(number): secret for number, secret in enumerate(OF_ENVIRONMENT)}
    own = {"LEASEHOLD_URL": url, "CANARY_LOG": str(folder / "app.log"), "PYTHONIOENCODING": "utf-8"}
    command = [*COMMAND, "worker", "tests.app.canary_app", "--json", "--slots", "5"]
    with (
        open(folder / "events", "wb") as events,
        open(folder / "stderr", "wb") as stderr,
        subprocess.Popen(command, cwd=ROOT, env=inherited | canaries | own, stdout=events, stderr=stderr) as worker,
    ):
        try:
            yield
        finally:
            worker.terminate()
    assert worker.returncode == 0


async def enqueue_canaries(tenant: Tenant) -> dict[str, list[Enqueued[Any]]]:
    """Each kind of handler gets each canary; together the canaries go through each channel."""
    placed: dict[str, list[Enqueued[Any]]] = {}
    for key in ("on_the_loop", "in_a_thread", "in_a_process", "by_a_program"):
        payloads = [
            {"channel": number % len(CHANNELS), "secret": secret, "unused": [secret[::-1]]}
            for number, secret in enumerate(SECRETS)
        ]
        placed[key] = [await tenant.aenqueue_key(key, payload) for payload in payloads]
    for key in ("of_the_environment", "of_the_environment_in_a_process"):
        placed[key] = [await tenant.aenqueue_key(key, {"number": number}) for number in range(COUNT)]
    return placed


async def printed(leasehold: CommandLine, jobs: list[Enqueued[Any]]) -> str:
    """Returns all that the command line shows of these jobs."""
    answers = [await leasehold("jobs", "--json"), await leasehold("jobs")]
    for job in jobs:
        answers += [await leasehold("job", job.id, "--json"), await leasehold("logs", job.id, "--json")]
    answers += [await leasehold("job", jobs[0].id), await leasehold("logs", jobs[0].id)]
    assert {answer.code for answer in answers} == {0}
    return "\n".join(answer.out + answer.err for answer in answers)


@pytest.mark.timeout(300)  # 300 jobs, in processes of their own among them
async def test_no_canary_is_found_anywhere(database_url: str, tmp_path: Path) -> None:
    canary_app.configure(url=database_url)
    async with canary_app.open():
        placed = await enqueue_canaries(canary_app.tenant("acme"))
        with working(database_url, tmp_path):
            jobs = [await ended(canary_app, job) for kind in placed.values() for job in kind]
    assert {job.status for job in jobs} == {Status.SUCCEEDED, Status.DEAD_LETTER, Status.FAILED}
    assert not [job for job in jobs if job.last_error_code in ("payload_invalid", "secret_unreadable", "not_started")]
    texts = {name: (tmp_path / name).read_text("utf-8") for name in ("events", "stderr", "app.log")}
    texts["dump"] = await dump(database_url)
    some = [*placed["in_a_process"][: len(CHANNELS)], *placed["by_a_program"][:2]]
    texts["shown"] = await printed(CommandLine(database_url), some)
    for name, text in texts.items():
        assert (name, found(text, [*SECRETS, *OF_ENVIRONMENT])) == (name, [])
        assert (name, "[redacted]" in text) == (name, True)
    assert "imported with [redacted]" in texts["app.log"]
    assert '"event":"job.logged"' in texts["events"]


async def test_no_canary_is_found_after_a_run_in_an_own_process(
    app: Leasehold, database_url: str, logs: pytest.LogCaptureFixture
) -> None:
    @app.job(max_attempts=1)
    async def leak(job: Job, channel: int, secret: SecretStr) -> Any:
        return CHANNELS[channel](job, secret.get_secret_value())

    async with app.open(worker=WorkerSettings(slots=5)):
        acme = app.tenant("acme")
        given = [(number % len(CHANNELS), SecretStr(secret)) for number, secret in enumerate(SECRETS)]
        jobs = [await acme.aenqueue(leak, channel, secret) for channel, secret in given]
        for job in jobs:
            await ended(app, job)
    for text in (await dump(database_url), logs.text):
        assert found(text, SECRETS) == []
        assert "[redacted]" in text


async def test_no_canary_is_found_in_a_preview_of_an_argv(database_url: str) -> None:
    payload = json.dumps({"channel": 1, "secret": SECRETS[0], "unused": SECRETS})
    words = ("definitions", "show", "by_a_program", "--app", "tests.app.canary_app", "--payload", payload)
    for more in ((), ("--json",)):
        shown = await CommandLine(database_url)(*words, *more)
        assert shown.code == 0
        assert "[secret]" in shown.out
        assert found(shown.out + shown.err, SECRETS) == []


async def test_no_canary_is_stored_by_the_template_of_a_trigger(app: Leasehold, database_url: str) -> None:
    @app.job
    async def leak(job: Job, secret: SecretStr) -> None: ...

    async with app.open():
        triggers = app.tenant("acme").triggers
        for secret in SECRETS:
            with pytest.raises(InvalidInput, match="is a secret field") as refused:
                await triggers.acreate(leak, schedule="0 2 * * *", payload={"secret": secret})
            assert found(str(refused.value), [secret]) == []
    assert found(await dump(database_url), SECRETS) == []


def test_a_canary_that_is_not_redacted_would_be_found() -> None:
    secret = canary(3)
    leaked: list[Callable[[str], str]] = [
        partial(json.dumps, ensure_ascii=True),
        repr,
        quote,
        lambda text: text.encode().hex(),
        lambda text: base64.encodebytes(b"x" * 50 + text.encode() + b"yyyy").decode(),
        lambda text: base64.encodebytes(b"x" * 51 + text.encode() + b"yyyy").decode(),
        lambda text: base64.encodebytes(b"x" * 52 + text.encode() + b"yyyy").decode(),
    ]
    for write in leaked:
        assert found(f"({write(secret)})", [secret])
    for form in (*forms_of(secret), *parts_of(secret)):
        assert MARKS.search(form)
