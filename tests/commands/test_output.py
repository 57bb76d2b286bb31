"""Output of commands: always drained, kept within bounds, and cut into lines that can be stored."""

import pytest
from tests.commands.kit import Lines, memory, peak_memory, python, run

from leasehold.commands.output import HeadAndTail, Output
from leasehold.model.job import LineKind
from leasehold.model.process import SHOWN_HEAD, SHOWN_TAIL, KeptOutput, ProcessEnd
from leasehold.model.redaction import Redactor

OUT, ERR, PROGRESS = LineKind.STDOUT, LineKind.STDERR, LineKind.PROGRESS


def lines_of(*chunks: bytes, progress: bool = True, room: float = float("inf")) -> Lines:
    lines = Lines(room)
    stream = Output(lines, OUT, Redactor().stream(), progress=progress)
    for chunk in chunks:
        stream.feed(chunk)
    stream.end()
    return lines


def test_lines_are_cut_at_line_ends_whatever_the_chunks() -> None:
    assert lines_of(b"on", b"e\ntw", b"o\r\n\nfour").texts == ["one", "two", "", "four"]


def test_bytes_that_are_not_utf_8_are_replaced() -> None:
    assert lines_of(b"a\xffb\n\xc3\xa4\n").texts == ["a\N{REPLACEMENT CHARACTER}b", "ä"]


def test_a_line_that_is_too_long_is_cut_and_marked() -> None:
    (text,) = lines_of(*[b"x" * 100_000] * 10, b"\n").texts
    assert text == "x" * 8_000 + "… (1,000,000 bytes, the first 8,000 are kept)"


def test_lines_that_the_log_refuses_are_counted() -> None:
    lines = lines_of(b"line\n" * 100, b"line\n" * 100, b"rest", room=50)
    assert (len(lines.kept), lines.dropped) == (50, 151)


def test_a_line_of_progress_moves_the_progress_bar() -> None:
    lines = lines_of(b"::progress 0.4 1204 of 3010\n::progress 1\n::progress 7 beyond\n::progress .5\r\n")
    assert lines.kept == [
        (PROGRESS, "1204 of 3010", 0.4),
        (PROGRESS, "", 1.0),
        (PROGRESS, "beyond", 1.0),
        (PROGRESS, "", 0.5),
    ]


@pytest.mark.parametrize(
    "line", [b"::progress", b"::progress x", b"::progress -1", b"::progress nan", b" ::progress 1"]
)
def test_a_line_that_is_no_progress_stays_a_line(line: bytes) -> None:
    assert lines_of(line + b"\n").kept == [(OUT, line.decode(), None)]


def test_progress_can_be_turned_off() -> None:
    assert lines_of(b"::progress 0.4\n", progress=False).kept == [(OUT, "::progress 0.4", None)]


def test_a_secret_is_redacted_across_chunks_and_before_the_tail() -> None:
    lines = Lines()
    stream = Output(lines, OUT, Redactor().with_values("hunter2-hunter2").stream())
    for byte in b"the key is hunter2-hunter2 here\n":
        stream.feed(bytes([byte]))
    stream.end()
    assert "hunter2" not in lines.texts[0]
    assert "hunter2" not in stream.kept().tail
    assert stream.kept().size == len("the key is hunter2-hunter2 here\n")


def test_a_short_output_is_its_own_tail() -> None:
    kept = HeadAndTail()
    kept.feed(b"hello")
    assert kept.kept() == KeptOutput(5, "", "hello")


def test_head_and_tail_of_a_long_output_do_not_overlap() -> None:
    whole = bytes(65 + number % 26 for number in range(SHOWN_TAIL + 100))
    kept = HeadAndTail()
    for start in range(0, len(whole), 1000):
        kept.feed(whole[start : start + 1000])
    assert kept.kept() == KeptOutput(len(whole), whole[:100].decode(), whole[100:].decode())


def test_a_very_long_output_keeps_both_ends() -> None:
    kept = HeadAndTail()
    for chunk in (b"a" * 100_000, b"b" * 100_000, b"c" * 100_000):
        kept.feed(chunk)
    assert kept.kept() == KeptOutput(300_000, "a" * SHOWN_HEAD, "c" * SHOWN_TAIL)


def test_hostile_output_makes_details_that_can_be_stored() -> None:
    kept = KeptOutput(10**12, "\0" * SHOWN_HEAD, "\udcff\0" * SHOWN_TAIL)
    end = ProcessEnd(("\0" * 10_000,) * 10_000, 1, 0, stdout=kept, stderr=kept)
    text = end.as_json()
    assert "\\u0000" not in text
    assert len(text.encode()) < 1_000_000


async def test_both_streams_reach_the_log_with_their_kinds() -> None:
    end, lines = await run(python("import os; os.write(1, b'out\\n'); os.write(2, b'err\\n')"))
    assert sorted(lines.kept) == [(ERR, "err", None), (OUT, "out", None)]
    assert (end.stdout, end.stderr) == (KeptOutput(4, "", "out\n"), KeptOutput(4, "", "err\n"))


async def test_nul_and_broken_utf_8_do_not_fail_a_run() -> None:
    end, _ = await run(python("import os; os.write(1, b'a\\0b\\xff\\xfe\\n')"))
    assert (end.exit_code, end.stdout.size) == (0, 6)
    assert "\\u0000" not in end.as_json()


FLOOD = """
    import os
    chunk = {chunk}
    for _ in range({count}):
        os.write(1, chunk)
"""


@pytest.mark.parametrize("chunk", ['b"y\\n" * 32768', 'b"x" * 65536'], ids=["short lines", "one line"])
@pytest.mark.parametrize("megabytes", [200, pytest.param(5000, marks=pytest.mark.faults)])
async def test_an_endless_output_costs_little_memory(chunk: str, megabytes: int) -> None:
    await run(python(FLOOD.format(chunk=chunk, count=16)), room=1000)
    before = memory()
    count = megabytes * 16
    end, lines = await run(python(FLOOD.format(chunk=chunk, count=count)), room=1000)
    assert end.stdout.size == count * 65536
    assert len(end.stdout.tail) == SHOWN_TAIL
    assert peak_memory() - before < 20_000_000
    assert len(lines.kept) + lines.dropped == (count * 32768 if "n" in chunk else 1)
