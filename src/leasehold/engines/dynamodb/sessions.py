"""Sessions of browsers in DynamoDB: one item each, which the table's TTL removes after its end."""

from datetime import datetime

from leasehold.engines.dynamodb.clock import Clock
from leasehold.engines.dynamodb.keys import read_timestamp, session_key, timestamp
from leasehold.engines.dynamodb.table import NEW, Delete, Table
from leasehold.engines.dynamodb.wire import Item
from leasehold.model.session import NewSession, SessionKind, SessionRecord
from leasehold.model.token import TokenId


class DynamoSessions:
    def __init__(self, table: Table, clock: Clock) -> None:
        self._table = table
        self._clock = clock

    async def add(self, session: NewSession) -> None:
        until = await self._clock.now() + session.life
        partition, sort = session_key(session.hash)
        item = {
            "PK": partition,
            "SK": sort,
            "kind": session.kind.value,
            "token": session.token,
            "expires_at": timestamp(until),
            "ttl": int(until.timestamp()) + 1,
        }
        await self._table.put(item, NEW)

    async def get(self, secret_hash: bytes) -> SessionRecord | None:
        return _live(await self._table.get(session_key(secret_hash)), await self._clock.now())

    async def take(self, secret_hash: bytes) -> SessionRecord | None:
        return _live(await self._table.delete(Delete(session_key(secret_hash))), await self._clock.now())


def _live(item: Item | None, now: datetime) -> SessionRecord | None:
    if item is None or (until := read_timestamp(item["expires_at"])) <= now:
        return None
    return SessionRecord(SessionKind(item["kind"]), TokenId(item["token"]), until)
