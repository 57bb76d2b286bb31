"""Reads commands from a TOML file, for workers without Python code of their own.

    [commands.sync-dropbox]
    argv = ["zoltag", "sync-dropbox", "--tenant-id", "{tenant}", "--provider-id", "{provider_id}"]
    timeout = "1h"

    [commands.sync-dropbox.schema]
    type = "object"
    properties.provider_id = { type = "string", format = "uuid" }
    required = ["provider_id"]
    additionalProperties = false

Keys are the options of `app.command`. A program with a relative path is found from the folder of the file.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from leasehold.app.commands import OF_COMMANDS, CommandVerbs
from leasehold.app.registry import OPTIONS
from leasehold.errors import CannotLoad, InvalidInput
from leasehold.model.backoff import OUTBOX, SCHEDULED, SMALL_TEAM, Exponential, Steps
from leasehold.model.command import ResourceLimits
from leasehold.model.definition import Retention

T = TypeVar("T")

KEYS = ("argv", "schema", *sorted(OPTIONS - {"durable_claims"}), *OF_COMMANDS)
PRESETS = {"outbox": OUTBOX, "scheduled": SCHEDULED, "small_team": SMALL_TEAM}


def load_commands(app: CommandVerbs, file: Path) -> list[str]:
    """Declares the commands of a file, and returns their keys. Raises InvalidInput with file, table and key."""
    tables = _read(file)
    for key, table in tables.items():
        place = f"{file}, [commands.{key}]"
        if not isinstance(table, Mapping):
            raise _misfit(place, f"{table!r:.80} is not a table")
        options = {name: _option(place, name, value) for name, value in table.items()}
        argv, schema = options.pop("argv", None), options.pop("schema", None)
        if argv is None:
            raise _misfit(place, "argv is missing")
        try:
            app.declare_command(key, _from_folder(argv, file.parent), schema, options, place)
        except InvalidInput as error:
            raise _misfit(place, error.happened.removesuffix(".")) from error
    return list(tables)


def _read(file: Path) -> Mapping[str, Any]:
    import tomllib  # its regular expressions take a twentieth of the time in which any command starts

    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise CannotLoad(
            f"{file} can't be read: {why}. Nothing was started.", fix="Check its name and its content."
        ) from error
    for name in document.keys() - {"commands"}:
        raise _misfit(f"{file}", f'the table "{name}" is unknown, commands are tables like [commands.sync-dropbox]')
    tables = document.get("commands")
    if not isinstance(tables, Mapping) or not tables:
        raise _misfit(f"{file}", "it has no commands, which are tables like [commands.sync-dropbox]")
    return tables


def _option(place: str, name: str, value: Any) -> Any:
    """Returns the value of a key as `app.command` takes it."""
    if name not in KEYS:
        near = get_close_matches(name, KEYS, n=1)
        hint = f' (did you mean "{near[0]}"?)' if near else f", keys are: {', '.join(KEYS)}"
        raise _misfit(f"{place}, {name}", f"a command has no such key{hint}")
    if name not in _READERS:
        return value
    try:
        return _READERS[name](value)
    except (InvalidInput, TypeError, ValueError) as error:
        why = error.happened.rstrip(".") if isinstance(error, InvalidInput) else error
        raise _misfit(f"{place}, {name}", f"{why}") from error


def _read_backoff(value: Any) -> Any:
    if isinstance(value, str):
        if value not in PRESETS:
            raise ValueError(f"{value!r:.80} is none of {', '.join(PRESETS)}")
        return PRESETS[value]
    return Steps(*value) if isinstance(value, list) else _made(Exponential, value)


def _read_snoozes(value: Any) -> dict[int, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{value!r:.80} is not a table of exit codes")
    return {int(code): delay for code, delay in value.items()}


def _read_retention(value: Any) -> Retention:
    return _made(Retention, value) if isinstance(value, Mapping) else Retention(value)


def _made(kind: type[T], table: Any) -> T:
    """Makes a value of a table whose keys are the fields of its class."""
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    if not isinstance(table, Mapping):
        raise ValueError(f"{table!r:.80} is not a table")
    for name in table.keys() - names:
        raise ValueError(f'"{name}" is none of {", ".join(names)}')
    return kind(**table)


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "backoff": _read_backoff,
    "limits": partial(_made, ResourceLimits),
    "retention": _read_retention,
    "snooze_on": _read_snoozes,
}


def _from_folder(argv: Any, folder: Path) -> Any:
    """Makes the relative path of a program absolute; a name without a slash is looked for on the PATH."""
    if isinstance(argv, list) and argv and isinstance(argv[0], str) and "/" in argv[0]:
        return [str(folder.resolve() / argv[0]), *argv[1:]]
    return argv


def _misfit(place: str, why: str) -> InvalidInput:
    return InvalidInput(f"{place}: {why}.", fix="Nothing was registered. Correct the file.")
