"""Handlers are stopped wherever they can be, and their effects are counted."""

import asyncio
import threading
from datetime import datetime
from itertools import count
from pathlib import Path
from textwrap import dedent

import asyncpg
import pytest
from tests.testing import payments
from tests.testing.payments import app, bank, charge, charge_order, charge_order_once

from leasehold import InvalidInput, Leasehold
from leasehold.errors import BlockingCall
from leasehold.model.duration import Duration
from leasehold.testing import Crashes, Effect, QueueTester, crash_points, crashes
from leasehold.testing.clock import Clock

KEYED = Effect(charge, key="idempotency_key")
PLACES = [
    "killed: before it begins",
    "killed: before charge",
    "killed: in charge, its effect made",
    "answer lost: in charge, its effect made",
    "killed: returned, its result not yet written",
    "killed: its result written, the worker not yet told",
    "lease lost: before charge",
    "lease lost: returned, its result not yet written",
]


@pytest.fixture
def leasehold_app() -> Leasehold:
    return app


def verdicts(found: Crashes) -> dict[str, str]:
    return {str(crash.boundary): crash.verdict for crash in found.crashes}


def test_a_planted_double_charge_is_found(leasehold: QueueTester) -> None:
    found = leasehold.crashes("acme", charge_order.bind(order=7), effects=[charge])
    with pytest.raises(AssertionError) as caught:
        found.assert_once()
    assert str(caught.value) == dedent(
        """\
        charge_order for acme, stopped in 8 places: 3 × once, 5 × DOUBLED. An undisturbed run makes 1 effect.

          stopped                                              effects           the job
          killed: before it begins                             1        once     succeeded, try 2
          killed: before charge                                1        once     succeeded, try 2
          killed: in charge, its effect made                   2        DOUBLED  succeeded, try 2
          answer lost: in charge, its effect made              2        DOUBLED  succeeded, try 2
          killed: returned, its result not yet written         2        DOUBLED  succeeded, try 2
          killed: its result written, the worker not yet told  1        once     succeeded, try 1
          lease lost: before charge                            2        DOUBLED  succeeded, try 2
          lease lost: returned, its result not yet written     2        DOUBLED  succeeded, try 2

        Doubled: pass job.idempotency_key to the service that makes the effect, so that it knows a second call \
as one; or make it in a transaction that is committed with the job's own end, or not at all."""
    )


def test_with_an_idempotency_key_it_happens_once(leasehold: QueueTester) -> None:
    found = leasehold.crashes("acme", charge_order_once.bind(order=7), effects=[KEYED])
    found.assert_once()
    assert len(found.crashes) == 8
    assert all(crash.reached for crash in found.crashes)


