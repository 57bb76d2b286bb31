"""Runs the code of the docs, and looks up the facts that they state.

The Python blocks of a page run one after the other in a new folder, on its embedded Postgres and without any setting,
as a new user would run them. On a page with tests each block is a file, and pytest runs the tests. The commands of a
page run one after the other, in a folder with the page's own `app.py` and TOML files.

The test holds a reference to the folder's Postgres while the page runs: all processes of a home share one server, so
start and stop happen once per page and not once per block. The data of a new server is copied and not made by initdb.
Blocks and commands run in processes that are forked from a Python which has imported Leasehold. One block runs in a
folder that is really empty, and the commands of the README start a new Python each.
"""

import asyncio
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from importlib.metadata import entry_points
from pathlib import Path

import asyncpg
import pytest
from tests.database_server import DatabaseServer
from tests.forked import Run

import leasehold
import leasehold.testing
from leasehold import embedded
from leasehold.config import Settings

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [README, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PATIENCE = 60
LEASEHOLD = "from leasehold.cli import main; main()"
LASTING = ("dev", "worker")


def blocks(page: Path, language: str) -> list[str]:
    return [match[2] for match in BLOCK.finditer(page.read_text()) if match[1] == language]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def without_settings() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("LEASEHOLD_")}


def run_new_python(
    words: Sequence[str], folder: Path, environment: Mapping[str, str], timeout: float
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        line_of(words), cwd=folder, env=environment, capture_output=True, text=True, timeout=timeout
    )


def line_of(words: Sequence[str]) -> list[str]:
    first, *rest = words
    assert first in ("leasehold", "python"), words
    return [sys.executable, *(["-c", LEASEHOLD] if first == "leasehold" else []), *rest]


def run_block(code: str, folder: Path, run: Run) -> "subprocess.CompletedProcess[str]":
    (folder / "example.py").write_text(code)
    return run(["python", "example.py"], folder, without_settings(), PATIENCE)


# ------------------------------------------------------------------------------------------------------------- Python

NAMED = re.compile(r"# (\w+\.py)\n")


def files_of(page: Path) -> dict[str, str]:
    """Blocks that begin with the name of a file."""
    return {match[1]: code for code in blocks(page, "python") if (match := NAMED.match(code))}


def toml_files_of(page: Path) -> dict[str, str]:
    return {match[1]: code for code in blocks(page, "toml") if (match := re.match(r"# (\w+\.toml)\n", code))}


WITH_TESTS = [page for page in PAGES if any(name.startswith("test_") for name in files_of(page))]
EXCERPT = re.compile(r"# (examples/\S+)\n")
SHOWN = {page: blocks(page, "python") for page in PAGES if page not in WITH_TESTS}
EXAMPLES = {page: [code for code in shown if not EXCERPT.match(code)] for page, shown in SHOWN.items()}
WITH_EXAMPLES = [page for page, examples in EXAMPLES.items() if examples]
EXCERPTS = [(page, code) for page, shown in SHOWN.items() for code in shown if EXCERPT.match(code)]
# An installed package registers the plugin; loading it twice would be an error.
OURS = [] if entry_points(group="pytest11", name="leasehold") else ["-p", "leasehold.testing.plugin"]
PLUGIN = [*OURS, "-p", "no:schemathesis"]


@pytest.mark.timeout(6 * PATIENCE)
@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=name_of)
def test_python_examples_of_a_page_run_and_print(page: Path, prepared_home: Path, run_forked: Run) -> None:
    with embedded.postgres(prepared_home):
        for number, code in enumerate(EXAMPLES[page], 1):
            done = run_block(code, prepared_home.parent, run_forked)
            assert done.returncode == 0, f"block {number}: {done.stderr}"
            assert done.stdout, f"block {number} prints nothing"


def test_first_example_runs_in_an_empty_folder(tmp_path: Path) -> None:
    done = run_block(EXAMPLES[README][0], tmp_path, run_new_python)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert (tmp_path / ".leasehold").is_dir()


@pytest.mark.timeout(6 * PATIENCE)
@pytest.mark.parametrize("page", WITH_TESTS, ids=name_of)
def test_tests_of_a_page_pass_and_print_its_text_blocks(
    page: Path, tmp_path: Path, database_server: DatabaseServer
) -> None:
    files = files_of(page)
    assert len(files) == len(blocks(page, "python"))
    for name, code in files.items():
        (tmp_path / name).write_text(code)
    printed = ""
    for tests in runs_of_tests(files):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *PLUGIN, "-s", "-p", "no:cacheprovider", *tests],
            cwd=tmp_path,
            env=without_settings() | {"LEASEHOLD_TEST_URL": database_server.url},
            capture_output=True,
            text=True,
            timeout=4 * PATIENCE,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        printed += done.stdout
    assert [text for text in blocks(page, "text") if text not in printed] == []


