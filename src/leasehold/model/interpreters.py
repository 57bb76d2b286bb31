"""Refuses programs that would run code or another program from their arguments."""

from collections.abc import Iterator, Sequence

from leasehold.model.argv import END_OF_OPTIONS, Word
from leasehold.model.code_options import (
    LAUNCHERS,
    MULTI_CALL,
    PROGRAMS,
    Carrier,
    Interpreter,
    Tool,
    is_among,
    known_name,
)


def problem_of_program(words: Sequence[Word]) -> str | None:
    """Returns why this program and its arguments can't be a command; None if they can.

    An interpreter gets its script from the template, and code from no argument. Any other program may have code in
    its template, and no slot in it.
    """
    return _problem_as(words[0].text, words) or _problem_within(words)


def problem_of_links(words: Sequence[Word], names: Sequence[str]) -> str | None:
    """Returns why the file of a program can't be run: it is a link, and these are the names that it leads to."""
    for name in names:
        known = known_name(name)
        if known not in MULTI_CALL and known is not None and (problem := _problem_as(name, words)):
            return problem
    return None


def _problem_as(program: str, words: Sequence[Word]) -> str | None:
    """Returns why these words can't be run, if their first one is this program."""
    name = known_name(program)
    if name is None:
        return None
    if name in LAUNCHERS:
        return f"{program} runs another program, and that one has to be named itself"
    match PROGRAMS[name]:
        case Interpreter() as interpreter:
            return _problem_of_options(program, interpreter, words[1:])
        case Tool() as tool:
            return _problem_of_tool(program, tool, words[1:])
        case Carrier() as carrier:
            return _problem_of_carrier(program, carrier, words[1:])


# ------------------------------------------------------------------------------------------------------- interpreters


def _problem_of_options(program: str, interpreter: Interpreter, words: Sequence[Word]) -> str | None:
    """Reads the arguments up to the script, which has to be written in the template."""
    is_value = is_script = False
    for word in words:
        if word.slots:
            return f"{word.text!r} has a slot before the script of {program}, so a payload could choose the code"
        if is_script:  # or an option before it, as in `deno run --allow-net serve.ts`
            if not word.text.startswith("-"):
                return None
            continue
        if is_value:
            is_value = False
            continue
        for option, has_value in _options(_spelled(word.text, interpreter), interpreter.whole):
            if is_among(option, interpreter.code):
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


def _spelled(text: str, interpreter: Interpreter) -> str:
    return text.lower() if interpreter.whole else text  # PowerShell reads -Command and -command


def _options(text: str, whole: bool) -> Iterator[tuple[str, bool]]:
    """Yields the options of an argument, each with whether the argument goes on behind it: -Ic is -I and -c."""
    name, equals, _ = text.partition("=")
    if not whole and text.startswith(("-", "+")) and not text.startswith("--"):
        yield from ((f"{text[0]}{letter}", place < len(text) - 1) for place, letter in enumerate(text[1:], 1))
        return
    yield name, bool(equals)
    if whole and name.startswith("-"):  # such programs take -eval and --eval
        yield name[1:] if name.startswith("--") else f"-{name}", bool(equals)


# -------------------------------------------------------------------------------------------------------------- tools


def _problem_of_tool(program: str, tool: Tool, words: Sequence[Word]) -> str | None:
    """Looks for slots in arguments that the program runs as code."""
    is_value = is_code = is_open = False
    operand_is_code = tool.operand
    for word in words:
        is_operand = not word.text.startswith(("-", "+")) or (word.is_behind and not tool.expressions)
        is_run = is_code or is_open or tool.all or (operand_is_code and is_operand and not is_value)
        if word.slots and (is_run or word.text.startswith("+")):
            return f"{word.text!r} has a slot, and {program} may run it as code"
        if word.slots and tool.expressions and word.is_behind and word.starts_with_slot:
            return f"{word.text!r} has a slot behind --, where {program} reads options as well"
        if is_code or is_value:
            is_code = is_value = False
            continue
        if is_operand:
            operand_is_code = False
            continue
        for option, has_value in _options(word.text, tool.whole):
            is_open = is_open or is_among(option, tool.opens)
            if is_among(option, tool.code):
                if has_value and word.slots:
                    return f"{word.text!r} has a slot, and {program} {option} runs code"
                is_code, operand_is_code = not has_value, False
                break
            if option in (*tool.value, *tool.suffix):
                is_value = option in tool.value and not has_value
                break
    return None


# ------------------------------------------------------------------------------------------- programs within programs


def _problem_of_carrier(program: str, carrier: Carrier, words: Sequence[Word]) -> str | None:
    """Checks the program that another one runs by a subcommand, as `docker exec` does."""
    verb = next((place for place, word in enumerate(words) if word.text in carrier.verbs), None)
    if verb is None:
        return None
    left, is_value, is_code, entry = carrier.operands, False, False, ""
    for place, word in enumerate(words[verb + 1 :], verb + 1):
        if is_code and word.slots:
            return f"{word.text!r} has a slot, and {program} may run it as code"
        if is_value or is_code:
            entry = word.text if is_code else entry
            is_value = is_code = False
        elif word.text == END_OF_OPTIONS:
            return _problem_of_inner(program, entry, words[place + 1 :])
        elif carrier.operands and not left and END_OF_OPTIONS not in (later.text for later in words[place:]):
            return _problem_of_inner(program, entry, words[place:])
        elif word.text.startswith("-"):
            name, equals, value = word.text.partition("=")
            is_value = name in carrier.value and not equals
            is_code = is_among(name, carrier.code) and not equals
            if is_among(name, carrier.code):
                entry = value
                if word.slots:
                    return f"{word.text!r} has a slot, and {program} {name} runs code"
        elif left:
            left -= 1
        else:
            return _problem_of_inner(program, entry, words[place:])
    return None


def _problem_of_inner(program: str, entry: str, words: Sequence[Word]) -> str | None:
    """Checks a program and its arguments; with `entry`, the arguments of that program."""
    if entry:
        return _problem_as(entry, [words[0], *words]) if words else None
    if not words or words[0].text.startswith("-"):  # arguments of a program that its image names
        return None
    if words[0].slots:
        return f"{words[0].text!r} has a slot, and {program} runs it as a program"
    return _problem_as(words[0].text, words)


def _problem_within(words: Sequence[Word]) -> str | None:
    """Looks for an interpreter among the arguments of any program: whatever starts it, a slot could become code."""
    for place, word in enumerate(words[1:], 1):
        name = None if word.slots else known_name(word.text)
        kind = PROGRAMS.get(name or "")
        if not isinstance(kind, Interpreter) or not any(later.slots for later in words[place + 1 :]):
            continue
        before_slots = _until_slot(words[place + 1 :])
        following = words[place + 1 + len(before_slots)]
        if _problem_of_options(word.text, kind, before_slots):
            return f"{word.text} may run code from an argument here, and {following.text!r} has a slot"
        if word.is_behind and not _has_script(kind, before_slots) and following.starts_with_slot:
            return f"{following.text!r} may become an option of {word.text}, and run code"
    return None


def _until_slot(words: Sequence[Word]) -> Sequence[Word]:
    return words[: next(place for place, word in enumerate(words) if word.slots)]


def _has_script(interpreter: Interpreter, words: Sequence[Word]) -> bool:
    return any(not word.text.startswith(("-", "+")) and word.text not in interpreter.value for word in words)
