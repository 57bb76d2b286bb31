"""Makes claims of rows, each with its version of the definition."""

import logging
from collections.abc import Sequence
from operator import itemgetter

from asyncpg import Record

from leasehold.engines.postgres import definition_rows, rows
from leasehold.engines.postgres.database import Database
from leasehold.model.definition import Definition
from leasehold.model.job import Claim, WorkerId
from leasehold.model.stored_definition import missing_definition, why_unusable

log = logging.getLogger("leasehold.worker")

_version_of = itemgetter("definition", "version")


class ClaimReader:
    """Remembers versions of definitions: they are immutable, so each is read once."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._versions: dict[rows.DefinitionKey, Definition] = {}
        self._unusable: dict[rows.DefinitionKey, str] = {}

    async def read(self, found: Sequence[Record], worker: WorkerId | None = None) -> list[Claim]:
        """Makes claims of rows, for this worker or the one that each row names."""
        versions = list(map(_version_of, found))
        if missing := set(versions) - self._versions.keys():
            keys, numbers = zip(*missing, strict=True)
            for row in await self._database.fetch("fleet/definition_versions", keys=keys, versions=numbers):
                self._remember(row)
        known = {version: self._definition_of(version) for version in set(versions)}
        claims = [
            rows.claim(row, worker or row["worker_id"], known[version][0])
            for row, version in zip(found, versions, strict=True)
        ]
        if any(why for _, why in known.values()):
            for claim, version in zip(claims, versions, strict=True):
                claim.unusable = known[version][1] or None
        return claims

    def _remember(self, row: Record) -> None:
        key, version = row["key"], row["version"]
        self._versions[key, version], unreadable = definition_rows.read(row)
        if unreadable:
            log.warning("version %d of %s: %s; defaults stand for it", version, key, "; ".join(unreadable))
        if why := why_unusable(key, version, unreadable):
            self._unusable[key, version] = why

    def _definition_of(self, version: rows.DefinitionKey) -> tuple[Definition, str]:
        """Returns a version, and why no job can run by it: one that is gone or unreadable. Such a job is claimed all
        the same, and fails alone when it is begun.
        """
        if (definition := self._versions.get(version)) is None:
            return missing_definition(*version, "database")
        return definition, self._unusable.get(version, "")
