"""The pictures of the README: each is there in both themes, and small."""

import re
from pathlib import Path

import pytest
from tests.console.screenshots import LARGEST, PAGES, THEMES

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
SHOWN = sorted(set(re.findall(r"docs/images/(\w+)-(?:light|dark)\.png", README)))


@pytest.mark.parametrize("name", SHOWN)
def test_a_picture_is_there_in_both_themes_and_small(name: str) -> None:
    assert name in PAGES
    for theme in THEMES:
        picture = ROOT / f"docs/images/{name}-{theme}.png"
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert picture.stat().st_size < LARGEST
    dark, light = f'srcset="docs/images/{name}-dark.png"', f'src="docs/images/{name}-light.png"'
    assert (README.count(dark), README.count(light)) == (1, 1)


def test_the_readme_shows_the_console() -> None:
    assert {"overview", "why", "workers"} <= set(SHOWN)
