"""Describes where an error was raised: for people, and bounded in size."""

import concurrent
import os
import sys
import sysconfig
from asyncio import __path__ as _asyncio
from collections.abc import Iterator
from pathlib import Path
from traceback import FrameSummary, StackSummary, TracebackException

from leasehold.config import process_redactor
from leasehold.model.outcome import SHOWN_TRACEBACK, Trace
from leasehold.model.redaction import Redactor

MOST_FRAMES = 20

_OWN_FOLDERS = tuple(
    os.path.join(str(folder), "") for folder in (Path(__file__).parents[1], *_asyncio, *concurrent.__path__)
)
_LIBRARIES = tuple(
    os.path.join(sysconfig.get_path(name), "") for name in ("stdlib", "platstdlib", "purelib", "platlib")
)
_MADE_WITHOUT_A_FILE = "<"


def message_of(error: BaseException, redactor: Redactor | None = None) -> str:
    """Returns the exception's text, redacted. If that raises, even SystemExit, only the message suffers."""
    try:
        return (redactor or process_redactor()).text(str(error) or repr(error))
    except BaseException as worse:
        return f"it can't say what happened: its text raises {type(worse).__name__}"


def trace_of(error: BaseException, redactor: Redactor | None = None) -> Trace | None:
    """Returns the place and the redacted traceback; None if only our own code was involved.

    Never raises, whatever the exception does when it is read.
    """
    try:
        told = TracebackException.from_exception(error, limit=-MOST_FRAMES)
        for each in _chain(told):
            each.stack = _without_own_frames(each.stack)
        stack = next(each.stack for each in _chain(told) if each.stack)
        return Trace(_where(stack), _shorten((redactor or process_redactor()).text("".join(told.format()))))
    except BaseException:
        return None


def trace_of_stack(stack: StackSummary) -> Trace | None:
    """Returns the trace of code that runs, for people. None if only our own code is involved."""
    theirs = _without_own_frames(stack)
    if not theirs:
        return None
    return Trace(_where(theirs), _shorten("Traceback (most recent call last):\n" + "".join(theirs.format())))


def _chain(told: TracebackException | None) -> Iterator[TracebackException]:
    """Yields the exception and those that it came from."""
    while told is not None:
        yield told
        told = told.__cause__ or told.__context__


def _without_own_frames(stack: StackSummary) -> StackSummary:
    """Drops the frames above the handler, which are the same for all."""
    above = 0
    while above < len(stack) and stack[above].filename.startswith(_OWN_FOLDERS):
        above += 1
    return StackSummary.from_list(list(stack[above:]))


def _where(stack: StackSummary) -> str:
    """Returns the innermost place in the app's own code: an error in a library is caused by its caller."""
    others = (*_OWN_FOLDERS, *_LIBRARIES, _MADE_WITHOUT_A_FILE)
    own = [frame for frame in stack if not frame.filename.startswith(others)]
    frame = own[-1] if own else stack[0]
    return f"{_as_imported(frame)}:{frame.lineno} in {frame.name}"


def _as_imported(frame: FrameSummary) -> str:
    roots = (os.path.join(os.path.abspath(root), "") for root in sys.path)
    return frame.filename.removeprefix(max(filter(frame.filename.startswith, roots), key=len, default=""))


def _shorten(text: str) -> str:
    """Returns the beginning and the end of a text: messages may be endless."""
    half = SHOWN_TRACEBACK // 2 - 2
    return text if len(text) <= SHOWN_TRACEBACK else f"{text[:half]}\n…\n{text[-half:]}"
