"""Versions of definitions that a process has read. A version never changes, so it is read once."""

from collections.abc import Iterable
from typing import Any

from asyncpg import Record

from leasehold.engines.postgres import definition_rows
from leasehold.model.definition import Registered

Version = tuple[str, int]


class DefinitionVersions:
    def __init__(self) -> None:
        self._known: dict[Version, Registered] = {}

    def unknown(self, wanted: Iterable[Version]) -> dict[str, Any]:
        """Returns the parameters of definition_versions.sql for those that are not known; empty if all are."""
        missing = set(wanted) - self._known.keys()
        if not missing:
            return {}
        keys, versions = zip(*missing, strict=True)
        return {"keys": keys, "versions": versions}

    def add(self, rows: Iterable[Record]) -> None:
        for row in rows:
            definition, unreadable = definition_rows.read(row)
            self._known[row["key"], row["version"]] = Registered(definition, row["version"], True, unreadable)

    def get(self, key: str, version: int, *, active: bool) -> Registered | None:
        known = self._known.get((key, version))
        return None if known is None else Registered(known.definition, known.version, active, known.unreadable)
