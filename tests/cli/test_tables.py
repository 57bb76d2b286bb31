"""Tables: copyable on any terminal, whole in a pipe."""

from io import StringIO

from rich.console import Console
from rich.text import Text

from leasehold.cli.tables import LEAST_OF_THE_LAST, laid_out, show_line, show_table

ID = "01890a5d-ac96-774b-bcce-b302099a8057"
LONG = "x" * 300


def lines(width: int | None, *rows: list[str | Text]) -> list[str]:
    return [line.plain for line in laid_out(["ID", "TRY", "WHY"], rows, width)]


def test_columns_fit_their_widest_cell_without_trailing_spaces() -> None:
    assert lines(None, [ID, "1/5", "no luck"], [ID, "0/12", ""]) == [
        f"ID{' ' * 36}TRY   WHY",
        f"{ID}  1/5   no luck",
        f"{ID}  0/12",
    ]


def test_in_a_pipe_nothing_is_cut() -> None:
    assert lines(None, [ID, "1/5", LONG])[1].endswith(LONG)


def test_on_a_terminal_only_the_last_column_gives_way() -> None:
    line = lines(80, [ID, "1/5", LONG])[1]
    assert len(line) == 80
    assert line.startswith(f"{ID}  1/5  xxx")
    assert line.endswith("x…")


def test_on_a_terminal_that_is_too_narrow_ids_stay_whole() -> None:
    line = lines(20, [ID, "1/5", LONG])[1]
    assert line.startswith(ID)
    assert len(line) == len(f"{ID}  1/5  ") + LEAST_OF_THE_LAST


def test_characters_that_take_two_places_keep_the_columns_straight() -> None:
    wide, narrow = lines(None, ["日本", "1/5", "a"], ["abcd", "1/5", "a"])[1:]
    assert wide == "日本  1/5  a"
    assert narrow == "abcd  1/5  a"


def test_hidden_characters_of_a_stored_id_are_escaped() -> None:
    assert lines(None, [ID, "1/5", "ac\u200bme\u202e"])[1] == rf"{ID}  1/5  ac\u200bme\u202e"


def test_a_cell_is_one_line_and_harmless() -> None:
    assert lines(None, [ID, "1/5", "no\nluck \x1b[2J"])[1] == f"{ID}  1/5  no luck ␛[2J"


def test_words_in_brackets_are_no_markup() -> None:
    file = StringIO()
    show_table(Console(file=file), ["A", "B"], [["[red]a[/red]", "[/] [x"]])
    assert file.getvalue() == "A             B\n[red]a[/red]  [/] [x\n"


def test_a_pipe_gets_whole_lines_without_colours() -> None:
    file = StringIO()
    show_line(Console(file=file, width=20), Text(LONG, style="red"))
    assert file.getvalue() == LONG + "\n"
