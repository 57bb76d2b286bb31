"""`leasehold secrets`, and secrets on the command line."""

import json

import pytest
from pydantic import SecretStr
from tests.cli.terminal import CommandLine, run
from tests.store.bench import Bench

from leasehold import Job, Leasehold, new_secret_key
from leasehold.model.definition import Definition
from leasehold.model.keyring import Keyring

LOGIN = Definition(
    "login",
    schema={
        "type": "object",
        "properties": {"user": {"type": "string"}, "password": {"type": "string", "x-secret": True}},
        "required": ["user", "password"],
        "additionalProperties": False,
    },
)
SECRET = "hunter2-and-more"


def test_a_new_key_is_printed_each_time() -> None:
    first, second = run(["secrets", "new-key"]), run(["secrets", "new-key", "--json"])
    assert (first.code, second.code) == (0, 0)
    assert Keyring.read(first.out.strip())
    assert Keyring.read(second.document["key"])
    assert first.out.strip() != second.document["key"]


async def test_an_enqueued_secret_is_encrypted_and_not_shown(leasehold: CommandLine, bench: Bench) -> None:
    await bench.store.sync_definitions([LOGIN])
    key = new_secret_key()
    words = ("enqueue", "login", "--payload", "-", "--tenant", "acme")
    done = await leasehold(*words, stdin=json.dumps({"user": "ada", "password": SECRET}), LEASEHOLD_SECRET_KEY=key)
    assert done.code == 0
    shown = await leasehold("job", done.out.strip(), "--json")
    assert shown.document["payload"] == {"user": "ada", "password": "[secret]"}
    text = await leasehold("job", done.out.strip())
    assert "[secret]" in text.out
    assert "v1." not in text.out + shown.out


async def test_an_enqueue_without_a_key_is_refused(leasehold: CommandLine, bench: Bench) -> None:
    await bench.store.sync_definitions([LOGIN])
    done = await leasehold("enqueue", "login", "user=ada", f"password={SECRET}", "--tenant", "acme", "--json")
    assert (done.code, done.error["code"]) == (2, "LH-1040")
    assert SECRET not in done.out + done.err


async def test_rotate_tells_how_many_jobs_it_changed(
    leasehold: CommandLine, bench: Bench, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = new_secret_key(), new_secret_key()
    monkeypatch.setenv("LEASEHOLD_SECRET_KEY", old)
    app = Leasehold(database_url)

    @app.job
    def sign_in(job: Job, token: SecretStr) -> None: ...

    async with app.open():
        await app.tenant("acme").aenqueue_many(sign_in.bind(SecretStr(SECRET)) for _ in range(3))
    refused = await leasehold("secrets", "rotate", LEASEHOLD_SECRET_KEY=new)
    assert refused.code == 1
    assert "3 jobs left with other keys" in refused.err
    done = await leasehold("secrets", "rotate", LEASEHOLD_SECRET_KEY=f"{new},{old}")
    assert done.code == 0
    assert "✓ 3 jobs encrypted by the key" in done.out
    again = await leasehold("secrets", "rotate", "--json", LEASEHOLD_SECRET_KEY=new)
    counts = {"encrypted": 3, "replaced": 0, "left": 0, "passed": 0}
    assert again.document == {**counts, "unreadable": [], "passed_over": []}


async def test_rotate_passes_over_values_that_no_key_encrypted(
    leasehold: CommandLine, bench: Bench, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = new_secret_key(), new_secret_key()
    monkeypatch.setenv("LEASEHOLD_SECRET_KEY", old)
    app = Leasehold(database_url)

    @app.job
    def sign_in(job: Job, token: SecretStr) -> None: ...

    @app.job
    def keep(job: Job, x: dict[str, str]) -> None: ...

    async with app.open():
        acme = app.tenant("acme")
        await acme.aenqueue(sign_in, SecretStr(SECRET))
        passed = [await acme.aenqueue(keep, {"$secret": text}) for text in ("…", "v1.00000000.AAAA")]
    done = await leasehold("secrets", "rotate", LEASEHOLD_SECRET_KEY=f"{new},{old}")
    assert done.code == 0
    assert "✓ 1 job encrypted by the key" in done.out
    assert f"2 jobs passed over, with values that no key encrypted: {passed[0].id}, {passed[1].id}" in done.out
    assert "no job needs another key any more" in done.out


async def test_rotate_without_a_key_is_refused(leasehold: CommandLine, bench: Bench) -> None:
    done = await leasehold("secrets", "rotate", "--json", LEASEHOLD_SECRET_KEY="")
    assert (done.code, done.error["code"]) == (2, "LH-1040")
