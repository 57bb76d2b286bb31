"""`manage.py leasehold …`: the command line, for this project and its database."""

import os
import site
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from typing import Any

from django.core.management.base import BaseCommand

from leasehold.django.project_settings import ProjectSettings

# Commands that need the app; all others need only the database.
NEED_THE_APP = (("worker",), ("definitions", "sync"), ("tick",))
# Options of every Django command, which Django has handled before ours begins.
DJANGOS = ("--traceback", "--no-color", "--force-color", "--skip-checks")
DJANGOS_WITH_A_VALUE = ("--settings", "--pythonpath", "--verbosity", "-v")
_CHILD = "from leasehold.cli import main; main()"


class Command(BaseCommand):
    help = "Run Leasehold's command line for this project: leasehold worker, leasehold jobs, and so on."

    def run_from_argv(self, argv: list[str]) -> None:
        """Replaces this process by `leasehold`: signals reach it, and its exit code is its own."""
        os.execve(sys.executable, command_line(without_djangos(argv[2:])), environment())

    def handle(self, *arguments: Any, **options: Any) -> None:
        """Runs `call_command("leasehold", "prune")`."""
        subprocess.run(command_line([str(each) for each in arguments]), env=environment(), check=True)

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument("args", nargs="*")


def without_djangos(arguments: Sequence[str]) -> list[str]:
    """Returns the arguments without Django's own. After a bare -- all of them stay."""
    ours: list[str] = []
    words = iter(arguments)
    for word in words:
        if word == "--":
            return [*ours, word, *words]
        if word in DJANGOS_WITH_A_VALUE:
            next(words, None)
        elif word not in DJANGOS and word.partition("=")[0] not in DJANGOS_WITH_A_VALUE:
            ours.append(word)
    return ours


def command_line(arguments: Sequence[str]) -> list[str]:
    words = list(arguments)
    for verb in NEED_THE_APP:
        if tuple(words[: len(verb)]) == verb:
            words.insert(len(verb), "leasehold.django.loaded")
    return [sys.executable, "-c", _CHILD, *words]


def environment() -> dict[str, str]:
    """Passes the URL in the environment: arguments can be read by everyone on the machine."""
    settings = ProjectSettings.read()
    database = {"LEASEHOLD_URL": settings.url, "LEASEHOLD_SCHEMA": settings.schema}
    return {**os.environ, **database, "PYTHONPATH": os.pathsep.join(path_to_add())}


def path_to_add() -> list[str]:
    """Returns the import path of this process beyond Python's own: above all the folder of manage.py.

    The rest is left out. Handlers start programs, perhaps of another Python, which would import this one's library.
    """
    library = sysconfig.get_path("stdlib")
    by_itself = {library, *map(sysconfig.get_path, ("platstdlib", "purelib", "platlib"))}
    by_itself |= {*site.getsitepackages(), site.getusersitepackages()}
    found = [os.path.abspath(each) for each in sys.path]
    return [
        each for each in found if each not in by_itself and os.path.dirname(each) != library and os.path.exists(each)
    ]
