"""Jobs that `bind(…)` did not make are validated like those that it made, before anything is enqueued."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from leasehold import EnqueueJobInput, InvalidInput, Job, JobsRepository, Leasehold, NewJob, PayloadInvalid
from leasehold.app.arguments import Arguments
from leasehold.errors import UnknownDefinition


def note(job: Job, number: int, text: str = "none") -> None: ...


@pytest.fixture
def bind(app: Leasehold) -> Callable[..., NewJob]:
    return app.job(note).bind


@pytest.fixture
def other(database_url: str) -> Iterator[Leasehold]:
    """An app of other code on the same database. This app does not know its definitions."""
    created = Leasehold(database_url)

    @created.job(key="theirs")
    def theirs(job: Job, number: int) -> None: ...

    async def register() -> None:
        async with created.open():
            await created.store.sync_definitions(created.handlers.definitions)

    asyncio.run(register())
    yield created
    created.close()


def hand_made(payload: dict[str, Any], definition: str = "note", **fields: Any) -> NewJob:
    return NewJob(definition=definition, payload=payload, **fields)


def payloads(app: Leasehold) -> list[Any]:
    async def read() -> list[Any]:
        async with app.open():
            return [job.payload for job in (await app.tenant("acme").jobs.alist(limit=1000)).jobs]

    return asyncio.run(read())


@contextmanager
def refused(match: str, number: int | None = None) -> Iterator[None]:
    with pytest.raises(PayloadInvalid, match=match) as caught:
        yield
    assert caught.value.number == number
    assert "Nothing was enqueued." in str(caught.value)


def test_many_jobs_refuse_a_hand_made_one_that_does_not_fit(app: Leasehold, bind: Callable[..., NewJob]) -> None:
    with refused(r"LH-1001: job 2 of those given: note: number: missing; wrong: unknown argument", number=2):
        app.tenant("acme").enqueue_many([bind(1), hand_made({"wrong": 1}), bind(2)])
    assert payloads(app) == []


def test_the_number_of_a_refused_job_counts_earlier_chunks(app: Leasehold, bind: Callable[..., NewJob]) -> None:
    jobs = [*(bind(number) for number in range(5)), hand_made({"number": "x"})]
    with refused(r"job 6 of those given: note: number: ", number=6):
        app.tenant("acme").enqueue_many(jobs, chunk=2)
    assert payloads(app) == []


def test_a_hand_made_job_gets_the_defaults_of_its_handler(app: Leasehold, bind: Callable[..., NewJob]) -> None:
    app.tenant("acme").enqueue_many([hand_made({"number": 7}, priority=3), bind(8)])
    assert sorted(payloads(app), key=lambda payload: payload["number"]) == [
        {"number": 7, "text": "none"},
        {"number": 8, "text": "none"},
    ]


def test_a_hand_made_job_is_validated_within_a_transaction(
    app: Leasehold, bind: Callable[..., NewJob], database_url: str
) -> None:
    with psycopg.connect(database_url) as connection:
        with refused(r"note: number: missing"):
            app.tenant("acme").within(connection).enqueue_many([hand_made({})])
        app.tenant("acme").within(connection).enqueue_many([hand_made({"number": 1})])
    assert payloads(app) == [{"number": 1, "text": "none"}]


def test_a_job_of_other_code_is_checked_by_its_schema(app: Leasehold, other: Leasehold) -> None:
    with refused(r'theirs: payload.wrong: unknown field; payload: "number" is a required property'):
        app.tenant("acme").enqueue_many([hand_made({"wrong": 1}, "theirs")])
    app.tenant("acme").enqueue_many([hand_made({"number": 1}, "theirs")])
    assert payloads(app) == [{"number": 1}]


def test_a_hand_made_job_of_an_unknown_definition_is_refused(app: Leasehold, other: Leasehold) -> None:
    with pytest.raises(UnknownDefinition, match=r'no definition has the key "thiers". Did you mean "theirs"'):
        app.tenant("acme").enqueue_many([hand_made({}, "thiers")])


@pytest.fixture
def newer(app: Leasehold, other: Leasehold) -> Leasehold:
    """This app has version 2 of the definition, other code has version 1."""

    @app.job(key="theirs")
    def ours(job: Job, name: str) -> None: ...

    app.tenant("acme").enqueue(ours, "Ada")
    return app


def test_a_job_that_names_an_older_version_has_to_fit_it(newer: Leasehold) -> None:
    newer.tenant("acme").enqueue_many([hand_made({"number": 1}, "theirs", version=1)])
    with refused(r'theirs: payload.name: unknown field .*; payload: "number" is a required property'):
        newer.tenant("acme").enqueue_many([hand_made({"name": "Ada"}, "theirs", version=1)])
    assert payloads(newer) == [{"number": 1}, {"name": "Ada"}]


def test_a_job_that_names_the_apps_version_fits_its_handler(newer: Leasehold) -> None:
    with refused(r"theirs: name: missing"):
        newer.tenant("acme").enqueue_many([hand_made({}, "theirs", version=2)])


def test_a_job_that_names_a_version_nobody_has_is_refused(newer: Leasehold) -> None:
    with pytest.raises(UnknownDefinition, match=r"version 9 of 'theirs' does not exist"):
        newer.tenant("acme").enqueue_many([hand_made({}, "theirs", version=9)])


def test_a_bound_job_is_validated_once(
    app: Leasehold, bind: Callable[..., NewJob], monkeypatch: pytest.MonkeyPatch
) -> None:
    def validate(*_: object) -> Any:
        raise AssertionError("a bound job was validated a second time")

    monkeypatch.setattr(Arguments, "fill_defaults", validate)
    acme = app.tenant("acme").options(priority=7, dedupe_key="k")
    assert acme.enqueue_many([bind(1)]).created == 1
    assert payloads(app) == [{"number": 1, "text": "none"}]


def test_the_number_counts_earlier_chunks_within_a_transaction(
    app: Leasehold, bind: Callable[..., NewJob], database_url: str
) -> None:
    with psycopg.connect(database_url) as connection, refused(r"job 4 of those given: note: number", number=4):
        jobs = [bind(1), bind(2), bind(3), hand_made({"number": "x"})]
        app.tenant("acme").within(connection).enqueue_many(jobs, chunk=2)


# JobsRepository


async def test_a_repository_validates_jobs_of_the_app(app: Leasehold, bind: Callable[..., NewJob]) -> None:
    async with app.open(), JobsRepository(app) as jobs:
        with refused(r"note: number: missing; wrong: unknown argument"):
            await jobs.enqueue(EnqueueJobInput("note", org_id="acme", payload={"wrong": 1}))
        job = await jobs.enqueue(EnqueueJobInput("note", org_id="acme", payload={"number": 1}))
        assert (await app.tenant("acme").aget(job)).payload == {"number": 1, "text": "none"}


def test_a_repository_validates_jobs_of_other_code(app: Leasehold, other: Leasehold) -> None:
    async def call() -> None:
        async with app.open(), JobsRepository(app, types=["theirs"]) as jobs:
            with refused(r'theirs: payload: "number" is a required property'):
                await jobs.enqueue(EnqueueJobInput("theirs", org_id="acme"))

    asyncio.run(call())


async def test_a_repository_takes_any_object_for_a_type_of_its_own(app: Leasehold) -> None:
    async with app.open(), JobsRepository(app, types=["by_hand"], lease=timedelta(hours=1)) as jobs:
        job = await jobs.enqueue(EnqueueJobInput("by_hand", org_id="acme", payload={"any": ["thing"]}))
        assert (await app.tenant("acme").aget(job)).payload == {"any": ["thing"]}


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("not to be shown")


def test_what_is_no_job_is_refused_even_if_it_can_not_be_printed(app: Leasehold) -> None:
    other: Any = Unprintable()
    with pytest.raises(InvalidInput, match="got a value of type Unprintable, which is not a job"):
        app.tenant("acme").enqueue_many([hand_made({"number": 1}), other])
    with pytest.raises(InvalidInput, match="a value of type Unprintable is not a definition"):
        app.tenant("acme").enqueue(other)
    assert payloads(app) == []


@pytest.mark.parametrize("key", [7, b"note", None, ["note"], Unprintable()], ids=lambda key: type(key).__name__)
def test_a_key_that_is_not_text_is_refused(app: Leasehold, key: Any) -> None:
    with pytest.raises(UnknownDefinition, match=r"is not the key of a definition.*Nothing was enqueued"):
        app.tenant("acme").enqueue_key(key, {})
