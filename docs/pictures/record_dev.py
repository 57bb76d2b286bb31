"""Records a real run of `leasehold dev` in a terminal, and writes the picture that the README shows.

    python docs/pictures/record_dev.py

Starts `leasehold dev` on a small app in an empty folder, enqueues jobs that succeed, retry and fail, stops it by
Ctrl-C, and writes docs/pictures/dev.svg: text, no font and no script of others, readable on light and dark pages.
"""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable
from html import escape
from pathlib import Path

from rich.color import ColorType
from rich.style import Style
from rich.text import Text

PICTURE = Path(__file__).with_name("dev.svg")
COLUMNS, PATIENCE = 104, 60.0
APP = """
import time

from leasehold import Fail, Job, Leasehold, Steps

app = Leasehold()


@app.job(timeout="10m")
async def sync_folder(job: Job, provider_id: str, path: str = "/") -> int:
    job.log(f"syncing {path} of {provider_id} for {job.tenant}")
    return 3


@app.job(backoff=Steps("1s"), max_attempts=3)
def fetch_rates(job: Job, currency: str) -> float:
    if job.tries < 2:
        raise TimeoutError("the bank did not answer")
    return 1.08


@app.job
def send_invoice(job: Job, order: int) -> None:
    time.sleep(0.4)
    if order == 9:
        raise Fail("order 9 has no address")
"""
ENQUEUE = """
from app import app, fetch_rates, send_invoice, sync_folder

acme, globex = app.tenant("acme"), app.tenant("globex")
acme.enqueue(sync_folder, provider_id="p_9")
globex.enqueue(fetch_rates, currency="EUR")
acme.enqueue(send_invoice, order=7)
acme.enqueue(send_invoice, order=9)
"""
WIDTH, HEIGHT, MARGIN, TOP = 8.4, 19, 18, 44
PAPER, INK = "#1c2128", "#d6dde6"
PALETTE = ("#545d68", "#f47067", "#57ab5a", "#d9a53f", "#6cb6ff", "#b083f0", "#56c2c0", "#adbac7")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "app.py").write_text(APP)
        (Path(folder) / "enqueue.py").write_text(ENQUEUE)
        PICTURE.write_text(picture(readable(record(Path(folder)))))


def record(folder: Path) -> str:
    """Returns all that `leasehold dev` writes to a terminal until three jobs have succeeded and one has failed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LEASEHOLD_")}
    environment |= {"TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "NO_COLOR": ""}
    terminal, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
    command = [sys.executable, "-c", "from leasehold.cli import main; main()", "dev", "app.py"]
    dev = subprocess.Popen(
        command, cwd=folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    try:
        said = read_until(terminal, "", lambda text: "worker" in text and "watching" in text)
        subprocess.run([sys.executable, "enqueue.py"], cwd=folder, env=environment, check=True)
        return read_until(
            terminal, said, lambda text: len(re.findall(r"✓ [0-9a-f]{8}", text)) == 3 and "failed:" in text
        )
    finally:
        dev.send_signal(signal.SIGINT)
        dev.wait(PATIENCE)
        os.close(terminal)


def read_until(terminal: int, said: str, enough: Callable[[str], bool]) -> str:
    deadline = time.monotonic() + PATIENCE
    while not enough(plain(said)):
        if not select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise TimeoutError(f"leasehold dev wrote no more than: {said}")
        said += os.read(terminal, 65_536).decode()
    return said


def plain(said: str) -> str:
    return Text.from_ansi(said.replace("\r\n", "\n")).plain


def readable(said: str) -> list[Text]:
    """The lines without paths of this machine; each as its terminal would show it."""
    lines = Text.from_ansi("\x1b[1m$ leasehold dev app.py\x1b[0m\n" + said.replace("\r\n", "\n")).split("\n")
    while lines and not lines[-1].plain.strip():
        lines.pop()
    for line in lines:
        line.truncate(COLUMNS, overflow="ellipsis")
    return list(lines)


def picture(lines: list[Text]) -> str:
    width, height = 2 * MARGIN + COLUMNS * WIDTH, TOP + HEIGHT * len(lines) + MARGIN
    rows = [row(line, TOP + HEIGHT * (number + 0.75)) for number, line in enumerate(lines)]
    dots = [
        f'<circle cx="{MARGIN + 6 + 20 * place}" cy="20" r="6" fill="{PALETTE[colour]}"/>'
        for place, colour in enumerate((1, 3, 2))
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img"'
            f" font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace\""
            f' font-size="14" fill="{INK}">',
            "<title>leasehold dev shows each job as it is queued, started, retried, and ends</title>",
            f'<rect x="0.5" y="0.5" width="{width - 1:g}" height="{height - 1:g}" rx="10"'
            f' fill="{PAPER}" stroke="{PALETTE[0]}"/>',
            *dots,
            *rows,
            "</svg>\n",
        ]
    )


def row(line: Text, y: float) -> str:
    """One line. Each piece has its place and length: columns align in every font."""
    pieces, column = [], 0
    for segment in line.render(_Plain()):  # type: ignore[arg-type]
        text, style = segment.text.rstrip("\n"), segment.style or Style()
        length = Text(text).cell_len
        if text.strip():
            inner = len(text) - len(text.lstrip())
            x = MARGIN + (column + inner) * WIDTH
            size = Text(text.strip()).cell_len * WIDTH
            pieces.append(
                f'<tspan x="{x:g}" textLength="{size:g}" lengthAdjust="spacingAndGlyphs"{look(style)}>'
                f"{escape(text.strip())}</tspan>"
            )
        column += length
    return f'<text y="{y:g}" xml:space="preserve">{"".join(pieces)}</text>'


def look(style: Style) -> str:
    colour = style.color
    fill = ""
    if colour is not None and colour.type is ColorType.STANDARD and colour.number is not None:
        fill = f' fill="{PALETTE[colour.number % 8]}"'
    return fill + (' font-weight="bold"' if style.bold else "") + (' opacity="0.65"' if style.dim else "")


class _Plain:
    """The part of a console that `Text.render` uses."""

    def get_style(self, style: object, *, default: object = None) -> Style:
        return style if isinstance(style, Style) else Style.parse(str(style)) if style else Style()


if __name__ == "__main__":
    main()
