"""Tenant handles: blocking and awaited, typed, and without effect if an argument is wrong."""

import asyncio
import gc
import os
import socket
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest
from tests.app.helpers import count_size, rows

from leasehold import (
    Always,
    DuplicateJob,
    Enqueued,
    Job,
    Leasehold,
    PayloadInvalid,
    Status,
    Unreachable,
    WhileActive,
    WrongState,
)
from leasehold.errors import BlockingCall, NoTenant, SchemaMismatch, UnknownDefinition, UnknownJob
from leasehold.model.status import DisplayState
from leasehold.store import CancelAnswer


async def change(database_url: str, statement: str) -> None:
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


# ------------------------------------------------------------------------------------------------------------ enqueue


def test_a_blocking_enqueue_places_a_job_that_can_be_read(app: Leasehold) -> None:
    sized = app.job(count_size)
    placed = app.tenant("acme").enqueue(sized, "p_9", path="/x")
    assert placed.created
    job = app.tenant("acme").get(placed.id)
    assert (job.tenant, job.definition, job.status, job.payload) == (
        "acme",
        "count_size",
        Status.QUEUED,
        {"provider_id": "p_9", "path": "/x", "extra": None},
    )


async def test_an_awaited_enqueue_works_outside_of_open_too(app: Leasehold) -> None:
    placed = await app.tenant("acme").aenqueue(app.job(count_size), "p_9")
    assert (await app.tenant("acme").aget(placed.id)).payload["provider_id"] == "p_9"
    await asyncio.to_thread(app.close)


async def test_many_loops_and_threads_may_use_one_app(app: Leasehold) -> None:
    sized = app.job(count_size)
    acme = app.tenant("acme")

    def own_loop(number: int) -> Enqueued[int]:
        return asyncio.run(acme.aenqueue(sized, f"loop {number}"))

    blocking = (asyncio.to_thread(acme.enqueue, sized, f"thread {number}") for number in range(5))
    loops = (asyncio.to_thread(own_loop, number) for number in range(5))
    placed = await asyncio.gather(*blocking, *loops)
    assert len({each.id for each in placed}) == 10
    await asyncio.to_thread(app.close)


async def test_a_blocking_call_on_a_loop_is_refused_with_its_twin(app: Leasehold, database_url: str) -> None:
    with pytest.raises(BlockingCall, match=r"LH-3003.*aenqueue"):
        app.tenant("acme").enqueue(app.job(count_size), "p_9")
    assert await rows(database_url) == 0


def test_an_app_with_one_tenant_needs_no_handle(database_url: str) -> None:
    app = Leasehold(database_url, tenant="default")
    placed = app.enqueue(app.job(count_size), "p_9")
    assert placed.tenant == "default"
    app.close()


def test_an_app_without_a_tenant_says_what_to_write(app: Leasehold) -> None:
    with pytest.raises(NoTenant, match=r'LH-1004.*app\.tenant\("acme"\)\.enqueue'):
        app.enqueue(app.job(count_size), "p_9")


def test_options_stay_with_the_handle_they_were_set_on(app: Leasehold) -> None:
    sized = app.job(count_size)
    acme = app.tenant("acme")
    later = acme.options(delay="5m", priority=10, correlation_id="order-7").options(max_attempts=2)
    job = acme.get(later.enqueue(sized, "p_9").id)
    assert (job.display, job.priority, job.correlation_id, job.max_attempts) == (
        DisplayState.SCHEDULED,
        10,
        "order-7",
        2,
    )
    assert acme.get(acme.enqueue(sized, "p_9").id).display is DisplayState.READY


def test_a_moment_may_be_given_instead_of_a_delay(app: Leasehold) -> None:
    moment = datetime(2040, 1, 1, tzinfo=UTC)
    placed = app.tenant("acme").options(at=moment).enqueue(app.job(count_size), "p_9")
    assert app.tenant("acme").get(placed.id).scheduled_for == moment


def test_what_is_said_last_about_when_it_is_due_counts(app: Leasehold) -> None:
    sized = app.job(count_size)
    acme, moment = app.tenant("acme"), datetime(2040, 1, 1, tzinfo=UTC)
    delayed = acme.get(acme.options(at=moment).options(delay="5m").enqueue(sized, "p_9").id)
    assert delayed.scheduled_for - delayed.queued_at == timedelta(minutes=5)
    at_the_moment = acme.get(acme.options(delay="5m").options(at=moment).enqueue(sized, "p_9").id)
    assert at_the_moment.scheduled_for == moment


