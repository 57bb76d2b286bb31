"""Fifty canaries through every channel: none is in the database, the logs or the output of commands."""

import base64
import json
import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from urllib.parse import quote

import pytest
from pydantic import SecretStr
from tests.app.helpers import ended
from tests.cli.terminal import CommandLine
from tests.conftest import Raw

from leasehold import Enqueued, Fail, Job, Leasehold, RetryLater, WorkerSettings, new_secret_key
from leasehold.config import process_redactor
from leasehold.runtime.redacted_logs import RedactionFilter

COUNT = 50
shop_log = logging.getLogger("shop")


def canary(number: int) -> str:
    """A secret with characters that JSON, URLs, HTML and Python write in ways of their own."""
    return f'c4n4ry-{number:02} "ä/&\\?={number * 7919}'


def forms_of(secret: str) -> Iterator[str]:
    raw = secret.encode()
    yield secret
    yield f"ry-{secret[7:9]}"  # a part, as a cut would leave it
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield repr(secret)[1:-1]
    yield repr(raw)[2:-1]
    yield raw.hex()
    yield base64.b64encode(raw).decode()
    yield quote(secret)
    yield quote(secret, safe="")


def leak_in_an_error(job: Job, secret: str) -> Any:
    raise ValueError(f"refused: {secret}")


def leak_in_a_chain_of_errors(job: Job, secret: str) -> Any:
    try:
        raise KeyError(secret)
    except KeyError as error:
        raise RuntimeError(f"after {error}") from error


def leak_in_a_context(job: Job, secret: str) -> Any:
    try:
        leak_in_an_error(job, secret)
    finally:
        dict[str, str]()[secret]


def leak_in_a_long_error(job: Job, secret: str) -> Any:
    raise ValueError("x" * 9_990 + secret + "y" * 9_990)


def leak_in_a_failure(job: Job, secret: str) -> Any:
    raise Fail(json.dumps({"password": secret}))


def leak_in_a_retry(job: Job, secret: str) -> Any:
    raise RetryLater("1h", f"{secret.encode()!r}")


def leak_in_notes(job: Job, secret: str) -> Any:
    error = ValueError("refused")
    error.add_note(f"by {secret}")
    raise error


def leak_in_lines(job: Job, secret: str) -> Any:
    for form in forms_of(secret):
        if len(form) > 5:
            job.log(f"as {form}.")
    job.log(secret.encode())  # type: ignore[arg-type]
    job.log(json.dumps({"nested": [{"secret": secret}]}))
    job.log("z" * 9_990 + secret)


def leak_in_progress(job: Job, secret: str) -> Any:
    job.progress(0.5, f"half of {secret}")


def leak_in_a_result(job: Job, secret: str) -> Any:
    return f"it is {secret}"


def leak_in_a_document(job: Job, secret: str) -> Any:
    return {"nested": [secret, {secret: 1}], "form": base64.b64encode(f"user:{secret}".encode()).decode()}


def leak_in_a_bad_result(job: Job, secret: str) -> Any:
    return {"unstorable": object(), secret: secret}


def leak_in_a_bad_key(job: Job, secret: str) -> Any:
    return {secret: float("nan")}


def leak_in_logs(job: Job, secret: str) -> Any:
    shop_log.warning("sent %s", secret)
    logging.getLogger("leasehold.worker").warning("sent %r", {"key": secret})
    try:
        raise ValueError(secret)
    except ValueError:
        shop_log.exception("failed")


def leak_nothing(job: Job, secret: str) -> Any:
    return len(secret)


CHANNELS: list[Callable[[Job, str], Any]] = [
    value for name, value in list(globals().items()) if name.startswith("leak_")
]


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


async def dump(observer: Raw) -> str:
    """All rows of all tables, as text."""
    tables = await observer.fetch(
        "select c.oid::regclass::text as name from pg_class c "
        "where c.relnamespace = 'leasehold'::regnamespace and c.relkind = 'r'"
    )
    assert len(tables) > 10
    texts = []
    for table in tables:
        rows = await observer.fetch(f"select t::text as row from {table['name']} t")  # noqa: S608
        texts += [row["row"] for row in rows]
    return "\n".join(texts)


def found(text: str, secrets: list[str]) -> list[str]:
    """Returns the forms of secrets in the text, also if JSON or a row has written its quotes in another way."""
    bare = text.replace('""', '"').replace("\\\\", "\\").replace('\\"', '"')
    return [form for secret in secrets for form in forms_of(secret) if form in text or form in bare]


async def printed(leasehold: CommandLine, jobs: list[Enqueued[Any]]) -> str:
    answers = [await leasehold("jobs", "--json"), await leasehold("jobs")]
    for job in jobs:
        answers += [await leasehold("job", job.id), await leasehold("job", job.id, "--json")]
        answers += [await leasehold("logs", job.id), await leasehold("logs", job.id, "--json")]
    assert {answer.code for answer in answers} == {0}
    return "\n".join(answer.out + answer.err for answer in answers)


@pytest.mark.parametrize("in_thread", [False, True], ids=["coroutine", "thread"])
async def test_no_canary_of_a_payload_is_found_anywhere(
    app: Leasehold, database_url: str, observer: Raw, logs: pytest.LogCaptureFixture, in_thread: bool
) -> None:
    def run(job: Job, channel: int, secret: SecretStr, unused: list[SecretStr]) -> Any:
        return CHANNELS[channel](job, secret.get_secret_value())

    async def arun(job: Job, channel: int, secret: SecretStr, unused: list[SecretStr]) -> Any:
        return CHANNELS[channel](job, secret.get_secret_value())

    definition = app.job(key="leak", max_attempts=1)(run if in_thread else arun)
    secrets = [canary(number) for number in range(COUNT)]
    async with app.open(worker=WorkerSettings(slots=5)):
        acme = app.tenant("acme")
        jobs = [
            await acme.aenqueue(definition, number % len(CHANNELS), SecretStr(secret), [SecretStr(secret[::-1])])
            for number, secret in enumerate(secrets)
        ]
        for job in jobs:
            await ended(app, job)
    stored = await dump(observer)
    assert found(stored, secrets) == []
    assert "[redacted]" in stored
    assert found(logs.text, secrets) == []
    assert "[redacted]" in logs.text
    shown = await printed(CommandLine(database_url), jobs[: len(CHANNELS)])
    assert found(shown, secrets) == []


async def test_no_canary_of_the_environment_is_found_anywhere(
    app: Leasehold, observer: Raw, logs: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = [canary(number) for number in range(COUNT)]
    for number, secret in enumerate(secrets):
        monkeypatch.setenv(f"CANARY_{number}_TOKEN", secret)
    process_redactor.cache_clear()

    @app.job(max_attempts=1)
    async def leak(job: Job, number: int) -> Any:
        return CHANNELS[number % len(CHANNELS)](job, secrets[number])

    async with app.open(worker=WorkerSettings(slots=5)):
        jobs = await app.tenant("acme").aenqueue_many(map(leak.bind, range(COUNT)))
        for job in jobs:
            await ended(app, job)
    stored = await dump(observer)
    assert found(stored, secrets) == []
    assert found(logs.text, secrets) == []
    monkeypatch.undo()
    process_redactor.cache_clear()


def test_a_canary_that_is_not_redacted_would_be_found() -> None:
    secret = canary(3)
    leaked: list[Callable[[str], str]] = [
        partial(json.dumps, ensure_ascii=True),
        repr,
        quote,
        lambda text: text.encode().hex(),
    ]
    for write in leaked:
        assert found(f"({write(secret)})", [secret])
