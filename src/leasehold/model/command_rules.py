"""Checks a command when it is declared, so that no payload that fits its schema can become another command."""

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from leasehold.errors import InvalidInput
from leasehold.model.argv import END_OF_OPTIONS, RESERVED, Part, Slot, TemplateUnreadable, Word, parse_template
from leasehold.model.bounds import problems_of_duration, problems_of_integer, storable
from leasehold.model.command import Command
from leasehold.model.command_env import env_slots
from leasehold.model.env_rules import problems_of_slots
from leasehold.model.interpreters import problem_of_program
from leasehold.model.slot_types import is_list, is_nullable, is_scalar, items_of, starts_safely, types_of

MAX_TOKENS = 1000
_NAME_OF_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FLAG = re.compile(r"--[A-Za-z0-9][\w.-]*=")
OWN_VARIABLES = ("JOB_", "LEASEHOLD_SECRET_KEY")
JOB_VARIABLES = ("JOB_ID", "JOB_TENANT", "JOB_ATTEMPT", "JOB_FENCE")


def require_usable(command: Command) -> None:
    """Raises InvalidInput with all that is wrong with a command."""
    if problems := list(_problems(command)):
        raise InvalidInput(
            f"The command {command.definition.key!r:.120} can't be used: {'; '.join(problems)}.",
            fix="Nothing was registered. Correct the command.",
        )


def _problems(command: Command) -> Iterator[str]:
    wrong = list(_problems_of_tokens(command.template))
    try:
        parts = () if wrong else parse_template(command.template)
    except TemplateUnreadable as error:
        parts, wrong = (), [f"argv: {error}"]
    yield from wrong
    schema_is_wrong = list(_problems_of_schema(command.definition.schema))
    yield from schema_is_wrong
    if parts:
        words = [word for part in parts for word in part.words]
        yield from _problems_of_program(words)
        if not schema_is_wrong:
            yield from _Slots(command, parts).problems()
    yield from _problems_of_environment(command)
    yield from _problems_of_exit_codes(command)
    yield from problems_of_duration("grace", command.grace)
    yield from _problems_of_limits(command)
    if not isinstance(command.progress, bool):
        yield f"progress={command.progress!r:.80} is neither true nor false"


# ----------------------------------------------------------------------------------------------------------- template


def _problems_of_tokens(template: Sequence[Any]) -> Iterator[str]:
    if not template:
        yield "argv is empty, its first item is the program"
    elif not isinstance(template[0], str):
        yield "argv begins with a group, its first item is the program"
    elif len(template) > MAX_TOKENS:
        yield f"argv has {len(template)} items, at most {MAX_TOKENS} are allowed"
    for number, token in enumerate(template):
        for text in token if isinstance(token, tuple) else (token,):
            if not isinstance(text, str):
                yield f"argv[{number}] has {text!r:.80}, which is not text"
            elif not storable(text):
                yield f"argv[{number}] has a NUL character or a lone surrogate"
        if token == () or (number == 0 and token == ""):
            yield f"argv[{number}] is empty"


def _problems_of_program(words: Sequence[Word]) -> Iterator[str]:
    program = words[0]
    if program.slots:
        yield f"argv: the program {program.text!r} has a slot, and a payload must not choose the program"
    elif "/" in program.text and not program.text.startswith("/"):
        yield f"argv: the program {program.text!r} is a relative path, write an absolute path or a name on the PATH"
    elif problem := problem_of_program(words):
        yield f"argv: {problem}"


# ------------------------------------------------------------------------------------------------------------- schema


def _problems_of_schema(schema: Mapping[str, Any] | None) -> Iterator[str]:
    if schema is None:
        yield "schema is missing, write schema={…}"
        return
    if schema.get("type") != "object":
        yield 'schema.type is not "object"'
    if schema.get("additionalProperties") is not False:
        yield "schema.additionalProperties is not false, so a payload could have fields without a slot"
    if "patternProperties" in schema:
        yield "schema.patternProperties names fields that can have no slot, list them in properties"
    if not isinstance(schema.get("properties", {}), Mapping):
        yield "schema.properties is not a dict"
        return
    for name in schema.get("properties", {}):
        if name in RESERVED:
            yield f"schema.properties.{name} has the name of a reserved slot, rename the field"