def test_a_dedupe_key_gives_the_job_that_holds_it(app: Leasehold) -> None:
    sized = app.job(count_size)
    handle = app.tenant("acme").options(dedupe_key="folder-1")
    first, second = handle.enqueue(sized, "p_9"), handle.enqueue(sized, "p_10")
    assert (second.id, second.created) == (first.id, False)


def test_without_a_key_dedupe_goes_by_the_arguments(app: Leasehold) -> None:
    sized = app.job(count_size)
    handle = app.tenant("acme").options(dedupe=WhileActive())
    first, same, other = (
        handle.enqueue(sized, "p_9"),
        handle.enqueue(sized, "p_9", "/"),
        handle.enqueue(sized, "p_10"),
    )
    assert same.id == first.id
    assert other.created


def test_the_same_id_gives_the_same_job(app: Leasehold) -> None:
    handle = app.tenant("acme").options(id=str(uuid4()))
    sized = app.job(count_size)
    assert handle.enqueue(sized, "p_9").id == handle.enqueue(sized, "p_9").id


def test_many_are_enqueued_all_or_none(app: Leasehold) -> None:
    sized = app.job(count_size)
    placed = app.tenant("acme").enqueue_many(sized.bind(f"p_{number}") for number in range(20))
    assert len({each.id for each in placed}) == 20


def test_by_key_another_process_s_definition_is_enqueued_and_checked(app: Leasehold, database_url: str) -> None:
    app.tenant("acme").enqueue(app.job(count_size), "p_9")  # this registers it
    other = Leasehold(database_url)
    placed = other.tenant("acme").enqueue_key("count_size", {"provider_id": "p_10"})
    assert other.tenant("acme").get(placed.id).payload == {"provider_id": "p_10"}
    with pytest.raises(PayloadInvalid, match="provider_idd: unknown field"):
        other.tenant("acme").enqueue_key("count_size", {"provider_id": "p_10", "provider_idd": 1})
    other.close()


