"""Jobs are enqueued for real and run by nobody; assertions say what there was instead."""

from datetime import UTC, date, datetime
from textwrap import dedent
from unittest import mock

import asyncpg
import pytest
from tests.testing.shop import app, close_month, send_invoice, sync_folder

from leasehold import InvalidInput, NewJob, Status, UnknownJob
from leasehold.engines import engine_for
from leasehold.testing import QueueTester

acme = app.tenant("acme")
globex = app.tenant("globex")


def complaint_of(leasehold: QueueTester, *args: object, **kwargs: object) -> str:
    with pytest.raises(AssertionError) as caught:
        leasehold.assert_enqueued(*args, **kwargs)  # type: ignore[arg-type]
    return str(caught.value)


def test_what_is_enqueued_waits_in_the_order_of_the_enqueues(leasehold: QueueTester) -> None:
    acme.enqueue(sync_folder, provider_id="p_9")
    globex.enqueue(send_invoice, 7)
    acme.enqueue(send_invoice, 8)
    assert [(job.tenant, job.definition, job.status) for job in leasehold.jobs()] == [
        ("acme", "sync_folder", "queued"),
        ("globex", "send_invoice", "queued"),
        ("acme", "send_invoice", "queued"),
    ]
    assert [job.payload["order"] for job in leasehold.jobs(send_invoice)] == [7, 8]
    assert [job.definition for job in leasehold.jobs(tenant="globex")] == ["send_invoice"]
    assert leasehold.jobs(status="succeeded") == leasehold.jobs("close_month") == []
    assert leasehold.job().payload["order"] == 8


def test_more_jobs_than_fit_a_page_are_all_there(leasehold: QueueTester) -> None:
    acme.enqueue_many(send_invoice.bind(number) for number in range(1203))
    assert [job.payload["order"] for job in leasehold.jobs()] == list(range(1203))


def test_each_test_has_a_database_of_its_own(leasehold: QueueTester) -> None:
    """The other tests of this file have enqueued into theirs."""
    leasehold.assert_none()
    with pytest.raises(UnknownJob, match="this test's database has no job"):
        leasehold.job()


async def test_an_async_test_asks_in_the_same_way(leasehold: QueueTester) -> None:
    placed = await acme.aenqueue(sync_folder, provider_id="p_9")
    assert leasehold.assert_enqueued(sync_folder, payload={"provider_id": "p_9"}).id == placed.id
    async with app.open():
        await acme.aenqueue(close_month, [1])
        assert leasehold.job().definition == "close_month"


# ---------------------------------------------------------------------------------------------------- assert_enqueued


def test_the_job_that_fits_is_given_back(leasehold: QueueTester) -> None:
    placed = acme.enqueue(sync_folder, provider_id="p_9", path="/photos")
    globex.enqueue(sync_folder, provider_id="p_9")
    found = leasehold.assert_enqueued(sync_folder, tenant="acme", payload={"path": "/photos"})
    assert (found.id, found.status) == (placed.id, Status.QUEUED)
    assert leasehold.assert_enqueued(sync_folder, payload={"provider_id": "p_9"}, count=2).tenant == "globex"


def test_expected_values_are_compared_as_json_holds_them(leasehold: QueueTester) -> None:
    acme.enqueue(send_invoice, 7, date(2026, 11, 16))
    leasehold.assert_enqueued(send_invoice, payload={"due": date(2026, 11, 16)})
    leasehold.assert_enqueued(send_invoice, payload={"due": mock.ANY})
    assert "payload.order  expected true  was 7" in complaint_of(leasehold, send_invoice, payload={"order": True})


def test_options_are_compared_with_what_was_stored(leasehold: QueueTester) -> None:
    at = datetime(2030, 1, 1, tzinfo=UTC)
    acme.options(delay="5m", priority=7, correlation_id="order-7").enqueue(send_invoice, 1)
    acme.options(at=at, dedupe_key="invoice-2", created_by="ada").enqueue(send_invoice, 2)
    leasehold.assert_enqueued(send_invoice, delay="5m", priority=7, correlation_id="order-7", count=1)
    leasehold.assert_enqueued(send_invoice, at=at, dedupe_key="invoice-2", created_by="ada", count=1)
    assert "delay  expected 360 s  was 300 s" in complaint_of(leasehold, send_invoice, delay="6m")


