"""API tokens in DynamoDB: one partition, since there are few of them. Hashes are written as hexadecimal text."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from leasehold.engines.dynamodb.clock import Clock
from leasehold.engines.dynamodb.errors import ConditionFailed
from leasehold.engines.dynamodb.keys import TOKENS, Key, read_timestamp, timestamp, token_sk
from leasehold.engines.dynamodb.table import EXISTS, NEW, Table, Update
from leasehold.engines.dynamodb.wire import Item
from leasehold.model.access import Permission, Role
from leasehold.model.job import TenantId
from leasehold.model.token import NewToken, TokenId, TokenRecord

AT_ONCE = 100


class DynamoTokens:
    def __init__(self, table: Table, clock: Clock) -> None:
        self._table = table
        self._clock = clock

    async def add(self, token: NewToken) -> TokenRecord:
        now = await self._clock.now()
        item = {
            "PK": TOKENS,
            "SK": token_sk(token.id),
            "name": token.name,
            "role": token.role.value,
            "tenant": token.tenant,
            "permissions": None if token.permissions is None else sorted(token.permissions),
            "definitions": None if token.definitions is None else list(token.definitions),
            "secret_hash": token.hash.hex(),
            "created_by": token.created_by,
            "created_at": timestamp(now),
            "expires_at": timestamp(now + token.life),
        }
        await self._table.put({name: value for name, value in item.items() if value is not None}, NEW)
        return _record(item, now)

    async def get(self, token: TokenId) -> TokenRecord | None:
        item = await self._table.get(_key(token))
        return None if item is None else _record(item, await self._clock.now())

    async def list(
        self, limit: int, after: TokenId | None = None, tenant: TenantId | None = None
    ) -> Sequence[TokenRecord]:
        now = await self._clock.now()
        found: list[TokenRecord] = []
        values = {"pk": TOKENS, "after": token_sk(after or TokenId(""))}
        async for item in self._table.query("#PK = :pk AND #SK > :after", values, limit=AT_ONCE):
            if tenant in (None, item.get("tenant")):
                found.append(_record(item, now))
            if len(found) == limit:
                break
        return found

    async def rotate(self, token: TokenId, secret: bytes, life: timedelta, overlap: timedelta) -> TokenRecord | None:
        now, before = await self._clock.now(), await self._table.get(_key(token))
        if before is None or not _record(before, now).hashes:
            return None
        until = min(read_timestamp(before["expires_at"]), now + overlap)
        change = Update(
            _key(token),
            {
                "secret_hash": secret.hex(),
                "expires_at": timestamp(now + life),
                "overlap_hash": before["secret_hash"],
                "overlap_until": timestamp(until),
            },
            "attribute_not_exists(#revoked_at) AND #secret_hash = :before",
            {"before": before["secret_hash"]},
        )
        try:
            return _record(await self._table.update(change), now)
        except ConditionFailed:  # was revoked, or rotated by another call, meanwhile
            return None

    async def revoke(self, token: TokenId) -> bool:
        change = Update(
            _key(token),
            {"revoked_at": timestamp(await self._clock.now())},
            f"{EXISTS} AND attribute_not_exists(#revoked_at)",
        )
        try:
            await self._table.update(change, returns="NONE")
        except ConditionFailed:
            return await self._table.get(_key(token)) is not None
        return True

    async def note_use(self, token: TokenId) -> None:
        change = Update(_key(token), {"last_used_at": timestamp(await self._clock.now())}, EXISTS)
        try:
            await self._table.update(change, returns="NONE")
        except ConditionFailed:
            return


def _key(token: TokenId) -> Key:
    return TOKENS, token_sk(token)


def _record(item: Item, now: datetime) -> TokenRecord:
    """Reads an item. A permission of a newer release is left out: this one has no route for it."""
    expires_at, overlap_until = read_timestamp(item["expires_at"]), _moment(item, "overlap_until")
    live = {
        item["secret_hash"]: expires_at > now,
        item.get("overlap_hash"): overlap_until is not None and overlap_until > now,
    }
    revoked_at, known = _moment(item, "revoked_at"), set(Permission)
    permissions, definitions = item.get("permissions"), item.get("definitions")
    return TokenRecord(
        TokenId(item["SK"].removeprefix(token_sk(TokenId("")))),
        item["name"],
        Role(item["role"]),
        item.get("tenant"),
        None if permissions is None else frozenset(Permission(each) for each in permissions if each in known),
        None if definitions is None else tuple(definitions),
        tuple(bytes.fromhex(each) for each, lives in live.items() if lives and revoked_at is None),
        item.get("created_by"),
        read_timestamp(item["created_at"]),
        expires_at,
        overlap_until,
        revoked_at,
        _moment(item, "last_used_at"),
    )


def _moment(item: Item, name: str) -> datetime | None:
    return read_timestamp(item[name]) if item.get(name) else None
