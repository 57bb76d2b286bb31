"""`leasehold top`."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Annotated

import typer
from rich.live import Live

from leasehold.cli.options import Schema, Url, ask
from leasehold.cli.output import explain_errors, print_json, stderr, stdout
from leasehold.cli.tables import show_line
from leasehold.cli.top_screen import TopScreen
from leasehold.control import Control
from leasehold.control.protocol import Document
from leasehold.errors import InvalidInput, Unreachable
from leasehold.model.duration import read_duration

SHORTEST_PAUSE = 0.5
Read = Callable[[], Awaitable[Document]]


def top(
    every: Annotated[str, typer.Option(help="How often to look.", metavar="TIME")] = "2s",
    once: Annotated[bool, typer.Option("--once", help="Look once, print it, and end.")] = False,
    url: Url = None,
    schema: Schema = None,
    json: Annotated[bool, typer.Option("--json", help="A JSON object a line, for each look.")] = False,
) -> None:
    """Watch definitions, tenants, workers and rates.

    Each look is three statements that read a bounded number of rows. q or Ctrl-C ends it; into a pipe it looks once.
    """
    with explain_errors(json):
        pause = read_duration(every).total_seconds()
        if pause < SHORTEST_PAUSE:
            raise InvalidInput(
                f"--every {every} is too often: a look each {SHORTEST_PAUSE} s is the most. Nothing was read.",
                fix="Leave it out for one each 2 s.",
            )
        single = once or not (json or stdout.is_terminal)
        with suppress(KeyboardInterrupt):  # how it is ended, beside q
            ask(url, schema, lambda control: _watch(control, pause, single=single, json=json))


async def _watch(control: Control, pause: float, *, single: bool, json: bool) -> None:
    if single:
        _print(await control.activity(), json)
    elif json:
        async for found, _ in _looks(control.activity, pause):
            print_json(found)
    else:
        await _show_until_q(control.activity, pause)


def _print(found: Document, json: bool) -> None:
    if json:
        print_json(found)
        return
    screen = TopScreen()
    screen.add(found)
    for line in screen.lines(stdout.width, None):
        show_line(stdout, line)


async def _looks(read: Read, pause: float) -> AsyncIterator[tuple[Document, Unreachable | None]]:
    """Yields what each look has found. While the queue is away, yields what was found last, with the error."""
    found = await read()
    yield found, None
    while True:
        await asyncio.sleep(pause)
        try:
            found, error = await read(), None
        except Unreachable as away:
            error = away
        yield found, error


async def _show_until_q(read: Read, pause: float) -> None:
    screen, looks, began = TopScreen(), _looks(read, pause), monotonic()
    found, _ = await anext(looks)  # before the screen is cleared: an error stays readable
    screen.add(found)
    with _keys() as ended, Live(screen, console=stdout, screen=True, auto_refresh=False) as live:
        live.refresh()
        while (look := await _next(looks, ended)) is not None:
            screen.add(*look)
            live.refresh()
    stderr.print(f"watched for {monotonic() - began:.0f} s", style="dim")


async def _next(
    looks: AsyncIterator[tuple[Document, Unreachable | None]], ended: asyncio.Event
) -> tuple[Document, Unreachable | None] | None:
    """Returns the next look; None if a key has ended it meanwhile."""
    look, key = asyncio.ensure_future(anext(looks)), asyncio.ensure_future(ended.wait())
    try:
        await asyncio.wait((look, key), return_when=asyncio.FIRST_COMPLETED)
        return None if ended.is_set() else look.result()
    finally:
        for task in (look, key):
            task.cancel()
        await asyncio.gather(look, key, return_exceptions=True)


@contextmanager
def _keys() -> Iterator[asyncio.Event]:
    """Reads single keys of a terminal; the event is set by q. Ctrl-C stays an interrupt."""
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    try:
        import termios
        import tty

        keyboard = sys.stdin.fileno()
        before = termios.tcgetattr(keyboard)
    except (ImportError, OSError, ValueError):  # Windows, or no terminal to read from: Ctrl-C ends it
        yield ended
        return

    def read_key() -> None:
        typed = os.read(keyboard, 100)
        if b"q" in typed.lower() or not typed:
            ended.set()

    tty.setcbreak(keyboard)
    loop.add_reader(keyboard, read_key)
    try:
        yield ended
    finally:
        loop.remove_reader(keyboard)
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
