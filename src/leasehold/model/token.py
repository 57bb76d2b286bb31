"""API tokens: their text, their hash, and their record.

The text of a token is `lh_<public id>_<secret><checksum>`, in lower-case letters and digits, so that scanners for
leaked secrets find it. The secret is 32 random bytes: nothing can be gained by trying, and so SHA-256 is enough to
store it. The checksum refuses mistyped tokens without a look into the database.
"""

import re
from base64 import b32encode
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from hmac import compare_digest
from secrets import token_bytes
from typing import NewType

from leasehold.errors import InvalidInput
from leasehold.model.access import Permission, Principal, Role, read_permissions, require_bound
from leasehold.model.bounds import problems_of_duration, problems_of_text
from leasehold.model.definition import MAX_KEY
from leasehold.model.job import TenantId

TokenId = NewType("TokenId", str)
"""The public part of a token. It may be shown and logged."""

PREFIX = "lh_"
DEFAULT_LIFE = timedelta(days=90)
LONGEST_LIFE = timedelta(days=366)
DEFAULT_OVERLAP = timedelta(days=1)
MOST_DEFINITIONS = 100
_SECRET_BYTES = 32
_CHECKSUM = 6
_TEXT = re.compile(r"lh_([a-z2-7]{12})_([a-z2-7]{52})([a-z2-7]{6})")


@dataclass(frozen=True, slots=True, repr=False)
class TokenText:
    """A token as its owner has it. It is shown once, and kept nowhere."""

    id: TokenId
    secret: str

    def __str__(self) -> str:
        return f"{PREFIX}{self.id}_{self.secret}{_checksum(self.id, self.secret)}"

    def __repr__(self) -> str:
        return f"TokenText({self.id})"

    @property
    def hash(self) -> bytes:
        return sha256(f"{self.id}_{self.secret}".encode()).digest()


def new_token(token: TokenId | None = None) -> TokenText:
    """Makes a token with a new secret; under a new public id, unless one is given."""
    return TokenText(
        TokenId(_text(token_bytes(8))[:12]) if token is None else token, _text(token_bytes(_SECRET_BYTES))
    )


def read_token(text: str) -> TokenText | None:
    """Returns the parts of a token; None for a text that is not a token, or was mistyped."""
    found = _TEXT.fullmatch(text)
    if found is None:
        return None
    public, secret, checksum = found.groups()
    if not compare_digest(checksum, _checksum(public, secret)):
        return None
    return TokenText(TokenId(public), secret)


def token_id(text: str) -> TokenId:
    """Returns the public id of a token; accepts `lh_` in front of it. Raises InvalidInput."""
    public = text.strip().removeprefix(PREFIX)
    if not re.fullmatch(r"[a-z2-7]{12}", public):
        raise InvalidInput(
            f"{public[:12]!r} is not the public id of a token.",
            fix="Nothing was changed. Copy it from: leasehold token list",
        )
    return TokenId(public)


def _text(value: bytes) -> str:
    return b32encode(value).decode().rstrip("=").lower()


def _checksum(public: str, secret: str) -> str:
    return _text(sha256(f"checksum:{public}_{secret}".encode()).digest())[:_CHECKSUM]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToken:
    """A token to save. `permissions` None stands for those of the role, also of later releases.

    `tenant` None makes a token for all tenants; `definitions` None, for a worker, one for all definitions.
    """

    id: TokenId
    hash: bytes
    name: str
    role: Role
    tenant: TenantId | None = None
    permissions: frozenset[Permission] | None = None
    definitions: tuple[str, ...] | None = None
    life: timedelta = DEFAULT_LIFE
    created_by: str | None = None

    def __post_init__(self) -> None:
        require_bound(self.role, self.tenant)
        if self.permissions is not None:
            object.__setattr__(self, "permissions", read_permissions(self.role, self.permissions))
        if problems := list(self._problems()):
            raise InvalidInput(
                f"The token can't be made: {'; '.join(problems)}.", fix="Nothing was saved. Correct the values."
            )

    def _problems(self) -> Iterator[str]:
        if not self.name.strip():
            yield "its name is empty"
        yield from problems_of_text("name", self.name)
        if self.created_by is not None:
            yield from problems_of_text("created_by", self.created_by)
        yield from problems_of_duration("life", self.life, least=timedelta(seconds=1))
        if self.life > LONGEST_LIFE:
            yield f"it would live {self.life.days} days, at most {LONGEST_LIFE.days} are allowed"
        if self.definitions is None:
            return
        if self.role is not Role.WORKER:
            yield "definitions bind the tokens of workers only"
        if not 1 <= len(self.definitions) <= MOST_DEFINITIONS:
            yield f"it names {len(self.definitions)} definitions, and 1 to {MOST_DEFINITIONS} can be named"
        for each in self.definitions:
            yield from problems_of_text("definition", each)
            if not 1 <= len(each) <= MAX_KEY:
                yield f"the definition {each!r:.80} is not a key"


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """A token as it is stored. `hashes` has those of its live secrets: none once it has expired or was revoked.

    The engine's clock decided which are live. While a rotation overlaps there are two.
    """

    id: TokenId
    name: str
    role: Role
    tenant: TenantId | None
    permissions: frozenset[Permission] | None
    definitions: tuple[str, ...] | None
    hashes: tuple[bytes, ...]
    created_by: str | None
    created_at: datetime
    expires_at: datetime
    overlap_until: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None

    @property
    def state(self) -> str:
        """Returns live, expired or revoked."""
        if self.revoked_at is not None:
            return "revoked"
        return "live" if self.hashes else "expired"

    def accepts(self, text: TokenText) -> bool:
        """Returns whether this is one of its live secrets. Takes as long for a wrong one."""
        return sum(compare_digest(each, text.hash) for each in self.hashes) > 0

    def principal(self) -> Principal:
        return Principal(self.name, self.role, self.tenant, self.permissions, self.id, self.definitions)
