"""Which changes of an app's code are noticed."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.conftest import PATIENCE

from leasehold.cli.sources import changed_files, walk


@pytest.fixture
async def noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator["asyncio.Queue[str]"]:
    """The names of changed files, as they are noticed."""
    monkeypatch.setattr("leasehold.cli.sources.BEGUN_AFTER", 100)
    names: asyncio.Queue[str] = asyncio.Queue()

    async def watch() -> None:
        async for paths in changed_files(tmp_path, lambda _: None):
            for path in paths:
                names.put_nowait(Path(path).name)

    task = asyncio.create_task(watch())
    await asyncio.sleep(0)  # changes count from its first step on
    yield names
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def next_name(noticed: "asyncio.Queue[str]") -> str:
    async with asyncio.timeout(PATIENCE.total_seconds()):
        return await noticed.get()


async def test_files_in_folders_that_are_made_later_are_watched(
    tmp_path: Path, noticed: "asyncio.Queue[str]"
) -> None:
    (tmp_path / "first.py").write_text("")
    assert await next_name(noticed) == "first.py"
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "second.py").write_text("")
    assert await next_name(noticed) == "second.py"
    (tmp_path / "package" / "third.py").write_text("")
    while (name := await next_name(noticed)) == "second.py":
        continue
    assert name == "third.py"


def test_folders_that_hold_no_code_of_the_app_are_left_out(tmp_path: Path) -> None:
    for name in ("package", ".venv", "venv/lib/site-packages/other"):
        (tmp_path / name).mkdir(parents=True)
    tree = walk(tmp_path, (".venv", "site-packages"))
    assert {Path(place).relative_to(tmp_path).as_posix() for place in tree.folders} == {
        *(".", "package", "venv", "venv/lib")
    }


def test_a_folder_that_links_to_one_above_it_is_walked_once(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "up").symlink_to(tmp_path)
    assert walk(tmp_path, ()).folders == (str(tmp_path), str(tmp_path / "package"))
