"""`leasehold capacity`: shards and units for a rate, and the limit that breaks first."""

import pytest
from tests.cli.terminal import run


def test_it_says_shards_units_and_limits() -> None:
    answer = run(["capacity", "--rate", "500/s", "--payload", "2kB"])
    assert answer.code == 0
    assert answer.out.startswith("500 jobs/s with payloads of 2,048 bytes need 3 shards.")
    assert "one key of the due index" in answer.out


def test_its_document_has_the_same_numbers() -> None:
    document = run(["capacity", "--rate", "500/s", "--payload", "2kB", "--json"]).document
    assert document["shards"] == 3
    steps = document["write_units"]
    assert steps["job"] == sum(units for name, units in steps.items() if name != "job")
    assert document["write_units_per_second"] == 500 * steps["job"]


def test_limits_are_listed_by_the_rate_at_which_they_break() -> None:
    limits = run(["capacity", "--rate", "10/s", "--json"]).document["limits"]
    assert [each["breaks_at"] for each in limits] == sorted(each["breaks_at"] for each in limits)


def test_a_rate_that_the_shards_cannot_take_is_told() -> None:
    answer = run(["capacity", "--rate", "500/s", "--shards", "1"])
    assert answer.out.splitlines()[-1] == "! This rate is above a new table on demand, one key of the due index."


@pytest.mark.parametrize(("per_hour", "per_second"), [("3600/h", 1), ("120/min", 2), ("86400/d", 1)])
def test_a_rate_may_be_given_per_minute_hour_or_day(per_hour: str, per_second: int) -> None:
    assert run(["capacity", "--rate", per_hour, "--json"]).document["rate"] == per_second


@pytest.mark.parametrize("rate", ["500", "0/s", "-1/s", "fast", "2000000/s"])
def test_another_text_is_not_a_rate(rate: str) -> None:
    answer = run(["capacity", "--rate", rate, "--json"])
    assert (answer.code, answer.error["code"]) == (2, "LH-1000")


@pytest.mark.parametrize("size", ["2 pages", "400kB", "1MB"])
def test_a_payload_that_no_item_holds_is_refused(size: str) -> None:
    answer = run(["capacity", "--rate", "1/s", "--payload", size, "--json"])
    assert answer.error["message"].endswith("the limit of an item.")


def test_more_definitions_and_tenants_need_fewer_shards() -> None:
    few, many = (
        run(["capacity", "--rate", "2000/s", "--definitions", n, "--tenants", n, "--json"]).document["shards"]
        for n in ("1", "10")
    )
    assert many < few
