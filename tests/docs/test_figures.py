"""Figures beside a link to the benchmark's results stand in them: a later run must not leave old ones behind."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\([./]*bench/(RESULTS[\w-]*\.md)\)")
# A year or a count of cores has neither thousands nor decimals, and is not looked up.
FIGURE = re.compile(r"\d[\d,]*,\d{3}|\d+\.\d+")
PAGES = [
    page
    for page in (ROOT / "README.md", *sorted((ROOT / "docs/how-to").glob("*.md")))
    if LINK.search(page.read_text())
]


def claims(page: Path) -> list[tuple[str, str]]:
    """Returns the figures of each sentence that links to results, with the name of their file."""
    sentences = re.split(r"(?<=[.:;])\s+(?=[A-Z*`\[])|\n\n", page.read_text())
    linked = [(sentence, found[1]) for sentence in sentences if (found := LINK.search(sentence))]
    return [(figure, file) for sentence, file in linked for figure in FIGURE.findall(sentence)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_figures_beside_a_link_to_results_stand_in_them(page: Path) -> None:
    results = {file: set(FIGURE.findall((ROOT / "bench" / file).read_text())) for _, file in claims(page)}
    assert [figure for figure, file in claims(page) if figure not in results[file]] == []


def test_a_sentence_with_a_link_has_its_figures_looked_up(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("It had 9.99 s. It ended\n1,234 jobs, 0.82 of all ([results](../bench/RESULTS.md)).\n\n7.7 more.")
    assert claims(page) == [("1,234", "RESULTS.md"), ("0.82", "RESULTS.md")]
