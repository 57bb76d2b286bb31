"""Builds the argv of a command from a payload: exact tokens, no shell, and no value that becomes an option.

    {field}         the value as a token; a list becomes one token for each item
    --flag={field}  flag and value as one token; a list repeats it for each item
    {tenant}        the tenant of the job; also {job_id} and {attempt}
    ["--since", "{since}"]    a group: its tokens are left out together if its fields are missing, null or empty lists
    ["--force", "{force?}"]   a switch: `{force?}` writes nothing, and the group stays only if the field is true
    {{ and }}       a literal { and }

Text is written as it is, true and false as these words, numbers in decimal.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson

from leasehold.errors import PayloadInvalid
from leasehold.model.bounds import storable
from leasehold.model.command import Command, Invocation, Token
from leasehold.model.command_env import env_slots, render_env
from leasehold.model.scalar_text import text_of

RESERVED = ("tenant", "job_id", "attempt")
END_OF_OPTIONS = "--"
RISKY_STARTS = ("-", "@")
"""Starts of a token that programs read as an option, or as the name of a file with further arguments."""

MAX_ARGUMENT = 128 * 1024 - 1
"""Bytes of one argument: Linux takes 32 pages of 4 KB, with the NUL at its end."""
MAX_ARGV = 1_000_000
"""Bytes of all arguments, with a pointer for each. macOS takes 1 MB, and Linux 2 MB, environment included."""
_POINTER = 9

_PIECE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


@dataclass(frozen=True, slots=True)
class Slot:
    name: str
    is_switch: bool = False


@dataclass(frozen=True, slots=True)
class Word:
    """One token of a template. `is_behind`: it stands behind `--`, where programs expect no options."""

    text: str
    pieces: tuple[str | Slot, ...]
    is_behind: bool = False

    @property
    def slots(self) -> tuple[Slot, ...]:
        return tuple(piece for piece in self.pieces if isinstance(piece, Slot))

    @property
    def starts_with_slot(self) -> bool:
        return bool(self.pieces) and isinstance(self.pieces[0], Slot)

    @property
    def is_switch(self) -> bool:
        return any(slot.is_switch for slot in self.slots)


@dataclass(frozen=True, slots=True)
class Part:
    """A single word, or the words of a group."""

    words: tuple[Word, ...]
    is_group: bool = False

    @property
    def fields(self) -> tuple[str, ...]:
        """The payload fields of its slots, each once."""
        named = (slot.name for word in self.words for slot in word.slots)
        return tuple(dict.fromkeys(name for name in named if name not in RESERVED))


class TemplateUnreadable(ValueError):
    """A token has a brace that begins or ends no slot."""


@lru_cache(maxsize=1024)
def parse_template(template: tuple[Token, ...]) -> tuple[Part, ...]:
    """Reads a template. Raises TemplateUnreadable."""
    parts: list[Part] = []
    is_behind = False
    for token in template:
        words: list[Word] = []
        for text in (token,) if isinstance(token, str) else token:
            words.append(Word(text, tuple(_pieces(text)), is_behind))
            is_behind = is_behind or text == END_OF_OPTIONS
        parts.append(Part(tuple(words), not isinstance(token, str)))
    return tuple(parts)


def _pieces(text: str) -> Iterator[str | Slot]:
    literal, place = "", 0
    for found in _PIECE.finditer(text):
        literal += text[place : found.start()]
        place = found.end()
        if found[1] is None:
            if len(found[0]) == 1:
                raise TemplateUnreadable(f"{text!r} has a single {found[0]}, a literal one is written twice")
            literal += found[0][0]
            continue
        if literal:
            yield literal
        literal = ""
        yield Slot(found[1].removesuffix("?"), found[1].endswith("?"))
    literal += text[place:]
    if literal:
        yield literal


# ------------------------------------------------------------------------------------------------------------- render


def render(command: Command, payload: Mapping[str, Any], *, tenant: str, job_id: str, attempt: int) -> Invocation:
    """Returns the argv, payload file and variables for this job. Raises PayloadInvalid; a retry can't help.

    The payload is checked against the schema of this command: a job that waits may have been enqueued under another
    one, and the template is the worker's own.
    """
    command.definition.check(payload)
    parts = parse_template(command.template)
    values = {**payload, "tenant": tenant, "job_id": job_id, "attempt": attempt}
    argv: list[str] = []
    for part in parts:
        if not part.is_group or _is_given(command, part, payload):
            for word in part.words:
                argv.extend(_tokens(command, word, values))
    if command.executable is not None:
        argv[0] = command.executable
    _require_executable(command, argv)
    env = render_env(command.definition.key, command.env, payload)
    return Invocation(tuple(argv), _file_content(command, parts, payload), env)


def _is_given(command: Command, group: Part, payload: Mapping[str, Any]) -> bool:
    """Returns whether the fields of a group are there. Raises PayloadInvalid if only some of them are."""
    switches = {slot.name for word in group.words for slot in word.slots if slot.is_switch}
    missing = [name for name in group.fields if _is_missing(payload.get(name), name in switches)]
    if missing and len(missing) < len(group.fields):
        given = [name for name in group.fields if name not in missing]
        raise _refusal(command, f"{', '.join(given)} can't be used without {', '.join(missing)}")
    return not missing


def _is_missing(value: Any, is_switch: bool) -> bool:
    return value is None or value == [] or (is_switch and value is False)


def _tokens(command: Command, word: Word, values: Mapping[str, Any]) -> Iterator[str]:
    """Yields the tokens of a word: one for each item if it has a list, else one; none for a switch."""
    if word.is_switch:
        return
    names = [slot.name for slot in word.slots]
    if absent := [name for name in names if values.get(name) is None]:
        raise _refusal(command, f"{absent[0]} is missing, and {word.text!r} needs it")
    lists = [name for name in names if isinstance(values[name], list)]
    for items in [{lists[0]: item} for item in values[lists[0]]] if lists else [{}]:
        yield _fill(command, word, {**values, **items})


def _fill(command: Command, word: Word, values: Mapping[str, Any]) -> str:
    texts = [piece if isinstance(piece, str) else _text(command, piece.name, values) for piece in word.pieces]
    token = "".join(texts)
    refused = RISKY_STARTS[word.is_behind :]  # behind `--` a dash starts no option
    if word.starts_with_slot and token.startswith(refused):
        read_as = "an option" if token.startswith("-") else "the name of a file with arguments"
        name = word.slots[0].name
        raise _refusal(command, f"{name}={token!r:.80} starts with {token[0]}, so a program may read it as {read_as}")
    return token


def _text(command: Command, name: str, values: Mapping[str, Any]) -> str:
    text = text_of(values[name])
    if text is None:
        raise _refusal(command, f"{name} is {type(values[name]).__name__}, which is not a single value")
    return text


def _require_executable(command: Command, argv: Sequence[str]) -> None:
    """Raises PayloadInvalid for an argv that the system would refuse when the program is started."""
    total = 0
    for token in argv:
        if not storable(token):
            raise _refusal(command, f"{token!r:.80} has a NUL character or a lone surrogate, no argument can")
        if (size := len(token.encode())) > MAX_ARGUMENT:
            raise _refusal(command, f"{token!r:.80}… has {size:,} bytes, an argument has at most {MAX_ARGUMENT:,}")
        total += size + _POINTER
    if total > MAX_ARGV:
        raise _refusal(command, f"{len(argv):,} arguments of {total:,} bytes, at most {MAX_ARGV:,} can be passed")


def _file_content(command: Command, parts: Sequence[Part], payload: Mapping[str, Any]) -> bytes | None:
    if command.payload_file is None:
        return None
    slots = {*env_slots(command.env).values(), *(name for part in parts for name in part.fields)}
    return orjson.dumps({name: value for name, value in payload.items() if name not in slots})


def _refusal(command: Command, why: str) -> PayloadInvalid:
    return PayloadInvalid(
        f"{command.definition.key}: {why}.",
        fix=f"Nothing was run. Change the payload; its argv: leasehold definitions show {command.definition.key}",
    )
