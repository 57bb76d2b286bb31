"""Processes of the systems: workers that note what they start, and producers that do as they are told."""

import asyncio
import json
import os
import re
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import Any

from bench.systems import CannotMeasure
from bench.tape import Start, Tape

GRACE = 15.0
ROOT = Path(__file__).parent.parent


class Child:
    """A process whose exit is always awaited. Its stderr is stored for the report of a failure."""

    def __init__(self, process: Process, log: Path) -> None:
        self._process = process
        self._log = log
        self.pid = process.pid

    @property
    def ended(self) -> bool:
        return self._process.returncode is not None

    @property
    def last_words(self) -> str:
        """The last line of its log that names an error, else the last one that says anything."""
        lines = [line.strip(" |+-") for line in self._log.read_text(errors="replace").splitlines()]
        lines = [line for line in lines if line]
        errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception)\b", line)]
        return (errors or lines or ["without a word"])[-1][:200]

    async def stop(self) -> None:
        if not self.ended:
            with suppress(ProcessLookupError):
                self._process.terminate()
            try:
                await asyncio.wait_for(self._process.wait(), GRACE)
            except TimeoutError:
                with suppress(ProcessLookupError):
                    os.killpg(self.pid, signal.SIGKILL)
                await self._process.wait()

    async def end(self, limit: float) -> None:
        """Waits for its end; an error if it fails or takes too long."""
        try:
            await asyncio.wait_for(self._process.wait(), limit)
        except TimeoutError:
            raise CannotMeasure(f"did not end within {limit:.0f} s") from None
        if self._process.returncode != 0:
            raise CannotMeasure(f"ended with {self._process.returncode}: {self.last_words}")

    async def ask(self, limit: float, **asked: Any) -> dict[str, Any]:
        """Says a line, and returns what it answers."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asked).encode() + b"\n")
        return await self.answer(limit)

    async def answer(self, limit: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        try:
            line = await asyncio.wait_for(self._process.stdout.readline(), limit)
        except TimeoutError:
            raise CannotMeasure(f"no answer within {limit:.0f} s") from None
        if not line:
            raise CannotMeasure(f"ended: {self.last_words}")
        answer: dict[str, Any] = json.loads(line)
        return answer


@asynccontextmanager
async def started(command: Sequence[str], log: Path, *, answers: bool = False) -> AsyncIterator[Child]:
    """A process that takes nothing from our environment's settings. Only who answers has a stdin and a stdout."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LEASEHOLD_")}
    with log.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=PIPE if answers else DEVNULL,
            stdout=PIPE if answers else file,
            stderr=file,
            cwd=ROOT,
            env=environment,
            start_new_session=True,
        )
    child = Child(process, log)
    try:
        yield child
    finally:
        await child.stop()


class Crew:
    """Workers of one system, and their tapes."""

    def __init__(self, children: Sequence[Child], tapes: Sequence[Tape]) -> None:
        self.children = children
        self.tapes = tapes
        self.waited_for = 0

    @property
    def pids(self) -> list[int]:
        return [child.pid for child in self.children if not child.ended]

    @property
    def handled(self) -> int:
        return sum(len(tape) for tape in self.tapes)

    def starts(self) -> list[Start]:
        return sorted(start for tape in self.tapes for start in tape.starts())

    async def until(self, handled: int, limit: float, pause: float = 0.002) -> None:
        """Returns when so many jobs have started. Reads memory, so that waiting disturbs nobody."""
        deadline = monotonic() + limit
        while self.handled < handled:
            self.must_live()
            if monotonic() > deadline:
                raise CannotMeasure(f"{self.handled:,} of {handled:,} jobs within {limit:.0f} s")
            await asyncio.sleep(pause)

    def must_live(self) -> None:
        for child in self.children:
            if child.ended:
                raise CannotMeasure(f"the worker ended: {child.last_words}")

    async def one_more(self, limit: float) -> None:
        """Returns when one more job has started than at the last call."""
        self.waited_for += 1
        await self.until(self.waited_for, limit)

    async def stop(self) -> None:
        await asyncio.gather(*(child.stop() for child in self.children))
