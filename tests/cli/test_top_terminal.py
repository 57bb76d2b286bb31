"""`leasehold top` in a real pseudo-terminal: it draws, follows what happens, and ends by q and by Ctrl-C."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from tests.cli.dev_process import MAIN
from tests.conftest import PATIENCE, eventually
from tests.store.bench import Bench

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[()][A-Z0-9]")
ENTERS, LEAVES = "\x1b[?1049h", "\x1b[?1049l"


@dataclass
class Window:
    """A terminal of 100 × 30 with a program in it."""

    process: "subprocess.Popen[bytes]"
    controller: int
    drawn: str = ""

    def read(self) -> str:
        """Returns all that was drawn so far."""
        try:
            while chunk := os.read(self.controller, 65536):
                self.drawn += chunk.decode(errors="replace")
        except OSError:  # nothing more for now, or the program has ended
            pass
        return self.drawn

    @property
    def text(self) -> str:
        """The latest drawing, without control sequences and repeated spaces."""
        latest = self.read().rpartition("leasehold top")[2]
        return " ".join(ESCAPES.sub(" ", latest).split())

    async def shows(self, text: str) -> None:
        async def shown() -> bool:
            assert self.process.poll() is None, self.read()
            return text in self.text

        await eventually(shown, PATIENCE, what=f"{text!r} on the screen")

    def type(self, keys: bytes) -> None:
        os.write(self.controller, keys)

    async def code(self) -> int | None:
        """Returns the exit code. Reads meanwhile: a program whose terminal takes no more can't end."""

        async def ended() -> bool:
            self.read()
            return self.process.poll() is not None

        await eventually(ended, PATIENCE, what="the end of the program")
        return self.process.returncode


@pytest.fixture
def window(database_url: str) -> Iterator[Window]:
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    os.set_blocking(controller, False)
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, "top", "--every", "500ms"],
        env=os.environ | {"LEASEHOLD_URL": database_url, "TERM": "xterm-256color", "COLUMNS": "", "LINES": ""},
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(terminal)
    yield Window(process, controller)
    if process.poll() is None:
        process.kill()
        process.wait()
    os.close(controller)


async def test_it_follows_what_happens_until_q(window: Window, bench: Bench) -> None:
    await window.shows("0 ready")
    await bench.enqueue_many(3)
    await window.shows("3 ready")
    await window.shows("report 3 0")
    await bench.claim_one()
    await window.shows("2 ready · 1 running")
    window.type(b"x")
    window.type(b"q")
    assert await window.code() == 0, window.read()
    assert window.read().count(ENTERS) == window.read().count(LEAVES) == 1
    assert "Traceback" not in window.read()


async def test_ctrl_c_ends_it_and_gives_the_terminal_back(window: Window, bench: Bench) -> None:
    before = termios.tcgetattr(window.controller)
    await window.shows("0 ready")
    window.type(b"\x03")
    assert await window.code() == 0, window.read()
    assert LEAVES in window.read()
    assert "Traceback" not in window.read()
    assert termios.tcgetattr(window.controller)[3] == before[3]
