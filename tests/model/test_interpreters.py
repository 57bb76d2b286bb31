"""Programs that would run code or another program from an argument are refused as commands."""

import pytest
from tests.model.commands import make, schema_of

from leasehold.errors import InvalidInput
from leasehold.model.command import Command
from leasehold.model.command_rules import require_usable
from leasehold.model.definition import Definition

LAUNCHERS = (
    *("env", "/usr/bin/env", "xargs", "sudo", "su", "ssh", "nohup", "nice", "timeout", "setsid", "taskset", "strace"),
    *("sshpass", "hyperfine", "xvfb-run", "run-parts", "aa-exec", "ed", "logsave"),
    *("chroot", "flock", "dumb-init", "tini", "tini-static", "busybox", "busybox.static", "script", "systemd-run"),
)
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
        ("awk", "--sour=1"),
        ("rbash", "-c", "id"),
        ("bash-static", "-c", "id"),
        ("python3.12-dbg", "-c", "pass"),
        ("pypy3.10", "-c", "pass"),
        ("perl5.36-x86_64-linux-gnu", "-E", "1"),
        ("nodejs", "--eval=1"),
        ("node22", "-pe", "1"),
        ("bun", "-e", "1"),
        ("bun", "exec", "id"),
        ("julia", "-e", "1"),
        ("Rscript", "-e", "1"),
        ("osascript", "-e", "1"),
        ("tclsh8.6", "-c", "1"),
        ("php8.3", "-r", "1"),
        ("pwsh", "-Com", "1"),
        ("powershell.exe", "-NoProfile", "-EncodedCommand", "1"),
        ("erl", "-noshell", "-eval", "1"),
        ("guile-3.0", "-c", "1"),
        ("npx", "-c", "id"),
    ],
)
def test_code_in_an_argument_is_refused(template: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInput, match=r"runs code from an argument|could choose the code"):
        declare(*template)


@pytest.mark.parametrize("program", LAUNCHERS)
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
        ("deno", "run", "--allow-net", "{x}"),
        ("bun", "run", "{x}"),
        ("java", "-cp", "app.jar", "{x}"),
        ("npx", "{x}"),
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
        ("awk", "{{print $1}}", "{x}"),
        ("java", "-jar", "app.jar", "{x}"),
        ("deno", "run", "--allow-net", "serve.ts", "{x}"),
        ("pwsh", "-NoProfile", "-File", "run.ps1", "{x}"),
        ("npx", "prettier", "{x}"),
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


@pytest.mark.parametrize(
    "template",
    [
        ("sed", "s/a/{x}/"),
        ("sed", "-n", "--", "{x}"),
        ("sed", "-i.saved", "s/a/{x}/"),
        ("sed", "-e", "s/a/b/", "-e", "{x}"),
        ("sed", "--expression=s/{x}/b/"),
        ("sed", "--exp=s/{x}/b/"),
        ("tar", "-xf", "a.tar", "--to-command={x}"),
        ("tar", "--checkpoint-action=exec={x}"),
        ("gtar", "-I", "{x}", "-xf", "a.tar"),
        ("make", "--eval={x}"),
        ("make", "NAME={x}"),
        ("gmake", "{x}"),
        ("find", "/srv", "-exec", "rm", "{x}", ";"),
        ("find", "--", "/srv", "-execdir", "rm", "{x}", ";"),
        ("find", "--", "{x}"),
        ("git", "-c", "core.pager={x}", "log"),
        ("git", "clone", "--upload-pack={x}", "url"),
        ("rsync", "-e", "{x}", "a", "b"),
        ("rsync", "--rsh={x}", "a", "b"),
        ("gdb", "-ex", "{x}"),
        ("gdb", "--eval-command={x}"),
        ("vim.basic", "-c", "{x}"),
        ("vim", "+{x}"),
        ("psql", "-c", "{x}"),
        ("psql", "--command=select {x}"),
        ("mysql", "-e", "{x}"),
        ("sqlite3", "shop.db", "{x}"),
        ("emacs", "--batch", "--eval={x}"),
        ("split", "-l", "100", "--filter=gzip > {x}", "rows.csv"),
        ("sort", "--compress-prog={x}", "rows.csv"),
        ("tcpdump", "-G", "60", "-z", "{x}"),
        ("lftp", "-c", "open {x}"),
        ("mongosh", "shop", "--eval={x}"),
        ("duckdb", "shop.db", "select {x}"),
        ("clickhouse-client", "--query=select {x}"),
        ("redis-cli", "--eval", "{x}"),
        ("ansible", "all", "-a", "{x}"),
        ("nmap", "--script={x}", "host"),
        ("pandoc", "-o", "a.html", "--lua-filter={x}", "a.md"),
        ("blender", "--background", "--python-expr", "{x}"),
        ("cmake", "-E", "{x}"),
        ("rpm", "--eval={x}"),
    ],
)
def test_a_slot_in_the_code_of_a_tool_is_refused(template: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInput, match=r"runs? .*code|reads options|lets a payload write options"):
        declare(*template)


