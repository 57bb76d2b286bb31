"""The pages of promises name what shows each promise: tests that exist, commands, and bars of the benchmark."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs/reference/promises").glob("*.md"))
# `tests/…` is left out of the path: `worker/test_claims.py::test_one`, or `test_one` alone.
TEST = re.compile(r"`(?:([\w/]+\.py)::)?(test_\w+)`")
BAR = re.compile(r'bar "([^"]+)"')
COMMAND = re.compile(r"`(?:(?:pytest|python -m|make) [^`]+|tools/\w+\.sh)`")


@cache
def names_in(file: Path) -> frozenset[str]:
    return frozenset(re.findall(r"def (test_\w+)", file.read_text()) if file.exists() else ())


@cache
def all_names() -> frozenset[str]:
    return frozenset().union(*(names_in(file) for file in (ROOT / "tests").rglob("test_*.py")))


def rows(page: Path) -> Iterator[tuple[str, str]]:
    """Yields each promise with the text beside it."""
    for line in page.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and cells[0] != "promise":
            yield cells[0], cells[-1]


def missing(text: str) -> list[str]:
    """Returns the tests and bars of a text that do not exist."""
    gone = [
        name
        for path, name in TEST.findall(text)
        if name not in (names_in(ROOT / "tests" / path) if path else all_names())
    ]
    results = (ROOT / "bench/RESULTS.md").read_text()
    return gone + [bar for bar in BAR.findall(text) if f"| {bar} |" not in results]


def is_shown(text: str) -> bool:
    return any(pattern.search(text) for pattern in (TEST, BAR, COMMAND))


def test_each_page_has_promises() -> None:
    assert len(PAGES) >= 5
    assert all(len(list(rows(page))) > 20 for page in PAGES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_test_and_bar_that_a_page_names_exists(page: Path) -> None:
    assert missing(page.read_text()) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_promise_is_shown(page: Path) -> None:
    assert [promise for promise, shown in rows(page) if not is_shown(shown)] == []


@pytest.mark.parametrize("text", ["`test_nothing`", "`docs/test_promises.py::test_nothing`", 'bar "schedules"'])
def test_a_name_that_does_not_exist_is_found(text: str) -> None:
    assert missing(text)


def test_a_promise_that_is_shown_by_hand_is_found() -> None:
    assert not is_shown("by hand")
