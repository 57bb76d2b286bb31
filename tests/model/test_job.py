"""Ids that are accepted or refused, checks of new jobs, and equality of claims."""

from dataclasses import fields
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from tests.model.claims import a_claim

from leasehold.errors import InvalidInput
from leasehold.model.definition import Definition
from leasehold.model.job import Claim, NewJob, job_id, tenant_id

ID = "0197c000-0000-7000-8000-00000000abcd"


@pytest.mark.parametrize(
    "text",
    [
        "default",
        "a",
        "acme",
        ID,
        "Acme Corp. (EU)",
        "münchen",
        "日本",
        "a" * 100,
        "org/7:x",
        "'; drop table jobs; --",
    ],
    ids=lambda text: text[:20],
)
def test_a_tenant_id_is_kept_as_it_is_written(text: str) -> None:
    assert tenant_id(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        " acme",
        "acme ",
        "acme\n",
        "\tacme",
        "ac\0me",
        "ac\nme",
        "ac\x1bme",
        "ac\x7fme",
        "ac\x9bme",
        "\xa0acme",
        "ac\ud800me",
        "\udfff",
        "a" * 101,
        "a" * 1_000_000,
    ],
    ids=lambda text: repr(text[:12]),
)
def test_a_text_that_is_no_tenant_id_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        tenant_id(text)

    assert repr(text[:120]) in str(refusal.value)
    assert "1 to 100 characters" in str(refusal.value)
    assert "Nothing was changed" in str(refusal.value)
    assert len(str(refusal.value)) < 1000


@pytest.mark.parametrize("text", [ID, ID.upper(), ID.replace("-", ""), f"{{{ID}}}", f"urn:uuid:{ID}"])
def test_any_spelling_of_a_uuid_becomes_the_one_that_is_stored(text: str) -> None:
    assert job_id(text) == ID


@pytest.mark.parametrize(
    "text", ["", "7", ID[:-1], ID + "0", "g" * 32, "\0" * 32, "a" * 1_000_000], ids=lambda t: t[:9]
)
def test_a_text_that_is_no_uuid_is_no_job_id(text: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        job_id(text)

    assert repr(text[:120]) in str(refusal.value)
    assert "Nothing was changed" in str(refusal.value)
    assert len(str(refusal.value)) < 1000


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"at": datetime(2030, 1, 1)}, "at=2030-01-01 00:00:00 has no timezone"),
        ({"deadline": datetime(2030, 1, 1)}, "deadline=2030-01-01 00:00:00 has no timezone"),
        ({"delay": timedelta(seconds=-1)}, "delay=-1 day, 23:59:59 is not between zero"),
        ({"max_attempts": 0}, "max_attempts=0 is not at least 1, it counts the first try"),
        ({"max_attempts": -1}, "max_attempts=-1"),
        ({"priority": 32768}, "priority=32768 is not between -32768 and 32767"),
        ({"priority": -32769}, "priority=-32769"),
        ({"max_attempts": 2**31}, "max_attempts=2147483648"),
        ({"version": 0}, "version=0 is not at least 1, None stands for the current one"),
        ({"version": 2**31}, "version=2147483648"),
        ({"delay": timedelta.max}, "delay=999999999 days"),
        ({"correlation_id": "a\0b"}, "correlation_id has a NUL character"),
        ({"created_by": "\ud800"}, "created_by has a NUL character or a lone surrogate"),
        ({"source_ref": "x" * 1001}, "source_ref has 1001 characters, at most 1000 are kept"),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_a_job_that_cannot_be_enqueued_is_refused_with_the_value(values: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        NewJob(definition="send_mail", **values)

    assert why in str(refusal.value)
    assert "Nothing was enqueued" in str(refusal.value)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"at": datetime(2030, 1, 1, tzinfo=UTC)},
        {"at": datetime(2030, 1, 1, tzinfo=timezone(timedelta(hours=9)))},
        {"at": datetime(1999, 1, 1, tzinfo=UTC)},
        {"delay": timedelta()},
        {"delay": timedelta(days=365)},
        {"max_attempts": 1},
        {"version": 1},
        {"priority": 32767},
        {"priority": -32768},
        {"priority": 0},
    ],
    ids=str,
)
def test_a_job_within_the_bounds_keeps_its_values(values: dict[str, Any]) -> None:
    job = NewJob(definition="send_mail", **values)
    assert {name: getattr(job, name) for name in values} == values


def test_a_new_job_has_no_tenant() -> None:
    assert not [field.name for field in fields(NewJob) if "tenant" in field.name]


def test_two_new_jobs_do_not_share_their_empty_payload() -> None:
    assert NewJob(definition="a").payload is not NewJob(definition="a").payload


@pytest.mark.parametrize(
    "other",
    [
        a_claim(attempt=2),
        a_claim(worker="w-2"),
        a_claim(job="0197c000-0000-7000-8000-000000000002"),
        a_claim(tenant="bystander"),
    ],
    ids=["attempt", "worker", "job", "tenant"],
)
def test_claims_with_different_fences_differ(other: Claim) -> None:
    assert other != a_claim()
    assert len({other, a_claim()}) == 2


@pytest.mark.parametrize(
    "other",
    [
        a_claim(payload='{"a":1}'),
        a_claim(version=2),
        a_claim(max_attempts=9),
        a_claim(free_attempts=1),
        a_claim(definition=Definition("send_mail", schema={"type": "object"})),
    ],
    ids=["payload", "version", "max_attempts", "free_attempts", "definition"],
)
def test_claims_with_the_same_fence_are_equal(other: Claim) -> None:
    assert other == a_claim()
    assert len({other, a_claim()}) == 1


def test_exactly_the_five_parts_of_the_fence_are_compared() -> None:
    fence = ["tenant", "job", "attempt", "worker", "batch"]
    assert [field.name for field in fields(Claim) if field.compare] == fence


@pytest.mark.parametrize(("attempt", "free_attempts", "tries"), [(1, 0, 1), (3, 0, 3), (4, 3, 1), (7, 5, 2)])
def test_a_try_is_an_attempt_that_was_not_free(attempt: int, free_attempts: int, tries: int) -> None:
    assert a_claim(attempt=attempt, free_attempts=free_attempts).tries == tries
