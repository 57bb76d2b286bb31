"""Tables that stay copyable: only the last column is cut, so ids stay whole on a narrow terminal."""

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.text import Text

from leasehold.operations.views import printable, visible

Cell = str | Text
GAP = 2
LEAST_OF_THE_LAST = 20


def show_table(console: Console, columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
    """Shows a table. On a terminal the last column is shortened to fit; a pipe gets all of it."""
    for line in laid_out(columns, rows, console.width if console.is_terminal else None):
        show_line(console, line)


def show_line(console: Console, line: Cell) -> None:
    """Shows a line without wrapping or cutting it."""
    console.print(_text(line), no_wrap=True, overflow="ignore", crop=False)


def laid_out(columns: Sequence[str], rows: Iterable[Sequence[Cell]], width: int | None) -> list[Text]:
    grid = [[Text(column, style="bold") for column in columns], *([_one_line(cell) for cell in row] for row in rows)]
    widths = [max(row[place].cell_len for row in grid) + GAP for place in range(len(columns) - 1)]
    room = None if width is None else max(width - sum(widths), LEAST_OF_THE_LAST)
    return [_line(row, widths, room) for row in grid]


def _line(row: list[Text], widths: list[int], room: int | None) -> Text:
    *kept, last = row
    for cell, width in zip(kept, widths, strict=True):
        cell.pad_right(width - cell.cell_len)
    if room is not None:
        last.truncate(room, overflow="ellipsis")
    line = Text.assemble(*kept, last)
    line.rstrip()
    return line


def _one_line(cell: Cell) -> Text:
    text = Text(visible(cell.replace("\n", " "))) if isinstance(cell, str) else cell
    return Text(" ").join(text.split("\n")) if "\n" in text.plain else text.copy()


def _text(cell: Cell) -> Text:
    return Text(printable(cell)) if isinstance(cell, str) else cell