@pytest.mark.parametrize(
    "template",
    [
        ("sed", "-e", "s/a/b/", "--", "{x}"),
        ("sed", "-i.bak", "s/a/b/", "{x}"),
        ("tar", "--checkpoint-action=dot", "-xf", "{x}"),
        ("make", "--eval=all: ;", "all"),
        ("find", "{x}", "-name", "*.jpg", "-exec", "rm", ";"),
        ("git", "-c", "gc.auto=0", "clone", "--", "{x}"),
        ("rsync", "-e", "ssh", "a", "{x}"),
        ("psql", "-f", "report.sql", "--dbname={x}"),
        ("vim", "-c", "wq", "{x}"),
        ("sort", "-k", "2", "{x}"),
        ("split", "-l", "100", "{x}"),
        ("pandoc", "-o", "a.html", "{x}"),
        ("redis-cli", "-h", "cache", "get", "{x}"),
        ("blender", "--background", "{x}"),
    ],
)
def test_a_slot_beside_the_code_of_a_tool_is_allowed(template: tuple[str, ...]) -> None:
    declare(*template)


@pytest.mark.parametrize(
    "template",
    [
        ("docker", "exec", "web", "sh", "-c", "{x}"),
        ("docker", "exec", "-u", "root", "web", "{x}"),
        ("docker", "compose", "exec", "web", "sh", "-c", "echo $1", "_", "{x}"),
        ("docker", "run", "--gpus", "all", "image", "python3", "-c", "{x}"),
        ("docker", "run", "--entrypoint={x}", "image"),
        ("docker", "run", "--entrypoint=sh", "image", "-c", "{x}"),
        ("docker", "run", "--entrypoint", "sh", "image", "-c", "{x}"),
        ("docker", "run", "image", "{x}"),
        ("docker", "exec", "web", "env", "{x}"),
        ("kubectl", "exec", "pod", "--", "{x}"),
        ("kubectl", "exec", "pod", "--", "bash", "{x}"),
        ("uv", "run", "python", "-c", "{x}"),
        ("own-launcher", "bash", "-c", "{x}"),
        ("own-launcher", "--", "bash", "{x}"),
        ("own-launcher", "--slow", "nice", "-n", "5", "perl", "-ne", "print", "{x}"),
    ],
)
def test_a_slot_for_an_interpreter_within_is_refused(template: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInput, match=r"code|as a program|runs another program"):
        declare(*template)


@pytest.mark.parametrize(
    "template",
    [
        ("docker", "exec", "-u", "root", "web", "zoltag", "--id={x}"),
        ("docker", "exec", "--user={x}", "web", "id"),
        ("docker", "exec", "web", "sh", "/run.sh", "{x}"),
        ("docker", "restart", "{x}"),
        ("docker", "run", "--rm", "--entrypoint=convert", "image", "{x}"),
        ("docker", "run", "--rm", "image", "--in={x}"),
        ("kubectl", "exec", "{x}", "-c", "main", "--", "zoltag"),
        ("kubectl", "drain", "node", "{x}"),
        ("kubectl", "exec", "pod", "--", "zoltag", "{x}"),
        ("uv", "run", "zoltag", "{x}"),
        ("own-launcher", "bash", "-c", "id"),
        ("grep", "-e", "bash", "--", "{x}"),
        ("node-exporter", "-e", "{x}"),
    ],
)
def test_a_program_within_another_may_have_slots(template: tuple[str, ...]) -> None:
    declare(*template)
