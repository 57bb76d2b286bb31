"""`manage.py leasehold`: the arguments and the environment that it passes on."""

import os
import sys
import sysconfig
from pathlib import Path

import pytest

from leasehold.django.management.commands.leasehold import command_line, path_to_add, without_djangos


@pytest.mark.parametrize(
    ("words", "ours"),
    [
        ("worker --slots 3", "worker --slots 3"),
        ("worker --settings shop.settings --slots 3", "worker --slots 3"),
        ("--settings=shop.settings --pythonpath=/srv worker", "worker"),
        ("--pythonpath /srv -v 2 --verbosity=3 worker", "worker"),
        ("jobs --traceback --no-color --force-color --skip-checks --json", "jobs --json"),
        ("jobs --settings", "jobs"),
        ("enqueue note -- --settings x", "enqueue note -- --settings x"),
        ("--version", "--version"),
    ],
)
def test_djangos_own_options_are_not_ours(words: str, ours: str) -> None:
    assert without_djangos(words.split()) == ours.split()


def test_commands_that_need_the_app_are_told_where_it_is() -> None:
    assert command_line(["worker", "--json"])[3:] == ["worker", "leasehold.django.loaded", "--json"]
    assert command_line(["jobs"])[3:] == ["jobs"]


def test_only_what_python_does_not_find_by_itself_is_added(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    library, packages = sysconfig.get_path("stdlib"), sysconfig.get_path("purelib")
    dynamic, missing = os.path.join(library, "lib-dynload"), str(tmp_path / "python.zip")
    monkeypatch.setattr(sys, "path", [str(tmp_path), "", missing, library, dynamic, packages])
    assert path_to_add() == [str(tmp_path), os.getcwd()]