class _Slots:
    """Checks each slot of a template against the schema of its field, and each field for its slot."""

    def __init__(self, command: Command, parts: Sequence[Part]) -> None:
        schema = command.definition.schema or {}
        self._fields: Mapping[str, Any] = schema.get("properties", {})
        self._required = frozenset(schema.get("required", ()))
        self._secret = command.definition.secret_fields
        self._payload_file = command.payload_file
        self._env = command.env
        self._parts = parts

    def problems(self) -> Iterator[str]:
        for part in self._parts:
            yield from self._problems_of_group(part) if part.is_group else self._problems_of_single(part.words[0])
            for word in part.words:
                yield from self._problems_of_word(word)
        yield from problems_of_slots(self._env, self._fields)
        yield from self._fields_without_slot()

    def _problems_of_single(self, word: Word) -> Iterator[str]:
        """Yields why a word that is always there can't be filled for each payload."""
        for slot in self._known(word):
            if slot.is_switch:
                yield f'{word.text!r} is a switch, and stands in a group: ["--flag", "{word.text}"]'
            elif self._may_be_missing(slot.name):
                yield f"{slot.name} may be missing, so {word.text!r} belongs into a group: [{word.text!r}]"
            elif self._may_be_empty(slot.name) and word.starts_with_slot and not word.is_behind:
                yield f"{slot.name} may be an empty list, so {word.text!r} belongs into a group with its flag"

    def _problems_of_group(self, group: Part) -> Iterator[str]:
        shown = [word.text for word in group.words]
        if not group.fields:
            yield f"the group {shown} has no slot of a field, so it would never be left out"
        if END_OF_OPTIONS in shown and group is not self._parts[-1]:
            yield f"the group {shown} has --, so it has to be the last item"
        for word in group.words:
            for slot in self._known(word):
                if not slot.is_switch and not self._may_be_missing(slot.name) and not self._may_be_empty(slot.name):
                    yield f"{slot.name} is required, so {word.text!r} stands outside of a group"

    def _problems_of_word(self, word: Word) -> Iterator[str]:
        for slot in word.slots:
            if slot.name not in self._fields and slot.name not in RESERVED:
                near = get_close_matches(slot.name, [*self._fields, *RESERVED], n=1)
                hint = f' (did you mean "{near[0]}"?)' if near else ""
                yield f"{word.text!r} names {slot.name!r}, which is not a field of the schema{hint}"
        if word.is_switch:
            yield from self._problems_of_switch(word)
            return
        for slot in self._known(word):
            yield from self._problems_of_value(slot, word)
        yield from self._problems_of_start(word)

    def _problems_of_switch(self, word: Word) -> Iterator[str]:
        if len(word.pieces) > 1:
            yield f"{word.text!r} has more than a switch, which is a token by itself"
        for slot in word.slots:
            if types_of(self._fields.get(slot.name)) - {"null"} != {"boolean"}:
                yield f"{slot.name} is not a boolean, so it can't be the switch {word.text!r}"

    def _problems_of_value(self, slot: Slot, word: Word) -> Iterator[str]:
        schema = self._fields[slot.name]
        if slot.name in self._secret:
            yield (
                f"{slot.name} is secret and {word.text!r} would show it to every user of the machine: write "
                f'env={{"NAME": "{{{slot.name}}}"}}, or leave it to the payload file'
            )
        if not is_scalar(items_of(schema)):
            yield (
                f"{slot.name} has no type that {word.text!r} can be filled with: string, integer, number, boolean, "
                "an enum, or an array of these"
            )
        elif is_list(schema) and is_nullable(items_of(schema)):
            yield f"{slot.name} may have null among its items, which can't be an argument"
        if is_list(schema) and len(word.slots) > 1:
            yield f"{slot.name} is a list, so it has to be the only slot of {word.text!r}"

    def _problems_of_start(self, word: Word) -> Iterator[str]:
        """Yields why a value could become an option."""
        if not word.slots or word.is_behind:
            return
        first = word.pieces[0]
        if isinstance(first, str):
            if first.startswith("-") and not _FLAG.match(first):
                yield f"{word.text!r} lets a payload write options, the form is --flag={{{word.slots[0].name}}}"
            return
        if first.name in self._fields and not starts_safely(items_of(self._fields[first.name])):
            yield (
                f"{first.name} may start with a dash, so {word.text!r} could become an option: write "
                f"--flag={{{first.name}}}, or put it behind --, or give it a type that can't (a uuid or date format, "
                "an enum, a minimum of 0, a pattern such as ^[a-z])"
            )

    def _fields_without_slot(self) -> Iterator[str]:
        named = {*env_slots(self._env).values(), *(name for part in self._parts for name in part.fields)}
        bare = [name for name in self._fields if name not in named]
        if bare and self._payload_file is None:
            verb = "has" if len(bare) == 1 else "have"
            file = 'a payload file (payload_file="JOB_PAYLOAD")'
            yield f"{', '.join(bare)} {verb} neither a slot in argv or env nor {file}"

    def _known(self, word: Word) -> list[Slot]:
        return [slot for slot in word.slots if slot.name in self._fields]

    def _may_be_missing(self, name: str) -> bool:
        return name not in self._required or is_nullable(self._fields[name])

    def _may_be_empty(self, name: str) -> bool:
        schema = self._fields[name]
        return is_list(schema) and schema.get("minItems", 0) < 1


