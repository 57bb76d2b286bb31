"""A statement that is sent on a caller's connection, in the spellings of the drivers; no I/O."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from leasehold.engines.postgres.statements import Statement

_NUMBERED = re.compile(r"\$(\d+)")


class Row(Protocol):
    """A row whose columns are read by place, since drivers disagree about names."""

    def __getitem__(self, place: int, /) -> Any: ...


@dataclass(frozen=True, slots=True)
class CallerStatement:
    """A statement in which each parameter stands once, in the order of `arguments`."""

    statement: Statement
    schema: str

    @property
    def arguments(self) -> Sequence[str | bool | None]:
        raise NotImplementedError

    @property
    def text(self) -> str:
        """The statement with $1, $2, …, as the server reads it."""
        return self.statement.text

    @property
    def text_with_percent(self) -> str:
        return _NUMBERED.sub("%s", self.statement.text)

    @property
    def text_with_names(self) -> str:
        """The statement with :tenant, :jobs, …"""
        return _NUMBERED.sub(lambda match: f":{self.statement.parameters[int(match[1]) - 1]}", self.statement.text)

    @property
    def named(self) -> Mapping[str, str | bool | None]:
        return dict(zip(self.statement.parameters, self.arguments, strict=True))
