"""Keeps the prose plain: every sentence names its subject.

Reads docstrings, comments and texts of Python and SQL files, and Markdown pages without their code. A sentence
must not start with a word that stands for an unnamed subject, and some words are not used at all.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Folders and files that obey the rule: one line for each.
PLAIN = [
    "README.md",
    "CONTRIBUTING.md",
    "docs",
    "deploy",
    "examples",
    "src/leasehold",
    "bench",
    "tests",
    "tools",
]
READ = (".py", ".sql", ".md")
INSTALLED = {"node_modules", ".oban"}  # by make bench

UNNAMED_SUBJECT = re.compile(r"(?:Who|Whoever|Nobody|What|Nor)\b")
START = re.compile(r"(?:\A|[.!?:;]\s+|\n\s*\n\s*|\n\s*(?:[-*#|]+|\d+\.)\s+)[\"'`(*_]*(?=(\w+))")
NOT_USED = re.compile(r"\b(?:anew|whoever)\b|\bis no\b", re.IGNORECASE)
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
SQL_COMMENT = re.compile(r"--\s?(.*)$", re.MULTILINE)
SQL_TEXT = re.compile(r"'((?:[^'\n]|'')* (?:[^'\n]|'')*)'")


def files(name: str) -> list[Path]:
    """Returns the files of a folder that Leasehold's authors wrote, or the file itself."""
    place = ROOT / name
    found = [place] if place.is_file() else sorted(place.rglob("*"))
    assert found, f"{name} does not exist"
    return [
        file
        for file in found
        if file.suffix in READ and file != Path(__file__) and not INSTALLED & set(file.relative_to(ROOT).parts)
    ]


def texts(file: Path) -> Iterator[str]:
    """Yields the pieces of prose of a file."""
    content = file.read_text()
    if file.suffix == ".md":
        yield FENCED.sub("\n\n", content)
    elif file.suffix == ".sql":
        yield "\n".join(SQL_COMMENT.findall(content))
        yield from SQL_TEXT.findall(SQL_COMMENT.sub("", content))
    else:
        yield from strings(ast.parse(content))
        yield from comments(content)


def strings(tree: ast.Module) -> Iterator[str]:
    """Yields docstrings and messages: every string with a space."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.value


def comments(content: str) -> Iterator[str]:
    """Yields each comment; lines that follow each other are one text."""
    lines: list[tuple[int, str]] = []
    for token in tokenize.generate_tokens(io.StringIO(content).readline):
        if token.type == tokenize.COMMENT:
            if lines and token.start[0] != lines[-1][0] + 1:
                yield "\n".join(text for _, text in lines)
                lines = []
            lines.append((token.start[0], token.string.lstrip("#: ")))
    yield "\n".join(text for _, text in lines)


def faults(text: str) -> Iterator[str]:
    for start in START.finditer(text):
        if UNNAMED_SUBJECT.match(start[1]):
            yield shortened(text, start.end())
    for used in NOT_USED.finditer(text):
        yield shortened(text, used.start())


def shortened(text: str, place: int) -> str:
    return " ".join(text[place : place + 80].split())


@pytest.mark.parametrize("name", PLAIN)
def test_sentences_name_their_subjects(name: str) -> None:
    found = [
        f"{file.relative_to(ROOT)}: {fault}" for file in files(name) for text in texts(file) for fault in faults(text)
    ]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "Who stops passes its wake on.",
        "It waits. Nobody sees it.",
        "Two cases.\n\n- What is left is removed",
        "| a | b |\n| What it does | c |",
        "The row is written anew.",
        "This is no error.",
    ],
)
def test_a_sentence_without_a_subject_is_found(text: str) -> None:
    assert len(list(faults(text))) == 1


@pytest.mark.parametrize("text", ["The worker knows what it runs.", "Whatever it is.", "The row no longer exists."])
def test_a_plain_sentence_is_not_refused(text: str) -> None:
    assert list(faults(text)) == []
