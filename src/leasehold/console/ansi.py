"""The colours of log lines: escape sequences for colours become classes, all others are removed. No I/O."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from leasehold.operations.views import printable

# CSI, OSC (ended by BEL or ST), and the short ones. The rest of a broken one is shown as pictures.
_ESCAPE = re.compile(
    r"\x1b\[([0-?]*)[ -/]*([@-~])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[()][0-9A-Z]|\x1b[=>78cDEHMNOZ]"
)
_COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a line in one style; `classes` are words of the style sheet."""

    text: str
    classes: str = ""


def parts_of(line: str) -> Sequence[Part]:
    """Divides a line by its styles. A line without escape sequences is one part."""
    if "\x1b" not in line:
        return [Part(printable(line))]
    return [part for part in _parts(line) if part.text]


def _parts(line: str) -> Iterator[Part]:
    bold, colour, place = False, "", 0
    for escape in _ESCAPE.finditer(line):
        yield _part(line[place : escape.start()], bold, colour)
        place = escape.end()
        if escape[2] == "m":
            bold, colour = _style(escape[1] or "0", bold, colour)
    yield _part(line[place:], bold, colour)


def _part(text: str, bold: bool, colour: str) -> Part:
    return Part(printable(text), " ".join(word for word in ("bold" if bold else "", colour) if word))


def _style(codes: str, bold: bool, colour: str) -> tuple[bool, str]:
    numbers = [int(each) if each.isdigit() and len(each) < 4 else 0 for each in codes.split(";")]
    index = 0
    while index < len(numbers):
        code = numbers[index]
        if code == 0:
            bold, colour = False, ""
        elif code in (1, 22):
            bold = code == 1
        elif 30 <= code <= 37 or 90 <= code <= 97:
            colour = _COLOURS[code % 10]
        elif code == 39:
            colour = ""
        elif code in (38, 48):  # a colour out of 256 or of a screen: its numbers are not codes
            index += 2 if numbers[index + 1 : index + 2] == [5] else 4
        index += 1
    return bold, colour