def runs_of_tests(files: dict[str, str]) -> list[list[str]]:
    """Groups a page's test files: one with a fixture for the whole session, such as a template, runs separately."""
    tests = [name for name in files if name.startswith("test_")]
    separate = [name for name in tests if 'scope="session"' in files[name]]
    return [[name for name in tests if name not in separate], *([name] for name in separate)]


@pytest.mark.parametrize(("page", "code"), EXCERPTS, ids=[name_of(page) for page, _ in EXCERPTS])
def test_an_excerpt_of_an_example_stands_in_it(page: Path, code: str) -> None:
    """Examples are run by tests of their own."""
    said = EXCERPT.match(code)
    assert said is not None
    assert code[said.end() :] in (ROOT / said[1]).read_text()


# ----------------------------------------------------------------------------------------------------------- commands


class Command:
    """A line after a `$`, and what it is said to print."""

    def __init__(self, line: str, printed: list[str]) -> None:
        words = shlex.split(line)
        self.settings = dict(word.split("=", 1) for word in words if re.match(r"[A-Z_]+=", word))
        self.words = words[len(self.settings) :]
        self.printed = printed

    @property
    def lasts(self) -> bool:
        return self.words[0] == "leasehold" and self.words[1] in LASTING

    @property
    def processes(self) -> int:
        return int(self.words[self.words.index("--processes") + 1]) if "--processes" in self.words else 1

    @property
    def expected_code(self) -> Iterator[int]:
        if "--check" in self.words:
            yield 6
        refused = any(line.startswith("✕") for line in self.printed) and "why" not in self.words  # which explains
        yield from range(1, 10) if refused else [0]


def commands(page: Path) -> Iterator[Command]:
    for block in blocks(page, "console"):
        lines = block.splitlines()
        starts = [number for number, line in enumerate(lines) if line.startswith("$ ")]
        for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
            yield Command(lines[start].removeprefix("$ "), [line for line in lines[start + 1 : end] if line.strip()])


def session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


async def worker_pids(url: str) -> list[int]:
    connection = await asyncpg.connect(url)
    try:
        return [row["pid"] for row in await connection.fetch("select pid from leasehold.workers")]
    except asyncpg.UndefinedTableError:  # the worker has not prepared the schema yet
        return []
    finally:
        await connection.close()


class Terminal:
    """Types a page's commands in a folder. Ends a `dev` or `worker` by Ctrl-C before the page's next one begins."""

    def __init__(self, folder: Path, url: str, run: Run) -> None:
        self._run_to_its_end = run
        self._folder = folder
        self._url = url
        self._lasting: dict[str, tuple[subprocess.Popen[bytes], Path]] = {}

    def type(self, command: Command) -> None:
        if command.words[0] == "make":
            assert re.search(rf"^{command.words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
        elif command.lasts:
            self._begin(command)
        else:
            self._run(command)

    def _run(self, command: Command) -> None:
        done = self._run_to_its_end(command.words, self._folder, without_settings() | command.settings, PATIENCE)
        assert done.returncode in set(command.expected_code), f"{command.words}: {done.stdout}{done.stderr}"
        said = " ".join((done.stdout + done.stderr).split())
        for line in command.printed:
            assert " ".join(line.split()) in said, f"{command.words} says: {said}"

    def _begin(self, command: Command) -> None:
        kind = command.words[1]
        self.end(kind)
        log = self._folder / f"{kind}.log"
        with log.open("wb") as written:
            process = subprocess.Popen(
                line_of(command.words),
                cwd=self._folder,
                env=without_settings() | command.settings,
                stdout=written,
                stderr=written,
                start_new_session=True,
            )
        self._lasting[kind] = process, log
        deadline = time.monotonic() + PATIENCE
        while not self._works(command, process.pid, log.read_text()):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)

    def _works(self, command: Command, session: int, output: str) -> bool:
        """`dev` prints that its workers run; the database lists the workers of `worker`, by the session's id."""
        if command.words[1] == "dev":
            return " topic=worker " in output
        return sum(session_of(pid) == session for pid in asyncio.run(worker_pids(self._url))) == command.processes

    def end(self, kind: str) -> None:
        if kind in self._lasting:
            process, log = self._lasting.pop(kind)
            os.killpg(process.pid, signal.SIGINT)
            assert process.wait(timeout=PATIENCE) == 0, log.read_text()

    def end_all(self) -> None:
        for kind in list(self._lasting):
            self.end(kind)