# -------------------------------------------------------------------------------------------------------- environment


def _problems_of_environment(command: Command) -> Iterator[str]:
    for name, value in command.env.items():
        yield from _problems_of_variable("env", name)
        if not isinstance(value, str) or not storable(value):
            yield f"env.{name} is not text without NUL characters"
    for name in command.pass_env:
        yield from _problems_of_variable("pass_env", name)
    if "PATH" in command.pass_env:
        yield "pass_env: PATH differs from machine to machine, set it in env"
    if both := sorted(command.env.keys() & set(command.pass_env)):
        yield f"{both[0]} is in env and in pass_env, it can have one value only"
    if (file := command.payload_file) is not None:
        if not isinstance(file, str) or not _NAME_OF_VARIABLE.fullmatch(file):
            yield f"payload_file={file!r:.80} is not the name of an environment variable"
        elif file in (*command.env, *command.pass_env, *JOB_VARIABLES, "PATH"):
            yield f"payload_file={file!r} is the name of another variable of the command"


def _problems_of_variable(option: str, name: Any) -> Iterator[str]:
    if not isinstance(name, str) or not _NAME_OF_VARIABLE.fullmatch(name):
        yield f"{option}: {name!r:.80} is not the name of an environment variable"
    elif name.startswith(OWN_VARIABLES):
        yield f"{option}: {name} is a name that Leasehold sets or reads itself"


def _problems_of_exit_codes(command: Command) -> Iterator[str]:
    for code in command.fail_on:
        yield from problems_of_integer("fail_on", code, 1, 255)
    for code, delay in command.snooze_on.items():
        yield from problems_of_integer("snooze_on", code, 1, 255)
        yield from problems_of_duration(f"snooze_on[{code!r}]", delay)
    if both := sorted(command.fail_on & command.snooze_on.keys()):
        yield f"the exit code {both[0]} is in fail_on and in snooze_on, it can mean one thing only"


def _problems_of_limits(command: Command) -> Iterator[str]:
    limits = command.limits
    most = 2**63 - 1
    for name in ("memory", "open_files", "file_size"):
        if (value := getattr(limits, name)) is not None:
            yield from problems_of_integer(f"limits.{name}", value, 1, most)
    if limits.cpu is not None:
        yield from problems_of_duration("limits.cpu", limits.cpu, above=True)
