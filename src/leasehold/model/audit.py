"""The audit log: which administrator has changed what, and when. Entries are appended, never changed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from leasehold.errors import InvalidInput
from leasehold.model.bounds import MAX_TEXT, problems_of_text
from leasehold.model.job import TenantId

MAX_SUBJECT = 300


@dataclass(frozen=True, slots=True)
class Actor:
    """A person or a program that administers.

    name     the principal, as in "cli:anna@build-7" or the name of a token
    token    the public id of the token that was used; None without one
    request  the id of the request that came over HTTP; None without one
    """

    name: str
    token: str | None = None
    request: str | None = None

    def __post_init__(self) -> None:
        problems = [*problems_of_text("name", self.name, MAX_TEXT, least=1)]
        for name in ("token", "request"):
            value = getattr(self, name)
            problems += problems_of_text(name, value) if value is not None else ()
        if problems:
            raise InvalidInput(
                f"The actor can't be used: {'; '.join(problems)}.", fix="Nothing was changed. Correct the values."
            )


@dataclass(frozen=True, slots=True)
class NewEntry:
    """A change that is to be noted.

    action   what was done: "definition.override", "tenant.pause", "job.cancel" …
    subject  what it was done to, as a kind and a name: "definition report", "job 0190…"
    tenant   whose data was changed; None if it concerns all tenants
    before   the values that were changed, without secrets; None for something new
    after    the values after the change; None for something deleted
    """

    action: str
    subject: str
    actor: Actor
    tenant: TenantId | None = None
    before: Mapping[str, Any] | None = field(default=None, hash=False)
    after: Mapping[str, Any] | None = field(default=None, hash=False)


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """A noted change. Its id sorts by time."""

    id: str
    at: datetime
    entry: NewEntry
