"""Runs commands in this process, without a terminal, and returns their output."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from typer.testing import CliRunner

from leasehold.cli import app

# No server listens on this port: every connection is refused at once.
NOWHERE = "postgresql://127.0.0.1:1/nobody"
_UNSET = dict.fromkeys(("LEASEHOLD_URL", "LEASEHOLD_SCHEMA", "LEASEHOLD_HOME", "LEASEHOLD_TENANT", "FORCE_COLOR"))


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
    done = CliRunner().invoke(
        app, list(words), input=stdin, env=_UNSET | environment, catch_exceptions=False, prog_name="leasehold"
    )
    return Answer(done.exit_code, done.stdout, done.stderr)


@dataclass(frozen=True)
class CommandLine:
    """`await leasehold("jobs", "--json")` on this test's database; in a thread, since it has its own loop."""

    url: str

    async def __call__(self, *words: str, stdin: str | None = None, **environment: str) -> Answer:
        environment = {"LEASEHOLD_URL": self.url} | environment
        return await asyncio.to_thread(run, words, stdin, **environment)