def test_an_unknown_definition_leaves_the_known_versions(
    app: Leasehold, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    sized, foreign = app.job(count_size), Leasehold(database_url).job(key="foreign")(count_size)
    app.tenant("acme").enqueue(sized, "p_9")
    asyncio.run(change(database_url, "update leasehold.definition_versions set timeout = interval '7 s'"))
    caplog.set_level("INFO")
    with pytest.raises(UnknownDefinition):
        app.tenant("acme").enqueue(foreign, "p_9")
    app.tenant("acme").enqueue(sized, "p_9")
    assert [record.getMessage() for record in caplog.records if "count_size" in record.getMessage()] == []


def test_a_recreated_database_gets_its_definitions_again(app: Leasehold, database_url: str) -> None:
    sized = app.job(count_size)
    app.tenant("acme").enqueue(sized, "p_9")

    everything = "truncate leasehold.definitions, leasehold.definition_versions, leasehold.jobs, leasehold.triggers"
    asyncio.run(change(database_url, everything))
    assert app.tenant("acme").enqueue(sized, "p_9").created


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_opens_its_own(app: Leasehold) -> None:
    sized = app.job(count_size)
    app.tenant("acme").enqueue(sized, "parent")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        placed = app.tenant("acme").enqueue(sized, "child")
        app.close()
        os.write(writing, placed.id.encode())
        os._exit(0)
    os.close(writing)
    assert os.waitpid(child, 0)[1] == 0
    job = app.tenant("acme").get(os.read(reading, 100).decode())
    os.close(reading)
    assert job.payload["provider_id"] == "child"
    assert app.tenant("acme").enqueue(sized, "parent").created


# ------------------------------------------------------------------------------------------------------ read, change


def test_an_unknown_job_is_said_to_be_for_every_verb(app: Leasehold) -> None:
    acme, nobody = app.tenant("acme"), str(UUID(int=5))
    for verb in (acme.get, acme.cancel, acme.retry, acme.run_now):
        with pytest.raises(UnknownJob, match=r'LH-1008: tenant "acme" has no job .*Nothing was changed'):
            verb(nobody)


def test_a_job_of_another_tenant_is_unknown(app: Leasehold) -> None:
    placed = app.tenant("globex").enqueue(app.job(count_size), "p")
    with pytest.raises(UnknownJob):
        app.tenant("acme").cancel(placed.id)
    assert app.tenant("globex").get(placed.id).status is Status.QUEUED


def test_what_waits_is_canceled_and_can_be_retried(app: Leasehold) -> None:
    acme = app.tenant("acme")
    placed = acme.enqueue(app.job(count_size), "p")
    assert acme.cancel(placed.id) is CancelAnswer.CANCELED
    acme.retry(placed.id)
    assert acme.get(placed.id).status is Status.QUEUED


def test_what_has_ended_can_not_be_canceled_or_made_due(app: Leasehold) -> None:
    acme = app.tenant("acme")
    placed = acme.enqueue(app.job(count_size), "p")
    acme.cancel(placed.id)
    for verb in (acme.cancel, acme.run_now):
        with pytest.raises(WrongState, match=r"LH-1009: job .* it is canceled\. Nothing was changed"):
            verb(placed.id)


def test_what_waits_can_not_be_retried(app: Leasehold) -> None:
    acme = app.tenant("acme")
    placed = acme.enqueue(app.job(count_size), "p")
    with pytest.raises(WrongState, match=r"it is ready\. Nothing was changed"):
        acme.retry(placed.id)
    assert acme.get(placed.id).attempt == 0


def test_a_retry_is_refused_while_another_job_holds_the_key(app: Leasehold) -> None:
    acme = app.tenant("acme").options(dedupe_key="one")
    sized = app.job(count_size)
    first = acme.enqueue(sized, "p")
    acme.cancel(first.id)
    acme.enqueue(sized, "p")
    with pytest.raises(DuplicateJob, match="LH-1010"):
        acme.retry(first.id)
    assert acme.get(first.id).status is Status.CANCELED


def test_a_scheduled_job_can_be_made_due(app: Leasehold) -> None:
    acme = app.tenant("acme")
    placed = acme.options(delay="1h", dedupe=Always()).enqueue(app.job(count_size), "p")
    acme.run_now(placed.id)
    assert acme.get(placed.id).display is DisplayState.READY


def test_options_said_one_after_the_other_add_up(app: Leasehold) -> None:
    sized = app.job(count_size)
    acme = app.tenant("acme").options(dedupe_key="k").options(dedupe=Always())
    first = acme.enqueue(sized, "p")
    acme.cancel(first.id)
    assert acme.enqueue(sized, "other").id == first.id
    moment = datetime(2040, 1, 1, tzinfo=UTC)
    later = app.tenant("acme").options(delay="5m").options(at=moment)
    assert app.tenant("acme").get(later.enqueue(sized, "p").id).scheduled_for == moment


def test_a_generator_of_jobs_runs_where_its_caller_is(app: Leasehold) -> None:
    sized, threads = app.job(count_size), set()

    def jobs() -> Any:
        threads.add(threading.current_thread())
        yield sized.bind("p")

    app.tenant("acme").enqueue_many(jobs())
    assert threads == {threading.current_thread()}


def test_by_key_the_payload_gets_the_handlers_defaults(app: Leasehold) -> None:
    app.job(count_size)
    placed = app.tenant("acme").enqueue_key("count_size", {"provider_id": "p"})
    assert app.tenant("acme").get(placed.id).payload == {"provider_id": "p", "path": "/", "extra": None}


def test_after_another_configure_the_next_call_goes_elsewhere(app: Leasehold, database_url: str) -> None:
    sized = app.job(count_size)
    app.tenant("acme").enqueue(sized, "p")
    app.configure(schema="absent")
    with pytest.raises(SchemaMismatch):
        app.tenant("acme").enqueue(sized, "p")


def test_those_who_wait_for_a_database_that_is_away_are_told_together() -> None:
    """A host that takes connections and never answers: each would else try for himself, one after the other."""
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        app = Leasehold(f"postgresql://127.0.0.1:{deaf.getsockname()[1]}/nobody")
        sized = app.job(count_size)
        accepted: list[socket.socket] = []
        stop = threading.Thread(target=lambda: accepted.append(deaf.accept()[0]))
        stop.start()

        def refused() -> bool:
            with pytest.raises(Unreachable):
                app.tenant("acme").enqueue(sized, "p")
            return True

        with ThreadPoolExecutor(5) as threads:
            waiting = [threads.submit(refused) for _ in range(5)]
            stop.join()
            accepted[0].close()
            assert all(each.result() for each in waiting)
        app.close()


def test_an_app_that_nobody_has_any_more_is_gone(database_url: str) -> None:
    def made() -> "weakref.ref[Leasehold]":
        app = Leasehold(database_url)

        @app.job
        def uses_the_app(job: Job) -> None:
            app.tenant("acme")

        return weakref.ref(app)

    gone = made()
    gc.collect()
    assert gone() is None


def test_a_thread_that_can_not_begin_hangs_nobody(app: Leasehold, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses() -> None:
        raise OSError("too many open files")

    sized = app.job(count_size)
    with monkeypatch.context() as broken:
        broken.setattr(asyncio, "new_event_loop", refuses)
        broken.setattr(asyncio.events, "new_event_loop", refuses)
        with pytest.raises(OSError, match="too many"):
            app.tenant("acme").enqueue(sized, "p")
    assert app.tenant("acme").enqueue(sized, "p").created
