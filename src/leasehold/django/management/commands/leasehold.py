"""`manage.py leasehold …`: the command line, for this project and its database."""

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from django.core.management.base import BaseCommand

from leasehold.django.place import Place

# These are told where the app is; all others need only the database.
NEED_THE_APP = (("worker",), ("definitions", "sync"), ("tick",))
_CHILD = "from leasehold.cli import main; main()"


class Command(BaseCommand):
    help = "Run Leasehold's command line for this project: leasehold worker, leasehold jobs, and so on."

    def run_from_argv(self, argv: list[str]) -> None:
        """Becomes `leasehold`: signals reach it, and its exit code is its own."""
        os.execve(sys.executable, command_line(argv[2:]), environment())

    def handle(self, *arguments: Any, **options: Any) -> None:
        """For `call_command("leasehold", "prune")`."""
        subprocess.run(command_line([str(each) for each in arguments]), env=environment(), check=True)

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument("args", nargs="*")


def command_line(arguments: Sequence[str]) -> list[str]:
    words = list(arguments)
    for verb in NEED_THE_APP:
        if tuple(words[: len(verb)]) == verb:
            words.insert(len(verb), "leasehold.django.loaded")
    return [sys.executable, "-c", _CHILD, *words]


def environment() -> dict[str, str]:
    """The URL is no argument: those can be read by everyone on the machine."""
    place = Place.of_settings()
    return {**os.environ, "LEASEHOLD_URL": place.url, "LEASEHOLD_SCHEMA": place.schema}
