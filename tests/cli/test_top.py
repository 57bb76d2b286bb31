"""`leasehold top`: one look as a table and as JSON, and the lines of its screen."""

from typing import Any

import pytest
from tests.cli.terminal import NOWHERE, CommandLine
from tests.store.bench import Bench
from tests.tenant_kit import DAY

from leasehold.cli.top_screen import TopScreen, bars, number, shares
from leasehold.errors import Unreachable
from leasehold.store import Subscription, WorkerFacts

NONE = dict.fromkeys(("ready", "running", "succeeded", "failed", "dead_letter", "canceled", "failed_tries"), 0)


def look(second: int = 0, **changes: Any) -> dict[str, Any]:
    return {
        "now": f"2026-11-18T10:00:{second:02}+00:00",
        "since": f"2026-11-18T09:59:{second:02}+00:00",
        "enqueued": 100,
        "is_whole": True,
        "totals": NONE | {"workers": 1, "slots": 10},
        "definitions": [],
        "tenants": [],
        "more_definitions": 0,
        "more_tenants": 0,
        "workers": [],
    } | changes


def screen_of(*looks: dict[str, Any], height: int | None = None) -> list[str]:
    screen = TopScreen()
    for each in looks:
        screen.add(each)
    return [line.plain for line in screen.lines(120, height)]


def row(key: str, **figures: Any) -> dict[str, Any]:
    return NONE | {"key": key, "paused_because": None, "workers": 1} | figures


async def test_one_look_shows_definitions_tenants_and_workers(leasehold: CommandLine, bench: Bench) -> None:
    facts = WorkerFacts(host="host-2", pid=4411, version="0.1.0", slots=8)
    registration = await bench.store.join(Subscription(("report", "email")), facts, DAY)
    await bench.enqueue_many(2)
    await bench.claim_one(registration)
    shown = await leasehold("top", "--once")
    assert shown.code == 0, shown.err
    lines = [" ".join(line.split()) for line in shown.out.splitlines()]
    assert lines[1] == "1 ready · 1 running of 8 slots · 1 worker"
    assert "report 1 1 0 0 0 1" in lines
    assert "email 0 0 0 0 0 1" in lines
    assert "acme 1 1 0 0 0" in lines
    assert f"{registration.worker[-8:]} host-2:4411 live 1 8" in "\n".join(lines)


async def test_into_a_pipe_it_looks_once(leasehold: CommandLine, bench: Bench) -> None:
    await bench.enqueue()
    assert (await leasehold("top")).out.splitlines()[1].startswith("1 ready · ")


async def test_a_look_as_json_is_one_document(leasehold: CommandLine, bench: Bench) -> None:
    await bench.succeeded()
    document = (await leasehold("top", "--once", "--json")).document
    assert document["totals"]["succeeded"] == 0.017
    assert document["definitions"][0]["key"] == "report"
    assert document.keys() >= {"now", "since", "is_whole", "tenants", "workers"}


async def test_more_looks_than_two_a_second_are_refused(leasehold: CommandLine) -> None:
    refused = await leasehold("top", "--every", "100ms", "--json")
    assert (refused.code, refused.error["code"]) == (2, "LH-1000")


async def test_a_queue_that_is_away_is_an_error_before_the_first_look(leasehold: CommandLine) -> None:
    away = await leasehold("top", "--url", NOWHERE, "--json")
    assert (away.code, away.error["code"]) == (7, "LH-3001")


# The screen


def test_the_rate_of_new_jobs_is_the_difference_of_two_looks() -> None:
    assert "– enqueued/s" in screen_of(look())[2]
    assert "20 enqueued/s" in screen_of(look(), look(2, enqueued=140))[2]


def test_a_queue_that_goes_away_keeps_the_last_look_and_says_so() -> None:
    screen = TopScreen()
    screen.add(look(definitions=[row("report", ready=7)]))
    screen.add(look(), Unreachable("the database can't be reached.", fix="Wait."))
    lines = [line.plain for line in screen.lines(120, None)]
    assert "can't be reached" in lines[0]
    assert any(line.startswith("report ") for line in lines)


def test_an_engine_without_rates_says_so() -> None:
    rates = dict.fromkeys(("succeeded", "failed", "dead_letter", "canceled", "failed_tries"))
    totals = NONE | rates | {"workers": 0, "slots": 0}
    lines = screen_of(look(since=None, enqueued=None, totals=totals, definitions=[row("report", **rates)]))
    assert "this engine keeps no rates" in lines[0]
    assert lines[2] == "– enqueued/s · – done/s · – failed tries/s · – gave up/s  "


def test_names_are_made_visible() -> None:
    lines = screen_of(look(tenants=[row("a\x1b[2Jb")], definitions=[row("x\ny")]))
    assert not any("\x1b" in line or "\n" in line for line in lines)


def test_tables_are_cut_to_the_height_of_the_terminal() -> None:
    many = [row(f"name-{number}") for number in range(60)]
    lines = screen_of(look(definitions=many, tenants=many, more_tenants=5), height=30)
    assert len(lines) <= 30
    assert [line for line in lines if line.startswith("+ ")] == ["+ 51 more", "+ 56 more"]


@pytest.mark.parametrize(
    ("room", "wanted", "given"),
    [(None, [50, 1], [50, 1]), (10, [4, 5], [4, 5]), (10, [50, 2, 50], [4, 2, 4]), (-5, [9, 9], [1, 1])],
)
def test_lines_are_shared_among_tables(room: int | None, wanted: list[int], given: list[int]) -> None:
    assert shares(room, wanted) == given


@pytest.mark.parametrize(
    ("rate", "text"), [(None, "–"), (0.0, "0"), (0.017, "0.017"), (2.5, "2.5"), (1234.4, "1,234")]
)
def test_a_rate_has_few_digits(rate: float | None, text: str) -> None:
    assert number(rate) == text


def test_bars_are_as_high_as_their_rate() -> None:
    assert bars([0.0, 5.0, 10.0]) == "▁▅█"
    assert bars([0.0, 0.0]) == ""
