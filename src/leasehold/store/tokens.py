"""API tokens: by their public ids, with hashes of their secrets."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol

from leasehold.model.job import TenantId
from leasehold.model.token import NewToken, TokenId, TokenRecord
from leasehold.store.saved_views import SavedViews
from leasehold.store.sessions import Sessions


class Tokens(Protocol):
    """The API tokens of all tenants. Only the engine's clock judges whether one has expired."""

    async def add(self, token: NewToken) -> TokenRecord:
        """Saves a token, whose life begins now."""

    async def get(self, token: TokenId) -> TokenRecord | None: ...

    async def list(
        self, limit: int, after: TokenId | None = None, tenant: TenantId | None = None
    ) -> Sequence[TokenRecord]:
        """Returns tokens after that one, by their ids: all of them, or only those bound to a tenant.

        Expired and revoked ones are listed, too.
        """

    async def rotate(self, token: TokenId, secret: bytes, life: timedelta, overlap: timedelta) -> TokenRecord | None:
        """Gives a live token a new secret and a new life; the secret before stays valid for `overlap`, at most its
        own life. Returns None unless such a token is live.
        """

    async def revoke(self, token: TokenId) -> bool:
        """Ends a token at once, both secrets. Returns whether there was one; a revoked one stays revoked."""

    async def note_use(self, token: TokenId) -> None:
        """Notes that a token was used now."""


class TokenStore(Protocol):
    @property
    def tokens(self) -> Tokens: ...

    @property
    def sessions(self) -> Sessions: ...

    @property
    def saved_views(self) -> SavedViews: ...
