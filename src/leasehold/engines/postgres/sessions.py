"""Sessions of browsers in Postgres."""

from asyncpg import Record

from leasehold.engines.postgres.database import Database
from leasehold.model.session import NewSession, SessionKind, SessionRecord
from leasehold.model.token import TokenId

REMOVED_AT_ONCE = 100


class PostgresSessions:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, session: NewSession) -> None:
        await self._database.fetch(
            "tokens/add_session",
            hash=session.hash,
            kind=session.kind.value,
            token=session.token,
            life=session.life,
            most=REMOVED_AT_ONCE,
        )

    async def get(self, secret_hash: bytes) -> SessionRecord | None:
        found = await self._database.fetch("tokens/session", hash=secret_hash)
        return _record(found[0]) if found else None

    async def take(self, secret_hash: bytes) -> SessionRecord | None:
        found = await self._database.fetch("tokens/take_session", hash=secret_hash)
        return _record(found[0]) if found and found[0]["live"] else None


def _record(row: Record) -> SessionRecord:
    return SessionRecord(SessionKind(row["kind"]), TokenId(row["token"]), row["expires_at"])
