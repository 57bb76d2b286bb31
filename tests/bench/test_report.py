"""The report of a benchmark depends only on its figures."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from bench.bars import AT_LEAST, AT_MOST, Bar
from bench.book import Book, Costs
from bench.report import Circumstances, added, markdown
from bench.sizes import QUICK

RUN = Circumstances(
    command="make bench",
    day="2030-01-02",
    quick=False,
    rounds=3,
    minutes=40,
    machine={},
    postgres="PostgreSQL 18",
    settings={},
    systems=dict.fromkeys(("raw", "leasehold", "slow", "fast"), ("1.0", "as recommended")),
    missing={"absent": "needs another machine"},
)


@pytest.fixture
def book() -> Book:
    book = Book(slowest=[{"name": "fleet/claim_next_tenants", "calls": 2, "ms": 3.0}])
    for name, rate, wait in (
        ("raw", 200.0, 2.0),
        ("leasehold", 150.0, 3.0),
        ("slow", 10.0, 1.5),
        ("fast", 100.0, 6.0),
    ):
        book.add("drain", name, rate, Costs(1, 1, 100, 20, None))
        book.add("latency p50", name, wait)
    book.point("flood", 1, 2)
    book.failed("idle", "slow", "it never rests")
    return book


def test_figures_that_were_written_down_give_the_same_report(book: Book) -> None:
    read = Book.of_json(json.loads(json.dumps(book.as_json())))
    assert markdown(read, QUICK, RUN, []) == markdown(book, QUICK, RUN, [])


def test_a_later_run_replaces_its_figures_and_is_named(book: Book, tmp_path: Path) -> None:
    whole = tmp_path / "RESULTS.json"
    whole.write_text(json.dumps({"run": asdict(RUN), **book.as_json()}))
    later = Book()
    later.add("drain", "leasehold", 300.0)
    merged, run = added(later, replace(RUN, command="python -m bench --only drain", day="2030-02-03"), whole)
    assert (merged.value("drain", "leasehold"), merged.value("drain", "raw")) == (300.0, 200.0)
    assert merged.value("latency p50", "leasehold") == 3.0
    assert "`python -m bench --only drain` on 2030-02-03, 3 rounds: drain" in markdown(merged, QUICK, run, [])


def test_figures_of_different_runs_decide_no_bar(book: Book, tmp_path: Path) -> None:
    whole = tmp_path / "RESULTS.json"
    whole.write_text(json.dumps({"run": asdict(RUN), **book.as_json()}))
    later = Book()
    later.add("drain", "leasehold", 300.0)
    merged, run = added(later, RUN, whole)
    read = Book.of_json(json.loads(json.dumps(merged.as_json())))
    for results in (merged, read):
        report = markdown(results, QUICK, run, [])
        assert (
            "| our own SQL driven raw | at least 0.5× | 1.50× | 300 : 200 | – | figures of different runs |" in report
        )


def test_requests_to_the_api_have_a_table_and_bars(book: Book) -> None:
    for whose, p95 in (("the large tenant", 40.0), ("all tenants", 400.0)):
        for share, value in (("p50", 20.0), ("p95", p95), ("processor", 10.0)):
            book.add(f"api, list, queued, {whose}, {share}", "leasehold", value)
    book.origins.update({(measure, "leasehold"): "later" for measure in ("api, a", "api, b")})
    report = markdown(book, QUICK, RUN, [])
    assert "| list, queued | 20 / 40 / 10 | – | 20 / 400 / 10 |" in report
    assert "lists of a tenant, p95 |  | at most 300 ms | 40.00 ms |  | – | met |" in report
    assert "lists of all tenants, p95 |  | at most 300 ms | 400 ms |  | – | **missed** |" in report
    assert "- later: the HTTP API\n" in report


def test_ours_is_set_beside_raw_and_the_best_peer_of_each_column(book: Book) -> None:
    report = markdown(book, QUICK, RUN, [])
    assert "| **leasehold : raw** | – | – | 0.75× | 1.5× | – | – |" in report
    assert "| **leasehold : the best peer** | – | – | 1.5× fast | 2× slow | – | – |" in report


@pytest.mark.parametrize(
    ("limit", "kind", "verdict"),
    [
        (1.5, AT_MOST, (True, False)),
        (1.05, AT_MOST, (True, True)),
        (0.98, AT_MOST, (False, True)),
        (0.5, AT_MOST, (False, False)),
        (0.95, AT_LEAST, (True, True)),
        (0.5, AT_LEAST, (True, False)),
    ],
)
def test_a_bar_that_is_cleared_by_less_than_its_noise_is_not_met(
    limit: float, kind: str, verdict: tuple[bool, bool]
) -> None:
    bar = Bar("a wait", "another", kind, limit, value=1.0, noise=0.1)
    assert (bar.met, bar.within_noise) == verdict


def test_noise_is_how_far_the_reference_differs_from_itself() -> None:
    book = Book()
    for value in (90.0, 100.0, 110.0):
        book.add("drain", "raw", value)
    for value in (1.0, 98.0, 100.0, 102.0, 900.0):
        book.add("drain", "fast", value)
    book.add("drain", "slow", 10.0)
    assert book.noise("drain", "raw") == pytest.approx(0.1)
    assert book.noise("drain", "fast") == pytest.approx(0.02), "one disturbed sample is not noise"
    assert book.noise("drain", "slow") is None


def test_a_report_counts_bars_within_noise_apart(book: Book) -> None:
    for value in (100.0, 160.0):
        book.add("drain", "raw", 0.0 + value)
    for name in ("latency p50", "latency p99"):
        for value in (2.0, 2.2, 1.8):
            book.add(name, "raw", value)
            book.add(name, "leasehold", 1.4 * value)
    report = markdown(book, QUICK, RUN, [])
    assert "within noise\n" in report.split("## Bars")[1].partition("|")[0]
    assert "| raw's p99 | at most 1.5× | 1.40× | 2.8 : 2 | ±10 % | within noise |" in report


def test_requests_on_dynamodb_stand_in_a_table_by_kind(book: Book) -> None:
    for kind, reads in (("plain", 2.5), ("with a key", 4.0)):
        book.add(f"dynamodb, {kind}, jobs/s on the emulator", "leasehold", 100.0)
        book.add(f"dynamodb, {kind}, reads", "leasehold", reads)
    report = markdown(book, QUICK, RUN, []).partition("## On DynamoDB")[2]
    assert "| jobs | jobs/s on the emulator | reads |" in report
    assert "| plain | 100 | 2.5 |" in report
    assert "| with a key | 100 | 4 |" in report


def test_who_can_not_be_measured_is_named_with_the_reason(book: Book) -> None:
    assert "| absent | needs another machine |" in markdown(book, QUICK, RUN, [])
