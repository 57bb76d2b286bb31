"""Makes claims of rows, each with its version of the definition."""

import logging
from collections.abc import Sequence

from asyncpg import Record

from leasehold.engines.postgres import definition_rows, rows
from leasehold.engines.postgres.database import Database
from leasehold.model.definition import Definition
from leasehold.model.job import Claim, WorkerId
from leasehold.model.stored_definition import missing_definition, why_unusable

log = logging.getLogger("leasehold.worker")


class ClaimReader:
    """Remembers versions of definitions: they are immutable, so each is read once."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._versions: dict[rows.DefinitionKey, Definition] = {}
        self._unusable: dict[rows.DefinitionKey, str] = {}

    async def read(self, found: Sequence[Record], worker: WorkerId | None = None) -> list[Claim]:
        """Makes claims of rows, for this worker or the one that each row names."""
        missing = {(row["definition"], row["version"]) for row in found} - self._versions.keys()
        if missing:
            keys, versions = zip(*missing, strict=True)
            for row in await self._database.fetch("fleet/definition_versions", keys=keys, versions=versions):
                self._remember(row)
        return [self._claim_of(row, worker or row["worker_id"]) for row in found]

    def _remember(self, row: Record) -> None:
        key, version = row["key"], row["version"]
        self._versions[key, version], unreadable = definition_rows.read(row)
        if unreadable:
            log.warning("version %d of %s: %s; defaults stand for it", version, key, "; ".join(unreadable))
        if why := why_unusable(key, version, unreadable):
            self._unusable[key, version] = why

    def _claim_of(self, row: Record, worker: WorkerId) -> Claim:
        """Makes a claim. A job whose version is gone or unreadable is claimed as unusable, and fails alone when it is
        begun.
        """
        version = row["definition"], row["version"]
        if (definition := self._versions.get(version)) is None:
            definition, why = missing_definition(*version, "database")
        else:
            why = self._unusable.get(version, "")
        claim = rows.claim(row, worker, definition)
        if why:
            claim.unusable = why
        return claim
