"""Secret fields: encrypted at every way into the queue, decrypted only in the worker that runs the job."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import asyncpg
import psycopg
import pytest
from pydantic import BaseModel, SecretStr
from tests.app.helpers import ended
from tests.conftest import Raw

from leasehold import (
    DuplicateJob,
    IdReused,
    InvalidInput,
    Job,
    JobsRepository,
    Leasehold,
    NewJob,
    NoSecretKey,
    PayloadInvalid,
    WhileActive,
    WorkerSettings,
    new_secret_key,
)
from leasehold.config import keyring
from leasehold.model.keyring import Owner
from leasehold.model.status import Status
from leasehold.operations.secrets import rotate

SECRET = "hunter2-and-more"
ID = "01890a5d-ac96-774b-bcce-b302099a8057"
ONE = WorkerSettings(slots=1)
OWNER = Owner("acme", "sign_in")


class Login(BaseModel):
    user: str
    password: SecretStr


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    made = new_secret_key()
    monkeypatch.setenv("LEASEHOLD_SECRET_KEY", made)
    return made


@pytest.fixture
def other(database_url: str) -> Iterator[Leasehold]:
    """An app without the code of the definition."""
    created = Leasehold(database_url)
    yield created
    created.close()


def sign_in(app: Leasehold, seen: list[Any] | None = None, **options: Any) -> Any:
    @app.job(key="sign_in", **options)
    async def sign_in(job: Job, token: SecretStr, login: Login | None = None, path: str = "/") -> str:
        if seen is not None:
            seen.append((token, login))
        return path

    return sign_in


async def stored(observer: Raw) -> list[dict[str, Any]]:
    rows = await observer.fetch(
        "select payload::text from leasehold.jobs union all select payload::text from leasehold.jobs_done"
    )
    return [json.loads(row["payload"]) for row in rows]


def is_encrypted(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"$secret"} and value["$secret"].startswith("v1.")


# --------------------------------------------------------------------------------------------- into the queue and out


async def test_a_secret_is_stored_encrypted_and_reaches_the_handler(app: Leasehold, observer: Raw) -> None:
    seen: list[Any] = []
    definition = sign_in(app, seen)
    login = Login(user="ada", password=SecretStr(SECRET))
    async with app.open(worker=ONE):
        job = await ended(app, await app.tenant("acme").aenqueue(definition, SecretStr(SECRET), login))
    assert job.status is Status.SUCCEEDED
    assert seen == [(SecretStr(SECRET), login)]
    (payload,) = await stored(observer)
    assert is_encrypted(payload["token"])
    assert is_encrypted(payload["login"])
    assert payload["path"] == "/"


async def test_every_way_in_encrypts(app: Leasehold, other: Leasehold, observer: Raw, database_url: str) -> None:
    definition = sign_in(app)
    plain = {"token": SECRET}
    acme = app.tenant("acme")
    async with app.open(), other.open():
        await acme.aenqueue(definition, SecretStr(SECRET))
        await acme.aenqueue_key("sign_in", plain)
        await acme.aenqueue_many([definition.bind(SecretStr(SECRET)), NewJob(definition="sign_in", payload=plain)])
        await other.tenant("acme").aenqueue_key("sign_in", plain)
        await other.tenant("acme").aenqueue_many([NewJob(definition="sign_in", payload=plain, version=1)])
        connection = await asyncpg.connect(database_url)
        async with connection.transaction():
            await acme.within(connection).aenqueue(definition, SecretStr(SECRET))
            await acme.within(connection).aenqueue_key("sign_in", plain)
        await connection.close()

    def block() -> None:
        acme.enqueue(definition, SecretStr(SECRET))
        acme.enqueue_many(definition.bind(SecretStr(SECRET)) for _ in range(3))
        with psycopg.connect(database_url) as mine:
            acme.within(mine).enqueue(definition, SecretStr(SECRET))

    await asyncio.to_thread(block)
    payloads = await stored(observer)
    assert len(payloads) == 13
    assert all(is_encrypted(payload["token"]) for payload in payloads)
    tokens = {payload["token"]["$secret"] for payload in payloads}
    assert len(tokens) == 13
    opened = [keyring().open(each, frozenset({"token"}), OWNER)["token"] for each in payloads]
    assert opened == [SECRET] * 13


async def test_a_worker_without_the_code_of_a_field_still_refuses_plain_values(app: Leasehold, observer: Raw) -> None:
    sign_in(app)
    async with app.open(worker=ONE):
        placed = await app.tenant("acme").aenqueue_key("sign_in", {"token": SECRET})
        await ended(app, placed)
        await observer.execute(
            """update leasehold.jobs_done set payload = '{"token": "plain-text"}' where id = $1""", placed.id
        )
        await app.tenant("acme").aretry(placed.id)
        job = await ended(app, placed)
    assert (job.status, job.last_error_code) == (Status.FAILED, "payload_invalid")
    assert "its value is not encrypted" in (job.last_error or "")
    assert "plain-text" not in (job.last_error or "")


async def test_a_secret_copied_to_another_tenants_job_is_refused(app: Leasehold, observer: Raw) -> None:
    seen: list[Any] = []
    definition = sign_in(app, seen)
    async with app.open():
        own = await app.tenant("acme").aenqueue(definition, SecretStr(SECRET))
        theirs = await app.tenant("other").aenqueue(definition, SecretStr("of-the-other"))
        await observer.execute(
            """update leasehold.jobs set payload = (
                   select payload from leasehold.jobs where tenant_id = 'acme') where tenant_id = 'other'"""
        )
        async with app.open(worker=ONE):
            await ended(app, own)
            job = await ended(app, theirs)
    assert (job.status, job.last_error_code) == (Status.FAILED, "payload_invalid")
    assert "belongs to another tenant" in (job.last_error or "")
    assert seen == [(SecretStr(SECRET), None)]


async def test_the_plain_value_is_validated_before_it_is_encrypted(app: Leasehold, observer: Raw) -> None:
    sign_in(app)
    async with app.open():
        with pytest.raises(PayloadInvalid, match="token: input should be a valid string"):
            await app.tenant("acme").aenqueue_key("sign_in", {"token": 7})
        with pytest.raises(PayloadInvalid, match="token: input should be a valid string"):
            await app.tenant("acme").aenqueue_key("sign_in", {"token": {"$secret": "v1.forged"}})
    assert await stored(observer) == []


def test_inline_jobs_get_their_secrets(app: Leasehold) -> None:
    from leasehold.testing.inline import inline

    seen: list[Any] = []
    definition = sign_in(app, seen)
    with inline(app):
        app.tenant("acme").enqueue(definition, SecretStr(SECRET))
    assert seen == [(SecretStr(SECRET), None)]


def test_ticks_run_jobs_with_secrets(app: Leasehold) -> None:
    seen: list[Any] = []
    definition = sign_in(app, seen)
    app.tenant("acme").enqueue(definition, SecretStr(SECRET))
    assert app.tick().succeeded == 1
    assert seen == [(SecretStr(SECRET), None)]


async def test_a_claim_by_hand_is_decrypted_on_request(app: Leasehold) -> None:
    definition = sign_in(app)
    async with app.open():
        await app.tenant("acme").aenqueue(definition, SecretStr(SECRET))
        async with JobsRepository(app, ["sign_in"]) as jobs:
            (claim,) = await jobs.claim()
            assert SECRET not in claim.payload
            assert jobs.reveal(claim) == {"token": SECRET, "login": None, "path": "/"}
            await jobs.mark_success(claim)


# --------------------------------------------------------------------------------------------------------------- keys


async def test_without_a_key_nothing_is_enqueued(
    app: Leasehold, observer: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LEASEHOLD_SECRET_KEY")
    definition = sign_in(app)
    async with app.open():
        with pytest.raises(NoSecretKey, match="sign_in has secret fields, and LEASEHOLD_SECRET_KEY is not set"):
            await app.tenant("acme").aenqueue(definition, SecretStr(SECRET))
    assert await stored(observer) == []


async def test_without_a_key_no_worker_starts(app: Leasehold, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LEASEHOLD_SECRET_KEY")
    sign_in(app)
    with pytest.raises(NoSecretKey, match="sign_in has secret fields"):
        async with app.open(worker=ONE):
            pass
    with pytest.raises(NoSecretKey, match="sign_in has secret fields"):
        await app.atick()


async def test_a_job_of_a_missing_key_is_retried(app: Leasehold, monkeypatch: pytest.MonkeyPatch) -> None:
    definition = sign_in(app, max_attempts=1)
    async with app.open():
        placed = await app.tenant("acme").aenqueue(definition, SecretStr(SECRET))
        monkeypatch.setenv("LEASEHOLD_SECRET_KEY", new_secret_key())
        async with app.open(worker=ONE):
            job = await ended(app, placed)
    assert (job.status, job.last_error_code) == (Status.DEAD_LETTER, "secret_unreadable")
    assert "was encrypted by the key" in (job.last_error or "")


async def test_rotation_encrypts_all_jobs_by_the_first_key(
    app: Leasehold, observer: Raw, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    definition = sign_in(app)

    @app.job
    async def plain(job: Job, number: int) -> None: ...

    async with app.open():
        acme = app.tenant("acme")
        async with app.open(worker=ONE):
            await ended(app, await acme.aenqueue(definition, SecretStr("of-an-ended-job")))
        await acme.aenqueue_many(definition.bind(SecretStr(f"{SECRET}-{number}")) for number in range(25))
        await acme.aenqueue_many(plain.bind(number) for number in range(25))
        new = new_secret_key()
        monkeypatch.setenv("LEASEHOLD_SECRET_KEY", f"{new},{key}")
        done = await rotate(app.store, keyring(), batch=7)
        assert (done.encrypted, done.replaced, done.left) == (26, 26, 0)
        again = await rotate(app.store, keyring(), batch=7)
        assert (again.encrypted, again.replaced, again.left) == (26, 0, 0)
    monkeypatch.setenv("LEASEHOLD_SECRET_KEY", new)
    payloads = [each for each in await stored(observer) if "token" in each]
    opened = [keyring().open(each, frozenset({"token"}), OWNER)["token"] for each in payloads]
    assert sorted(opened) == sorted([f"{SECRET}-{number}" for number in range(25)] + ["of-an-ended-job"])


async def test_rotation_passes_over_locked_and_unreadable_jobs(
    app: Leasehold, observer: Raw, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    definition = sign_in(app)
    async with app.open():
        acme = app.tenant("acme")
        locked = await acme.aenqueue(definition, SecretStr("of-a-locked-job"))
        monkeypatch.setenv("LEASEHOLD_SECRET_KEY", new_secret_key())
        lost = await acme.aenqueue(definition, SecretStr("of-a-lost-key"))
        monkeypatch.setenv("LEASEHOLD_SECRET_KEY", f"{new_secret_key()},{key}")
        async with observer.transaction():
            await observer.execute("select from leasehold.jobs where id = $1 for update", locked.id)
            done = await rotate(app.store, keyring())
        assert (done.replaced, done.left, done.unreadable) == (0, 2, [lost.id])
        done = await rotate(app.store, keyring())
        assert (done.replaced, done.left, done.unreadable) == (1, 1, [lost.id])


# ----------------------------------------------------------------------------------------------------- dedupe and ids


async def test_equal_secrets_are_duplicates(app: Leasehold, observer: Raw) -> None:
    definition = sign_in(app)
    async with app.open():
        acme = app.tenant("acme").options(dedupe=WhileActive())
        first = await acme.aenqueue(definition, SecretStr(SECRET))
        second = await acme.aenqueue(definition, SecretStr(SECRET))
        third = await acme.aenqueue(definition, SecretStr("another-one"))
        with pytest.raises(DuplicateJob):
            await acme.options(on_conflict="raise").aenqueue(definition, SecretStr(SECRET))
    assert first.id == second.id != third.id
    keys = [row["dedupe_key"] for row in await observer.fetch("select dedupe_key from leasehold.jobs")]
    assert not any(SECRET in key for key in keys)


async def test_a_call_with_an_id_can_be_repeated(app: Leasehold) -> None:
    definition = sign_in(app)
    async with app.open():
        acme = app.tenant("acme").options(id=ID)
        first = await acme.aenqueue(definition, SecretStr(SECRET))
        again = await acme.aenqueue(definition, SecretStr(SECRET))
        assert (first.created, again.created, again.id) == (True, False, ID)
        with pytest.raises(IdReused):
            await acme.aenqueue(definition, SecretStr("another-one"))


# ----------------------------------------------------------------------------------------------------------- triggers


async def test_a_trigger_can_not_fill_a_secret_field(app: Leasehold) -> None:
    definition = sign_in(app)
    with pytest.raises(InvalidInput, match=r"payload.token is a secret field of sign_in"):
        app.on("signed.in", tenant="acme", payload={"token": "{{event.token}}"})(definition)
    async with app.open():
        with pytest.raises(InvalidInput, match=r"payload.token is a secret field of sign_in"):
            await app.tenant("acme").triggers.acreate(definition, schedule="0 2 * * *", payload={"token": SECRET})


async def test_a_trigger_older_than_the_secret_makes_no_job(app: Leasehold, other: Leasehold, observer: Raw) -> None:
    @other.job(key="sign_in")
    async def before(job: Job, token: str) -> None: ...

    definition = sign_in(app)
    async with other.open():
        await other.tenant("acme").triggers.acreate(before, event="signed.in", payload={"token": "{{event.token}}"})
    async with app.open():
        await app.store.sync_definitions([definition.definition])
        emitted = await app.tenant("acme").aemit("signed.in", {"token": "x"})
    assert emitted.jobs == ()
    assert [decision.why for decision in emitted.decisions] == [
        "payload.token is a secret field, which a trigger can't fill"
    ]
