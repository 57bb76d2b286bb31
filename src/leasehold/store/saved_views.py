"""Views of lists that people have saved: the words of a search, its columns and its size."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from leasehold.errors import InvalidInput
from leasehold.model.bounds import problems_of_text
from leasehold.model.job import TenantId

MOST_VIEWS = 50
"""Views that one person can save for the lists of a tenant; as many are shared."""
LONGEST_NAME = 60
LONGEST_QUERY = 4000


@dataclass(frozen=True, slots=True)
class SavedView:
    """A view by its name. Without a tenant, it is one of the lists of all tenants; without an owner, it is shared.

    `query` is the query of its address, like `q=status%3Afailed&limit=100`.
    """

    tenant: TenantId | None
    owner: str | None
    name: str
    query: str
    created_by: str | None = None
    created_at: datetime | None = None

    def __post_init__(self) -> None:
        if problems := list(self._problems()):
            raise InvalidInput(
                f"The view can't be saved: {'; '.join(problems)}.", fix="Nothing was saved. Correct the values."
            )

    def _problems(self) -> Iterator[str]:
        for name, text, most in (("name", self.name, LONGEST_NAME), ("query", self.query, LONGEST_QUERY)):
            if not isinstance(text, str) or not 1 <= len(text) <= most or text != text.strip():
                yield f"its {name} needs 1 to {most:,} characters, without spaces around them"
            elif not text.isprintable():
                yield f"its {name} has a character that can't be shown"
        for name in ("owner", "created_by"):
            if (text := getattr(self, name)) is not None:
                yield from problems_of_text(name, text)


class SavedViews(Protocol):
    """The saved views of all people."""

    async def list(self, tenant: TenantId | None, owner: str) -> Sequence[SavedView]:
        """Returns the views of one person for the lists of a tenant, and those that are shared, by name."""

    async def save(self, view: SavedView) -> bool:
        """Saves a view, in the place of one with the same name. Returns False if its owner has MOST_VIEWS others."""

    async def delete(self, tenant: TenantId | None, owner: str | None, name: str) -> bool:
        """Deletes a view. Returns whether there was one."""