# Its commands are typed in the example's folder, by tests/django/test_project.py.
IN_A_PROJECT = ROOT / "docs/how-to/django.md"
WITH_COMMANDS = [page for page in PAGES if list(commands(page)) and page != IN_A_PROJECT]


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=name_of)
def test_the_commands_of_a_page_work_in_their_order(page: Path, prepared_home: Path, run_forked: Run) -> None:
    folder = prepared_home.parent
    apps = [code for code in blocks(page, "python") if code.startswith("# app.py")] or blocks(README, "python")
    (folder / "app.py").write_text(apps[0])
    for name, content in toml_files_of(page).items():
        (folder / name).write_text(content)
    with embedded.postgres(prepared_home) as server:
        terminal = Terminal(folder, server.url, run_new_python if page == README else run_forked)
        try:
            for command in commands(page):
                terminal.type(command)
        finally:
            terminal.end_all()


# -------------------------------------------------------------------------------------------------- what must agree


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_the_python_reference_lists_exactly_what_is_public() -> None:
    listed = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/reference/python.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(name for name in leasehold.__all__ if name != "__version__")


def test_the_python_reference_lists_exactly_what_is_public_for_tests() -> None:
    listed = re.findall(r"^\| `testing\.(\w+)` \|", (ROOT / "docs/reference/python.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(leasehold.testing.__all__)
    assert [name for name in leasehold.testing.__all__ if not getattr(leasehold.testing, name).__doc__] == []


def test_public_names_have_docstrings_and_errors_are_in_the_tree() -> None:
    public = {name: getattr(leasehold, name) for name in leasehold.__all__ if name != "__version__"}
    raised = {
        name
        for name, value in public.items()
        if isinstance(value, type) and issubclass(value, leasehold.LeaseholdError)
    }
    assert [name for name, value in public.items() if not value.__doc__ and name not in raised] == []
    assert [name for name in raised if f" {name} " not in f"{leasehold.errors.__doc__}".replace("\n", " ")] == []


@pytest.mark.parametrize("page", ["docs/reference/settings.md", "docs/how-to/workers.md"])
def test_every_setting_is_documented(page: str) -> None:
    named = set(re.findall(r"^\| `LEASEHOLD_(\w+)`", (ROOT / page).read_text(), re.MULTILINE))
    assert named == {field.name.upper() for field in fields(Settings)}


def test_the_variable_of_the_command_line_is_documented() -> None:
    page = (ROOT / "docs/reference/settings.md").read_text()
    assert "The command line also reads `LEASEHOLD_TENANT`" in page


async def test_every_column_of_ours_on_the_map_exists(database_url: str) -> None:
    rows = re.findall(r"^\|[^|]+\|([^|]+)\|", (ROOT / "docs/reference/column-map.md").read_text(), re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+\.\w+)`", row)}
    connection = await asyncpg.connect(database_url)
    try:
        found = await connection.fetch(
            "select table_name || '.' || column_name from information_schema.columns where table_schema = 'leasehold'"
        )
    finally:
        await connection.close()
    assert len(named) > 40
    assert named - {row[0] for row in found} == set()


# ------------------------------------------------------------------------------------------------------------ figures

FIGURES = re.compile(r"\d(?:[\d,]*\d)?(?:\.\d+)?")


def test_the_figures_of_the_readme_stand_in_the_results() -> None:
    results = set(FIGURES.findall((ROOT / "bench" / "RESULTS.md").read_text()))
    table = README.read_text().partition("## Measured")[2].partition("\n\nAll of it")[0]
    cells = [line.split("|")[2] for line in table.splitlines() if line.startswith("| ") and "measured" not in line]
    figures = {figure for cell in cells for figure in FIGURES.findall(re.sub(r"p\d+", "", cell))}

    assert len(figures) > 8
    assert {figure for figure in figures if not {figure, f"{figure}.00"} & results} == set()


def test_the_picture_shows_what_dev_prints_today() -> None:
    picture = re.sub(r"<[^>]+>", "", (ROOT / "docs/pictures/dev.svg").read_text())

    assert f"leasehold {leasehold.__version__} " in picture
    assert "(try 2/3)" in picture
