"""What an engine says about a database: where its schema stands, how it gets there, and what a checkup found."""

from dataclasses import dataclass
from enum import StrEnum

from leasehold.errors import SchemaMismatch


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a database is: 0 means that there is no schema yet."""

    schema: str
    version: int
    needs: int
    known: int

    @property
    def current(self) -> bool:
        return self.version == self.known

    def require_usable(self) -> None:
        """A newer schema is fine as long as its migrations say that this code still works on it."""
        if self.version < self.known:
            at = f"is at {self.version:04d}" if self.version else "does not exist"
            raise SchemaMismatch(
                f'the schema "{self.schema}" {at}, this version needs {self.known:04d}. Nothing was changed.',
                fix="Run: leasehold migrate (workers of the release before keep running meanwhile).",
                code="LH-2001",
            )
        if self.needs > self.known:
            raise SchemaMismatch(
                f'the schema "{self.schema}" is at {self.version:04d} and needs code that knows {self.needs:04d}; '
                f"this version knows up to {self.known:04d}. Nothing was changed.",
                fix="Upgrade leasehold, or point to another schema with LEASEHOLD_SCHEMA.",
                code="LH-2002",
            )


@dataclass(frozen=True, slots=True)
class MigrationStep:
    """One migration as SQL: what comes before any of them, how to ask whether it was applied, what applies it."""

    opening: str
    applied: str
    script: str


class Verdict(StrEnum):
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem breaks the promise or keeps work from being done; a warning is for somebody to know."""

    check: str
    verdict: Verdict
    text: str
    code: str | None = None
    fix: str | None = None
