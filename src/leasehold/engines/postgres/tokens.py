"""API tokens in Postgres."""

from collections.abc import Sequence
from datetime import timedelta

from asyncpg import Record

from leasehold.engines.postgres.database import Database
from leasehold.model.access import Permission, Role
from leasehold.model.job import TenantId
from leasehold.model.token import NewToken, TokenId, TokenRecord


class PostgresTokens:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, token: NewToken) -> TokenRecord:
        (row,) = await self._database.fetch(
            "tokens/add",
            token=token.id,
            name=token.name,
            role=token.role.value,
            tenant=token.tenant,
            permissions=None if token.permissions is None else sorted(token.permissions),
            definitions=token.definitions,
            hash=token.hash,
            created_by=token.created_by,
            life=token.life,
        )
        return _record(row)

    async def get(self, token: TokenId) -> TokenRecord | None:
        found = await self._database.fetch("tokens/get", token=token)
        return _record(found[0]) if found else None

    async def list(
        self, limit: int, after: TokenId | None = None, tenant: TenantId | None = None
    ) -> Sequence[TokenRecord]:
        if tenant is None:
            found = await self._database.fetch("tokens/list", after=after or "", limit=limit)
        else:
            found = await self._database.fetch("tokens/list_of_tenant", tenant=tenant, after=after or "", limit=limit)
        return [_record(row) for row in found]

    async def rotate(self, token: TokenId, secret: bytes, life: timedelta, overlap: timedelta) -> TokenRecord | None:
        found = await self._database.fetch("tokens/rotate", token=token, hash=secret, life=life, overlap=overlap)
        return _record(found[0]) if found else None

    async def revoke(self, token: TokenId) -> bool:
        return bool(await self._database.fetch("tokens/revoke", token=token))

    async def note_use(self, token: TokenId) -> None:
        await self._database.fetch("tokens/note_use", token=token)


def _record(row: Record) -> TokenRecord:
    """Reads a row. A permission of a newer release is left out: this one has no route for it."""
    known = set(Permission)
    permissions = row["permissions"]
    return TokenRecord(
        TokenId(row["id"]),
        row["name"],
        Role(row["role"]),
        row["tenant_id"] and TenantId(row["tenant_id"]),
        None if permissions is None else frozenset(Permission(each) for each in permissions if each in known),
        row["definitions"] and tuple(row["definitions"]),
        tuple(each for each in (row["secret_hash"], row["overlap_hash"]) if each is not None),
        row["created_by"],
        row["created_at"],
        row["expires_at"],
        row["overlap_until"],
        row["revoked_at"],
        row["last_used_at"],
    )
