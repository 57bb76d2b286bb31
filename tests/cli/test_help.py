"""Help that fits a screen, and unknown words."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main
from tests.cli.terminal import run

from leasehold import __version__
from leasehold.cli import app
from leasehold.operations import statuses

PAGE = (Path(__file__).parents[2] / "docs/reference/cli.md").read_text()

COMMANDS = {
    "Run": ["dev", "worker", "scheduler", "serve", "tick", "migrate", "grants"],
    "Jobs": [
        *("enqueue", "jobs", "job", "why", "logs", "errors", "retry", "cancel", "run-now", "events", "triggers"),
        "views",
    ],
    "Tenants": ["tenants", "counts", "limits", "limit", "pause", "resume"],
    "Operate": [
        *(
            "workers",
            "operations",
            "definitions",
            "secrets",
            "token",
            "console",
            "prune",
            "audit",
            "series",
            "top",
            "usage",
            "doctor",
        ),
        *("psql", "capacity"),
    ],
}
EVERY = [[command] for commands in COMMANDS.values() for command in commands] + [
    [group, command]
    for group, commands in {
        "definitions": ("list", "show", "sync", "create", "set", "reset", "activate", "deactivate"),
        "events": ("emit", "ls", "test"),
        "operations": ("list", "show", "run", "abort"),
        "secrets": ("new-key", "rotate"),
        "tenants": ("list", "usage", "export", "delete"),
        "token": ("create", "list", "rotate", "revoke"),
        "console": ("link",),
        "triggers": ("ls", "add", "show", "edit", "rm", "restore", "pause", "resume", "preview", "decisions"),
        "views": ("list", "save", "delete"),
    }.items()
    for command in commands
]
SCREEN, FIRST_SCREEN = 40, 57


def test_help_fits_a_screen_and_groups_the_commands() -> None:
    asked = run(["--help"], COLUMNS="80")
    assert asked.code == 0
    lines = asked.out.splitlines()
    assert len(lines) <= FIRST_SCREEN
    headings = [line.split()[1] for line in lines if line.startswith("╭─")]
    assert headings == ["Options", *COMMANDS]
    words = [line.split()[1] for line in lines if line.startswith("│ ")]
    assert set(words) >= {command for commands in COMMANDS.values() for command in commands}


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_the_help_of_each_command_fits_a_screen(words: list[str]) -> None:
    asked = run([*words, "--help"], COLUMNS="80")
    assert asked.code == 0
    assert len(asked.out.splitlines()) <= SCREEN
    assert "--json" in asked.out
    assert "<bool>" not in asked.out


@pytest.mark.parametrize("command", ["worker", "scheduler", "serve"])
def test_the_help_of_a_service_shows_the_port_of_its_metrics(command: str) -> None:
    asked = run([command, "--help"], COLUMNS="80").out
    assert "--metrics-port" in asked
    assert "--metrics-host" in asked


def test_shell_completion_works_though_help_does_not_list_it() -> None:
    assert "completion" not in run(["--help"]).out
    known = {option for parameter in typer.main.get_command(app).params for option in parameter.opts}
    assert known >= {"--install-completion", "--show-completion"}


def test_the_help_of_enqueue_names_all_that_goes_to_stdout() -> None:
    asked = " ".join(run(["enqueue", "--help"], COLUMNS="100").out.split())
    assert "Its id goes to stdout, with --wait its result too." in asked


def test_the_version_is_printed() -> None:
    asked = run(["--version"])
    assert (asked.code, asked.out) == (0, f"leasehold {__version__}\n")


def test_without_a_command_there_is_help() -> None:
    assert "enqueue" in run([]).out


def test_an_unknown_command_exits_with_2_and_the_nearest() -> None:
    refused = run(["cancle"])
    assert (refused.code, refused.out) == (2, "")
    assert "'cancel'" in refused.err


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_an_unknown_option_exits_with_2(words: list[str]) -> None:
    refused = run([*words, "--no-such-option"])
    assert (refused.code, refused.out) == (2, "")
    assert "--no-such-option" in refused.err


def documented(command: str) -> str:
    """Returns the reference of a command, with the section about all commands."""
    of_all = PAGE[PAGE.index("## For every command") : PAGE.index("## Run")]
    (own,) = re.findall(rf"^### `{command}\b.*?(?=^##)", PAGE, re.MULTILINE | re.DOTALL)
    return of_all + str(own)


def options() -> Iterator[tuple[str, str]]:
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        for each in (command, *getattr(command, "commands", {}).values()):
            shown = (parameter for parameter in each.params if not getattr(parameter, "hidden", False))
            written = (option for parameter in shown for option in (*parameter.opts, *parameter.secondary_opts))
            yield from ((name, option) for option in written if option[0] == "-")


def test_the_reference_has_every_command_and_every_option() -> None:
    named = set(re.findall(r"^### `([a-z-]+)", PAGE, re.MULTILINE))
    assert named == {command for commands in COMMANDS.values() for command in commands}
    assert {(name, option) for name, option in options() if f"`{option}" not in documented(name)} == set()
    assert len(list(options())) > 60


def test_the_reference_has_no_option_that_is_not_there() -> None:
    of_all = {"--help", "--version", "--api", "--install-completion", "--show-completion"}
    known = {option for _, option in options()} | of_all
    assert set(re.findall(r"--[a-z][a-z-]*", PAGE)) - known == set()


def test_the_reference_has_every_exit_code() -> None:
    used = {value for name, value in vars(statuses).items() if name.isupper() and isinstance(value, int)}
    listed = set(re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE))
    assert {int(code) for code in listed} == used
    assert len(used) == 11
