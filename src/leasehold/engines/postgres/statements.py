"""Reads statements from files: puts in fragments, numbers named parameters, and names the schema.

The files call the schema `leasehold`. Where a file says include(NAME), the text of fragments/NAME.sql is put in: a
list of columns, a condition or a part of a query that several statements share. A fragment may include others.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from leasehold.errors import InvalidInput

_SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,29}")
_COMMENT = re.compile(r"--[^\n]*")
_INCLUDE = re.compile(r"\binclude\((\w+)\)")
_NUMBERED = re.compile(r"\$(\d+)")
_PARAMETER = re.compile(r"(?<![:'\w]):([a-z][a-z_]*)")


def schema_name(text: str) -> str:
    """Channels are named after the schema, and a channel's name has at most 63 characters: 30 are left."""
    if not _SCHEMA_NAME.fullmatch(text):
        raise InvalidInput(
            f"{text!r} can't be used as the schema's name: 1 to 30 of a-z, 0-9 and _, not beginning with a digit.",
            fix="Nothing was changed. Set LEASEHOLD_SCHEMA to such a name.",
        )
    return text


def render(text: str, schema: str) -> str:
    """Puts in fragments and the schema's real name: quoted as an identifier, bare where it is a whole literal."""
    whole = with_fragments(text).replace("'leasehold'", f"'{schema}'")
    return re.sub(r"\bleasehold(?=[.;])", f'"{schema}"', whole)


def with_fragments(text: str) -> str:
    """Puts in the fragments that a text names."""
    return _INCLUDE.sub(lambda match: _fragment(match[1]), text)


@cache
def _fragment(name: str) -> str:
    file = files(__package__) / "fragments" / f"{name}.sql"
    return with_fragments(_COMMENT.sub("", file.read_text("utf-8")).strip())


@dataclass(frozen=True, slots=True)
class Statement:
    name: str
    text: str
    parameters: tuple[str, ...]
    names: frozenset[str]

    def arguments(self, values: Mapping[str, Any]) -> list[Any]:
        if values.keys() != self.names:
            raise TypeError(f"{self.name} takes {sorted(self.parameters)}, not {sorted(values)}")
        return [values[name] for name in self.parameters]

    def fill_in(self, values: Mapping[str, str]) -> str:
        """Returns the text with these values in it, each written as SQL: for messages that take no parameters."""
        arguments = self.arguments(values)
        return _NUMBERED.sub(lambda match: str(arguments[int(match[1]) - 1]), self.text)


def parse(name: str, text: str, schema: str) -> Statement:
    parameters: list[str] = []

    def number(match: re.Match[str]) -> str:
        if match[1] not in parameters:
            parameters.append(match[1])
        return f"${parameters.index(match[1]) + 1}"

    numbered = _PARAMETER.sub(number, _COMMENT.sub("", with_fragments(text)))
    return Statement(name, render(numbered, schema).strip(), tuple(parameters), frozenset(parameters))


@cache
def statements(schema: str) -> Mapping[str, Statement]:
    """Reads every statement of the engine, by its path below queries/ without the ending."""
    return {name: parse(name, file.read_text("utf-8"), schema) for name, file in query_files()}


def query_files() -> Iterator[tuple[str, Traversable]]:
    for folder in (files(__package__) / "queries").iterdir():
        for file in folder.iterdir():
            if file.name.endswith(".sql"):
                yield f"{folder.name}/{file.name.removesuffix('.sql')}", file
