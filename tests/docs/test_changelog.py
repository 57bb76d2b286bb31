"""The changelog names the test that was red before each repair."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
NAMED = re.compile(r"\btest_\w+\b")


def test_every_test_that_the_changelog_names_exists() -> None:
    files = list((ROOT / "tests").rglob("test_*.py"))
    exist = {file.stem for file in files}
    exist |= {name for file in files for name in re.findall(r"def (test_\w+)", file.read_text())}
    named = set(NAMED.findall((ROOT / "CHANGELOG.md").read_text()))
    assert len(named) > 50
    assert sorted(named - exist) == []
