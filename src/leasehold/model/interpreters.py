"""Refuses programs that would run code or another program from their arguments."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from posixpath import basename

from leasehold.model.argv import Word

LAUNCHERS = frozenset(
    {
        *("env", "xargs", "parallel", "sudo", "doas", "su", "ssh", "nohup", "setsid", "nice", "ionice", "timeout"),
        *("time", "stdbuf", "chroot", "unshare", "nsenter", "watch", "script", "busybox", "toybox"),
    }
)
"""Programs whose argument is another program: the one that runs would be hidden from every check."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """Options of an interpreter before its script: `code` takes code, `value` takes a value, `script` a script."""

    code: tuple[str, ...]
    value: tuple[str, ...] = ()
    script: tuple[str, ...] = ()


_SHELL = Interpreter(("-c", "--command"), ("-o", "-O", "+o", "+O", "--rcfile", "--init-file"))
_AWK = Interpreter(("-e", "--source"), ("-v", "-F", "--assign", "--field-separator"), ("-f", "--file"))
INTERPRETERS = {
    **dict.fromkeys(("sh", "ash", "bash", "dash", "zsh", "ksh", "mksh", "fish", "csh", "tcsh", "pwsh"), _SHELL),
    **dict.fromkeys(("python", "pypy"), Interpreter(("-c",), ("-W", "-X", "--check-hash-based-pycs"), ("-m",))),
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), _AWK),
    **dict.fromkeys(("lua", "luajit"), Interpreter(("-e",), ("-l",))),
    "perl": Interpreter(("-e", "-E"), ("-I", "-M", "-m")),
    "ruby": Interpreter(("-e",), ("-I", "-r", "-C", "-E")),
    "node": Interpreter(("-e", "-p", "--eval", "--print"), ("-r", "--require", "--import", "--loader")),
    "bun": Interpreter(("-e", "-p", "--eval", "--print"), ("-r", "--preload")),
    "deno": Interpreter(("eval",), script=("run",)),
    "php": Interpreter(("-r", "-B", "-R", "-E", "--run"), ("-d", "-c", "--define"), ("-f", "--file")),
    "rscript": Interpreter(("-e",)),
    "osascript": Interpreter(("-e",), ("-l",)),
}
_VERSION = re.compile(r"(?<=[A-Za-z])[-.\d]+$")


def problem_of_program(words: Sequence[Word]) -> str | None:
    """Returns why this program and its arguments can't be a command; None if they can."""
    program = words[0].text
    name = _VERSION.sub("", basename(program).lower().removesuffix(".exe"))
    if name in LAUNCHERS:
        return f"{program} runs another program, and that one has to be named itself"
    if name not in INTERPRETERS:
        return None
    return _problem_of_options(program, INTERPRETERS[name], words[1:])


def _problem_of_options(program: str, interpreter: Interpreter, words: Sequence[Word]) -> str | None:
    """Reads the arguments up to the script, which has to be written in the template."""
    is_value = is_script = False
    for word in words:
        if word.slots:
            return f"{word.text!r} has a slot before the script of {program}, so a payload could choose the code"
        if is_script:
            return None
        if is_value:
            is_value = False
            continue
        for option, has_value in _options(word.text):
            if option in interpreter.code:
                return f"{program} {option} runs code from an argument, and that has to be a program of its own"
            is_script = option in interpreter.script
            is_value = option in interpreter.value and not has_value
            if is_script and has_value:
                return None
            if is_script or option in interpreter.value:
                break
        if not (is_script or is_value or word.text.startswith(("-", "+"))):
            return None
    return None


def _options(text: str) -> Iterator[tuple[str, bool]]:
    """Yields the options of an argument, each with whether the argument goes on behind it: -Ic is -I and -c."""
    if text.startswith("--") or not text.startswith(("-", "+")):
        name, equals, _ = text.partition("=")
        yield name, bool(equals)
        return
    yield from ((f"{text[0]}{letter}", place < len(text) - 1) for place, letter in enumerate(text[1:], 1))
