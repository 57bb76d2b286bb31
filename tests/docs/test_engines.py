"""The table of docs/explanation/engines.md has the abilities of both engines, in the words of the source."""

import inspect
import re
from dataclasses import fields
from pathlib import Path

from tests.engines_under_test import URLS

from leasehold.engines import engine_for
from leasehold.store import Abilities

PAGE = Path(__file__).parents[2] / "docs/explanation/engines.md"
ENGINE = Path(__file__).parents[2] / "src/leasehold/engines/dynamodb"
HOW_TO = Path(__file__).parents[2] / "docs/how-to/dynamodb.md"
TITLES = {"postgres": "Postgres", "dynamodb": "DynamoDB"}


def meanings() -> dict[str, str]:
    """Returns the meaning of each ability, from the docstring."""
    text = inspect.cleandoc(Abilities.__doc__ or "").partition("\n\n")[2]
    return dict(re.findall(r"^(\w+) {2,}(.+)$", text, re.MULTILINE))


def table() -> str:
    rows = [["ability", *TITLES.values()], ["---"] * (len(TITLES) + 1)]
    for name, meaning in meanings().items():
        has = ["yes" if getattr(engine_for(URLS[engine]).abilities, name) else "no" for engine in TITLES]
        rows.append([meaning, *has])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def test_the_policy_names_every_operation_of_the_engine() -> None:
    source = "".join(file.read_text() for file in sorted(ENGINE.glob("*.py")) if not file.name.startswith("test_"))
    called = set(re.findall(r'call\(\s*"(\w+)"', source))
    assert len(called) > 8
    in_transactions = {"ConditionCheckItem", "DeleteItem", "PutItem", "UpdateItem"}
    needed = (called - {"TransactWriteItems"}) | in_transactions
    named = set(re.findall(r"dynamodb:(\w+)\"", HOW_TO.read_text()))
    of_migrate = {"CreateTable", "DescribeTimeToLive", "UpdateTimeToLive"}
    assert named == needed - of_migrate
    assert all(f"`{name}`" in HOW_TO.read_text() for name in of_migrate)


def test_each_ability_has_a_meaning() -> None:
    assert list(meanings()) == [each.name for each in fields(Abilities)]


def test_the_page_has_the_table_of_abilities() -> None:
    assert table() in PAGE.read_text(), f"the page should have:\n{table()}"
