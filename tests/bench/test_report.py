"""The report of a benchmark: made of its figures, whenever it is made."""

import json

import pytest
from bench.book import Book, Costs
from bench.report import Circumstances, markdown
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
    book = Book(slowest=[{"name": "fleet/take", "calls": 2, "ms": 3.0}])
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


def test_ours_is_set_beside_raw_and_the_best_peer_of_each_column(book: Book) -> None:
    report = markdown(book, QUICK, RUN, [])
    assert "| **leasehold : raw** | – | – | 0.75× | 1.5× | – | – |" in report
    assert "| **leasehold : the best peer** | – | – | 1.5× fast | 2× slow | – | – |" in report


def test_who_can_not_be_measured_is_named_with_the_reason(book: Book) -> None:
    assert "| absent | needs another machine |" in markdown(book, QUICK, RUN, [])
