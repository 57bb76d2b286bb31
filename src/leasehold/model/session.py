"""Sessions of browsers, and one-time links that begin one: their secrets, their hashes, and their records."""

from base64 import urlsafe_b64encode
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from secrets import token_bytes

from leasehold.model.token import TokenId

SESSION_LIFE = timedelta(hours=12)
LINK_LIFE = timedelta(minutes=15)
_SECRET_BYTES = 32
_LONGEST = 100


class SessionKind(StrEnum):
    """A session is used by every request of a browser. A link is used once, to begin a session."""

    SESSION = "session"
    LINK = "link"


@dataclass(frozen=True, slots=True)
class NewSession:
    """A session to save. It has the rights of its token, and ends with it."""

    hash: bytes
    kind: SessionKind
    token: TokenId
    life: timedelta


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A session that has not expired by the engine's clock."""

    kind: SessionKind
    token: TokenId
    expires_at: datetime


def new_secret() -> str:
    """Makes the secret of a session: 32 random bytes, so that nothing can be gained by trying."""
    return urlsafe_b64encode(token_bytes(_SECRET_BYTES)).decode().rstrip("=")


def hash_of(kind: SessionKind, secret: str) -> bytes:
    """Returns what is stored of a secret. A link has another hash than a session with the same secret."""
    return sha256(f"{kind.value}:{secret[:_LONGEST]}".encode()).digest()