@pytest.mark.faults
def test_a_handler_that_stands_still_is_let_go_for_a_lock(
    leasehold: QueueTester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However slow the second worker is: else the first would still be in time, and nothing doubled."""
    monkeypatch.setattr(crashes, "PATIENCE_WITH_LOCKS", 0.0)
    found = leasehold.crashes("acme", charge_order.bind(order=7), effects=[charge])
    assert found["lease lost: before charge"].verdict == "DOUBLED"
    assert found["lease lost: returned, its result not yet written"].verdict == "DOUBLED"


@pytest.mark.faults
def test_a_key_that_is_named_and_not_passed_helps_nobody(leasehold: QueueTester) -> None:
    found = leasehold.crashes("acme", charge_order.bind(order=7), effects=[KEYED])
    assert found["killed: in charge, its effect made"].verdict == "DOUBLED"


@pytest.mark.faults
def test_awaited_effects_and_methods_are_seen_as_well(leasehold: QueueTester) -> None:
    awaited = leasehold.crashes("acme", payments.charge_order_awaiting.bind(7), effects=[payments.acharge])
    assert verdicts(awaited)["lease lost: before acharge"] == "DOUBLED"
    assert verdicts(awaited)["killed: before acharge"] == "once"
    of_object = leasehold.crashes("acme", payments.charge_by_bank.bind(7), effects=[bank.charge])
    assert verdicts(of_object)["killed: in charge, its effect made"] == "DOUBLED"
    assert "charge" not in vars(bank)


@pytest.mark.faults
async def test_an_async_test_awaits_the_crashes(leasehold: QueueTester) -> None:
    with pytest.raises(BlockingCall, match=r"await leasehold.acrashes\(…\)"):
        leasehold.crashes("acme", charge_order.bind(order=7), effects=[charge])
    found = await leasehold.acrashes("acme", charge_order_once.bind(order=7), effects=[KEYED])
    found.assert_once()


@pytest.mark.faults
def test_of_several_effects_each_has_its_boundaries(leasehold: QueueTester) -> None:
    found = leasehold.crashes("acme", payments.charge_and_mail.bind(7), effects=[KEYED, payments.send_mail])
    assert (found.expected, len(found.crashes)) == (2, 12)
    assert verdicts(found)["killed: in charge, its effect made"] == "once"
    assert verdicts(found)["killed: in send_mail, its effect made"] == "DOUBLED"


@pytest.mark.faults
def test_a_lost_answer_finds_a_handler_that_repeats_its_request(leasehold: QueueTester) -> None:
    found = leasehold.crashes("acme", payments.charge_stubbornly.bind(7), effects=[charge])
    lost = found["answer lost: in charge, its effect made"]
    assert (lost.verdict, lost.seen, lost.tries) == ("DOUBLED", 2, 1)


@pytest.mark.faults
def test_what_may_run_only_once_loses_its_effects(leasehold: QueueTester) -> None:
    found = leasehold.crashes("acme", payments.charge_without_a_second_chance.bind(7), effects=[KEYED])
    lost = found["killed: before charge"]
    assert (lost.verdict, lost.status) == ("LOST", "dead letter")
    with pytest.raises(AssertionError, match=r"or may it run only once \(max_attempts=1\)\?"):
        found.assert_once()


# --------------------------------------------------------------------------------------------- counted in a database


@pytest.fixture
def bookings(leasehold: QueueTester) -> "Bookings":
    made = Bookings(leasehold.url)
    made.ask("create table bookings (order_number int, mark text primary key)")
    return made


class Bookings:
    def __init__(self, url: str) -> None:
        self._url = url

    def count(self) -> int:
        return int(self.ask("select count(*) from bookings"))

    def ask(self, statement: str) -> int:
        async def ask() -> int:
            connection = await asyncpg.connect(self._url)
            try:
                found: int = await connection.fetchval(statement)
                return found
            finally:
                await connection.close()

        return asyncio.run(ask())


RENEW = "update leasehold.workers set lease_expires_at = leasehold.clock() + interval '1 minute'"


def test_a_late_heartbeat_does_not_hide_a_lost_lease(
    leasehold: QueueTester, bookings: "Bookings", monkeypatch: pytest.MonkeyPatch
) -> None:
    """A heartbeat that was under way when its worker was stopped reaches the database at the moved clock."""
    paused, advance = "lease lost: before charge", Clock.advance
    moves = count()

    def advance_before_a_heartbeat(clock: Clock, by: Duration) -> datetime:
        moved = advance(clock, by)
        if next(moves) == PLACES.index(paused):
            bookings.ask(RENEW)
        return moved

    monkeypatch.setattr(Clock, "advance", advance_before_a_heartbeat)
    found = leasehold.crashes("acme", charge_order.bind(order=7), effects=[charge])
    assert [str(crash.boundary) for crash in found.crashes] == PLACES
    assert (found[paused].verdict, found[paused].tries) == ("DOUBLED", 2)
    assert next(moves) == len(PLACES) + 1


@pytest.mark.faults
def test_rows_of_a_transaction_without_a_key_are_doubled(leasehold: QueueTester, bookings: Bookings) -> None:
    found = leasehold.crashes("acme", payments.book.bind(7), effects=[payments.last_thought], count=bookings.count)
    assert verdicts(found) == {
        "killed: before it begins": "once",
        "killed: before last_thought": "once",  # rolled back
        "killed: in last_thought, its effect made": "once",
        "answer lost: in last_thought, its effect made": "once",
        "killed: returned, its result not yet written": "DOUBLED",
        "killed: its result written, the worker not yet told": "once",
        "lease lost: before last_thought": "DOUBLED",
        "lease lost: returned, its result not yet written": "DOUBLED",
    }


@pytest.mark.faults
def test_rows_of_a_transaction_that_knows_the_job_are_there_once(leasehold: QueueTester, bookings: Bookings) -> None:
    """While its lease is lost, the first run's open transaction makes the second one wait."""
    effects = [payments.last_thought]
    leasehold.crashes("acme", payments.book_once.bind(7), effects=effects, count=bookings.count).assert_once()


@pytest.mark.faults
def test_each_run_may_begin_on_data_of_its_own(leasehold: QueueTester, bookings: Bookings) -> None:
    numbers: list[int] = []

    def fresh(number: int) -> object:
        numbers.append(number)
        return payments.book_once.bind(order=number)

    leasehold.crashes("acme", fresh, count=bookings.count).assert_once()  # type: ignore[arg-type]
    assert numbers == list(range(5))
    assert bookings.count() == 5


# --------------------------------------------------------------------------------------------------- what is refused


def test_what_cant_be_seen_is_refused(leasehold: QueueTester) -> None:
    job = charge_order.bind(order=7)
    with pytest.raises(InvalidInput, match="without effects and without a count"):
        leasehold.crashes("acme", job)
    with pytest.raises(InvalidInput, match="is not a function"):
        leasehold.crashes("acme", job, effects=["charge"])  # type: ignore[list-item]
    with pytest.raises(InvalidInput, match='charge has no argument "key" to know its calls by'):
        leasehold.crashes("acme", job, effects=[Effect(charge, key="key")])
    with pytest.raises(InvalidInput, match="no module, class or object holds <lambda>"):
        leasehold.crashes("acme", job, effects=[lambda: None])
    leasehold.assert_none()


def test_an_undisturbed_run_must_make_its_effect(leasehold: QueueTester) -> None:
    with pytest.raises(InvalidInput, match="an undisturbed run of charge_order made no effect that could be seen"):
        leasehold.crashes("acme", charge_order.bind(order=7), effects=[payments.send_mail])
    leasehold.fail(charge_order, ValueError("no money"), times=100)
    with pytest.raises(InvalidInput, match=r"\(the job is dead letter: no money\)"):
        leasehold.crashes("acme", charge_order.bind(order=7), effects=[charge])


def test_what_breaks_in_a_process_of_the_kit_is_told(leasehold: QueueTester) -> None:
    def break_down() -> None:
        raise OSError("out of files")

    with pytest.raises(RuntimeError, match="out of files"):
        leasehold.crashes("acme", charge_order.bind(order=7), effects=[charge], in_child=break_down)


def test_a_handler_that_stands_still_does_nothing_more(tmp_path: Path) -> None:
    """A signal to its process instead of its thread let the handler go on for a moment in 9 of 10 runs."""
    for number in range(10):
        went_on = tmp_path / f"{number}"
        process = crashes._Process(lambda path=went_on: _stand_still_in_a_thread(path))  # type: ignore[misc]
        try:
            assert process.wait()
            assert not went_on.exists()
        finally:
            process.end()


def _stand_still_in_a_thread(path: Path) -> None:
    def handler() -> None:
        crash_points._stand_still()
        path.touch()

    thread = threading.Thread(target=handler)
    thread.start()
    thread.join()
