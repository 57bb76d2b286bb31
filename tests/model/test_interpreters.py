"""Programs that would run code or another program from an argument are refused as commands."""

import pytest
from tests.model.commands import make, schema_of

from leasehold.errors import InvalidInput
from leasehold.model.command import Command
from leasehold.model.command_rules import require_usable
from leasehold.model.definition import Definition

FIELDS = {"x": {"type": "string", "format": "uuid"}}


def declare(*template: str) -> None:
    schema = schema_of(FIELDS if any("{x}" in token for token in template) else {})
    require_usable(Command(Definition("sync", schema=schema), template))


@pytest.mark.parametrize(
    "template",
    [
        ("sh", "-c", "id"),
        ("/bin/bash", "-lc", "id"),
        ("bash", "-o", "pipefail", "-c", "id"),
        ("bash", "-c", "{x}"),
        ("zsh", "--", "{x}"),
        ("python", "-c", "pass"),
        ("python3.11", "-Ic", "pass"),
        ("/usr/bin/python3", "-W", "ignore", "-c", "pass"),
        ("pypy3", "-c", "pass"),
        ("perl", "-e", "1"),
        ("perl", "-pe", "1"),
        ("ruby", "-e", "1"),
        ("node", "-e", "1"),
        ("node", "--eval=1"),
        ("node", "-p", "1"),
        ("deno", "eval", "1"),
        ("php", "-r", "1"),
        ("lua5.4", "-e", "1"),
        ("awk", "-e", "1"),
    ],
)
def test_code_in_an_argument_is_refused(template: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInput, match=r"runs code from an argument|could choose the code"):
        declare(*template)


@pytest.mark.parametrize("program", ["env", "/usr/bin/env", "xargs", "sudo", "ssh", "nohup", "timeout", "busybox"])
def test_a_program_that_runs_another_one_is_refused(program: str) -> None:
    with pytest.raises(InvalidInput, match="runs another program, and that one has to be named itself"):
        declare(program, "zoltag")


@pytest.mark.parametrize(
    "template",
    [
        ("python", "{x}"),
        ("python", "-m", "{x}"),
        ("python", "-X", "{x}", "run.py"),
        ("bash", "--", "{x}"),
        ("deno", "run", "{x}"),
        ("awk", "-f", "{x}"),
    ],
)
def test_a_script_from_the_payload_is_refused(template: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInput, match="has a slot before the script"):
        declare(*template)


@pytest.mark.parametrize(
    "template",
    [
        ("python", "run.py", "-c", "{x}"),
        ("python", "-m", "zoltag", "-c", "{x}"),
        ("python", "-Werror::DeprecationWarning", "-I", "run.py", "{x}"),
        ("bash", "-eu", "run.sh", "{x}"),
        ("node", "--require", "setup.js", "run.js", "-e", "{x}"),
        ("perl", "-Ilib", "run.pl", "-e", "{x}"),
        ("awk", "-f", "run.awk", "{x}"),
        ("ruby", "run.rb", "{x}"),
        ("zoltag", "-c", "{x}"),
        ("shellcheck", "-c", "{x}"),
        ("python",),
    ],
)
def test_a_script_in_the_template_is_allowed(template: tuple[str, ...]) -> None:
    declare(*template)


def test_a_command_of_another_name_is_allowed() -> None:
    require_usable(make("-c", "id"))