def test_a_near_miss_is_shown_field_by_field(leasehold: QueueTester) -> None:
    acme.enqueue(send_invoice, 7)
    globex.enqueue(sync_folder, provider_id="p_9")
    acme.enqueue(sync_folder, provider_id="p_8", path="/tmp")
    assert complaint_of(leasehold, sync_folder, tenant="acme", payload={"provider_id": "p_8", "path": "/"}) == dedent(
        """\
        no job was enqueued of sync_folder for tenant acme with payload {"provider_id":"p_8","path":"/"}.

        Enqueued were, in this order:
              definition    tenant  state  payload
          #1  send_invoice  acme    ready  {"due":null,"order":7}
          #2  sync_folder   globex  ready  {"path":"/","provider_id":"p_9"}
          #3  sync_folder   acme    ready  {"path":"/tmp","provider_id":"p_8"}

        Closest:
        #3 differs in one thing:
          payload.path  expected "/"  was "/tmp"
        #2 differs in 2 things:
          tenant               expected "acme"  was "globex"
          payload.provider_id  expected "p_8"   was "p_9"
        #1 differs in 3 things:
          definition           expected "sync_folder"  was "send_invoice"
          payload.provider_id  expected "p_8"          was nothing
          payload.path         expected "/"            was nothing"""
    )


def test_with_nothing_enqueued_it_says_so(leasehold: QueueTester) -> None:
    assert complaint_of(leasehold, sync_folder) == (
        "no job was enqueued of sync_folder.\n\nNothing was enqueued at all."
    )


def test_a_wrong_number_is_said_with_the_table(leasehold: QueueTester) -> None:
    acme.enqueue_many(send_invoice.bind(number) for number in range(25))
    said = complaint_of(leasehold, send_invoice, tenant="acme", count=2)
    assert said.startswith("2 jobs were expected of send_invoice for tenant acme; there are 25.")
    assert said.endswith("\n  … and 5 more")


def test_an_option_that_jobs_do_not_have_is_refused_by_name(leasehold: QueueTester) -> None:
    with pytest.raises(InvalidInput, match=r'no option "priorty" to look at. Did you mean "priority"\?'):
        leasehold.assert_enqueued(sync_folder, priorty=7)
    with pytest.raises(InvalidInput, match="is not a definition"):
        leasehold.assert_enqueued(sync_folder.__wrapped__)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="Use assert_none"):
        leasehold.assert_enqueued(sync_folder, count=0)


# -------------------------------------------------------------------------------------------------------- assert_none


def test_none_means_none_of_the_definition_and_the_tenant(leasehold: QueueTester) -> None:
    leasehold.assert_none()
    acme.enqueue(sync_folder, provider_id="p_9")
    leasehold.assert_none(send_invoice)
    leasehold.assert_none(sync_folder, tenant="globex")
    with pytest.raises(AssertionError) as caught:
        leasehold.assert_none(sync_folder, tenant="acme")
    assert str(caught.value) == dedent(
        """\
        no job of sync_folder for tenant acme was expected.

        Enqueued was, in this order:
              definition   tenant  state  payload
          #1  sync_folder  acme    ready  {"path":"/","provider_id":"p_9"}"""
    )


async def test_what_was_rolled_back_was_never_enqueued(leasehold: QueueTester) -> None:
    store = await engine_for(leasehold.url).open()
    connection = await asyncpg.connect(leasehold.url)
    try:
        await store.sync_definitions(app.handlers.definitions)
        transaction = connection.transaction()
        await transaction.start()
        await store.tenant(acme.id).enqueue([NewJob(definition="close_year")], within=connection)
        await transaction.rollback()
    finally:
        await connection.close()
        await store.close()
    leasehold.assert_none()
