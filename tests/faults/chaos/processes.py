"""Worker processes that a test starts, stops and ends; by their pid, and none is left behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

from tests.conftest import eventually
from tests.faults.chaos import history
from tests.faults.chaos.history import Entry, Event
from tests.faults.chaos.program import Setup

ROOT = Path(__file__).parents[3]
GUARD = timedelta(seconds=60)


class WorkerProcess:
    def __init__(self, setup: Setup, fault: str = "") -> None:
        self.setup = setup
        self._log = Path(f"{setup.history}.{setup.name}.log")
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.chaos.program", setup.as_json()],
                cwd=ROOT,
                env={**os.environ, "LEASEHOLD_FAULT": fault},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.pid = self._process.pid

    @property
    def log(self) -> str:
        return self._log.read_text()

    def entries(self, *events: Event) -> list[Entry]:
        """The events that this process wrote."""
        mine = f"{self.setup.name}:{self.pid}"
        return [
            entry
            for entry in history.read(Path(self.setup.history))
            if entry.by == mine and (not events or entry.event in events)
        ]

    async def wrote(self, event: Event, times: int = 1) -> None:
        async def has_written() -> bool:
            assert self._process.poll() is None, f"worker {self.setup.name} ended:\n{self.log}"
            return len(self.entries(event)) >= times

        await eventually(has_written, GUARD, f"{self.setup.name} with {times} x {event}")

    def is_stopped(self) -> bool:
        with suppress(FileNotFoundError):
            return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
        return False

    async def stops_itself(self) -> None:
        async def stopped() -> bool:
            assert self._process.poll() is None, f"worker {self.setup.name} ended:\n{self.log}"
            return self.is_stopped()

        await eventually(stopped, GUARD, f"a stop of {self.setup.name}")

    def hears(self) -> bool:
        """Whether it has come as far as to catch SIGUSR1, which would end it before."""
        with suppress(FileNotFoundError):
            status = Path(f"/proc/{self.pid}/status").read_text()
            caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
            return bool(int(caught.split()[1], 16) & 1 << (signal.SIGUSR1 - 1))
        return False

    def arm(self, fault: str) -> None:
        """Strikes when its point is reached next; call it when it `hears`."""
        unfinished = self.setup.fault_file.with_suffix(".new")
        unfinished.write_text(fault)
        unfinished.rename(self.setup.fault_file)
        self._process.send_signal(signal.SIGUSR1)

    def stop(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    @property
    def ended_with(self) -> int | None:
        return self._process.poll()

    def lives(self) -> bool:
        return self._process.poll() is None

    async def drain(self) -> int:
        """SIGTERM; returns its exit code. A fault that is armed still may stop it on the way."""
        self._process.send_signal(signal.SIGTERM)

        async def ended() -> bool:
            if self.is_stopped():
                self.resume()
            return not self.lives()

        await eventually(ended, GUARD, f"the end of {self.setup.name}")
        return int(self._process.returncode)


@contextmanager
def ended_afterwards() -> Iterator[list[WorkerProcess]]:
    """Whatever was put into the list is killed when the block is left."""
    processes: list[WorkerProcess] = []
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
