"""Processes of an example: its own program, and the command line, in the folder that the test module names."""

import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.worker.shop import Process

LEASEHOLD = ["-c", "from leasehold.cli import main; main()"]


class Example:
    def __init__(self, url: str, logs: Path, folder: Path) -> None:
        self._url, self._logs, self._folder = url, logs, folder
        self.started: list[Process] = []

    def run(self, *arguments: str) -> Process:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LEASEHOLD_")}
        environment = {**kept, "LEASEHOLD_URL": self._url}
        log = self._logs / f"process-{len(self.started)}.log"
        process = Process([sys.executable, *arguments], environment, log, folder=self._folder)
        self.started.append(process)
        return process

    def leasehold(self, *words: str) -> Process:
        return self.run(*LEASEHOLD, *words)

    async def must(self, *arguments: str) -> str:
        return await _output(self.run(*arguments))

    async def must_leasehold(self, *words: str) -> str:
        return await _output(self.leasehold(*words))

    async def document(self, *words: str) -> Any:
        said = await self.must_leasehold(*words, "--json")
        return json.loads(next(line for line in said.splitlines() if line.startswith(("[", "{"))))


async def _output(process: Process) -> str:
    assert await process.code() == 0, process.said
    return process.said


@pytest.fixture
async def example(request: pytest.FixtureRequest, tmp_path: Path, database_url: str) -> AsyncIterator[Example]:
    """The example in the module's FOLDER, on this test's database."""
    example = Example(database_url, tmp_path, request.module.FOLDER)
    yield example
    for process in example.started:
        await process.clear_up()
