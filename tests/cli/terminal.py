"""Runs commands in this process, without a terminal, and returns their output."""

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import orjson
import pytest
import typer.main
from typer.testing import CliRunner

from leasehold.cli import app

# No server listens on this port: every connection is refused at once.
NOWHERE = "postgresql://127.0.0.1:1/nobody"
_UNSET = dict.fromkeys(
    ("LEASEHOLD_URL", "LEASEHOLD_API", "LEASEHOLD_SCHEMA", "LEASEHOLD_HOME", "LEASEHOLD_TENANT", "FORCE_COLOR")
)


@dataclass(frozen=True)
class Answer:
    """`out` is the text on stdout, `err` that on stderr."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return orjson.loads(self.out)

    @property
    def documents(self) -> list[Any]:
        return [orjson.loads(line) for line in self.out.splitlines()]

    @property
    def error(self) -> Any:
        """The error of a command that was asked for JSON; nothing else is on stdout."""
        return self.document["error"]

    @property
    def rows(self) -> list[list[str]]:
        """A table, split at its gaps, without its heading."""
        return [[cell.strip() for cell in line.split("  ") if cell] for line in self.out.splitlines()[1:]]


def run(words: Sequence[str], stdin: str | None = None, **environment: str) -> Answer:
    sys.dont_write_bytecode = True  # an app that a test writes twice in a second would be the first one
    try:
        with CliRunner().isolation(input=stdin, env=_UNSET | environment) as (stdout, stderr, _):
            with pytest.raises(SystemExit) as ended:
                _command().main(args=list(words), prog_name="leasehold")
            sys.stdout.flush()
            sys.stderr.flush()
            return Answer(int(ended.value.code or 0), stdout.getvalue().decode(), stderr.getvalue().decode())
    finally:
        sys.dont_write_bytecode = False


@cache
def _command() -> Any:
    """Returns the command line. To make it takes 60 ms, so all tests of a process share one."""
    return typer.main.get_command(app)


@dataclass(frozen=True)
class CommandLine:
    """`await leasehold("jobs", "--json")` on this test's database; in a thread, since it has its own loop."""

    url: str

    async def __call__(self, *words: str, stdin: str | None = None, **environment: str) -> Answer:
        environment = {"LEASEHOLD_URL": self.url} | environment
        return await asyncio.to_thread(run, words, stdin, **environment)
