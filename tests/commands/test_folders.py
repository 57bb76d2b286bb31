"""Working folders: private, removed with their run, and removed later if even the guard was killed."""

import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.commands.kit import folders, python, run, shell

from leasehold.commands.folder_removal import remove_folder
from leasehold.commands.folders import make_folder, parent_folder, remove_leftovers


async def test_a_command_works_in_a_fresh_private_folder() -> None:
    text = "import os; print(os.listdir()); print(oct(os.stat('.').st_mode & 0o777)); print(oct(os.umask(0)))"
    _, lines = await run(python(text))
    assert lines.texts == ["[]", "0o700", "0o77"]


async def test_the_folder_is_removed_with_all_that_was_written() -> None:
    _, lines = await run(shell("mkdir -p a/b/c; touch a/x a/b/c/y; chmod 0 a/b/c; ln -s /etc link; pwd"))
    assert lines.texts == [str(parent_folder() / os.path.basename(lines.texts[0]))]
    assert folders() == []
    assert os.listdir("/etc")


async def test_a_folder_of_many_levels_is_removed() -> None:
    text = "import os\nfor _ in range(3000):\n    os.mkdir('deeper'); os.chdir('deeper')\n"
    await run([sys.executable, "-I", "-S", "-c", text])
    assert folders() == []


def test_a_link_in_a_folder_is_removed_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").touch()
    folder = tmp_path / "folder"
    (folder / "inner").mkdir(parents=True)
    (folder / "link").symlink_to(tmp_path / "kept")
    (folder / "inner" / "link").symlink_to(tmp_path / "kept")
    remove_folder(str(folder))
    assert not folder.exists()
    assert (tmp_path / "kept" / "file").exists()


def test_the_folder_of_a_running_command_is_not_a_leftover() -> None:
    folder = make_folder()
    assert remove_leftovers() == 0
    assert folder.path.exists()
    folder.release()
    assert remove_leftovers() == 1
    assert folders() == []


@contextmanager
def ordinary_user() -> Iterator[Path]:
    """Takes the rights of root away for the length of the block. Yields a folder of that user."""
    own, others = os.geteuid(), 65534
    if own == 0:
        os.seteuid(others)
    try:
        yield Path(tempfile.mkdtemp(dir="/tmp"))
    finally:
        os.seteuid(own)


def test_a_folder_without_permissions_is_removed() -> None:
    with ordinary_user() as folder:
        inner = folder / "inner" / "innermost"
        inner.mkdir(parents=True)
        (inner / "file").touch()
        for each in (inner, inner.parent, folder):
            each.chmod(0)
        with pytest.raises(PermissionError):
            os.listdir(folder)
        remove_folder(str(folder))
    assert not folder.exists()


async def test_a_payload_file_can_be_read_by_its_user_alone() -> None:
    folder = make_folder()
    path = folder.write("payload.json", b"{}")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    folder.remove()
    folder.release()


def test_a_parent_folder_that_others_can_write_to_is_refused() -> None:
    parent_folder().chmod(0o777)
    with pytest.raises(PermissionError, match="this user alone"):
        make_folder()
    parent_folder_path = Path(tempfile.gettempdir(), f"leasehold-commands-{os.geteuid()}")
    parent_folder_path.chmod(0o700)
