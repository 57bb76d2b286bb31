"""The tables of docs/architecture.md have the rows that the tools print."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/architecture.md").read_text()


def test_the_table_has_a_row_for_each_measure() -> None:
    counted = subprocess.run(
        [sys.executable, ROOT / "tools/count_house.py"], capture_output=True, text=True, check=True
    ).stdout
    names = re.findall(r"^\| (.+?) \| ", counted, re.MULTILINE)
    table = PAGE.partition("## Measured")[2].partition("\n\n| one job")[0]
    assert len(names) > 8
    assert re.findall(r"^\| (.+?) \| ", table, re.MULTILINE)[1:] == names
