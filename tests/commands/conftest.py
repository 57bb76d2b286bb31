"""Each test has a temporary folder of its own, in which it must leave nothing."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.commands import kit


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = kit.descriptors()
    yield
    assert kit.folders() == [], "a working folder was left behind"
    assert kit.descriptors() <= before, "a descriptor was left open"
