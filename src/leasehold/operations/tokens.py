"""Everything that can be done with API tokens: create, list, rotate, revoke, and recognise their bearer."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from time import monotonic
from typing import Any

from leasehold.errors import InvalidInput, NotAuthenticated, UnknownToken, WrongState
from leasehold.model.access import Permission, Principal, Role
from leasehold.model.audit import Actor
from leasehold.model.duration import span
from leasehold.model.job import TenantId
from leasehold.model.token import (
    DEFAULT_LIFE,
    DEFAULT_OVERLAP,
    LONGEST_LIFE,
    NewToken,
    TokenId,
    TokenRecord,
    TokenText,
    new_token,
    read_token,
)
from leasehold.operations.audit import audited
from leasehold.store import Store, TokenStore

# How long a process trusts what it has read: a token that was revoked is refused everywhere after that.
FRESH = 5.0
MOST_REMEMBERED = 10_000
# A use is noted at most so often, so that requests cost no write.
USE_NOTED = timedelta(minutes=5)


async def create(
    store: Store,
    name: str,
    role: Role,
    *,
    tenant: TenantId | None = None,
    permissions: frozenset[Permission] | None = None,
    definitions: tuple[str, ...] | None = None,
    life: timedelta = DEFAULT_LIFE,
    created_by: str | None = None,
    actor: Actor | None = None,
) -> tuple[TokenRecord, TokenText]:
    """Saves a new token. Its text is returned once, and kept nowhere. With an actor, here and below, the audit log
    names who did it.
    """
    text = new_token()
    wanted = NewToken(
        id=text.id,
        hash=text.hash,
        name=name,
        role=role,
        tenant=tenant,
        permissions=permissions,
        definitions=definitions,
        life=life,
        created_by=created_by,
    )

    def add() -> Awaitable[TokenRecord]:
        return store.tokens.add(wanted)

    return await audited(
        store, actor, "token.create", f"token {text.id}", add, shows=as_document, tenant=tenant
    ), text


async def get(store: TokenStore, token: TokenId) -> TokenRecord:
    """Returns a token by its public id. Raises UnknownToken."""
    found = await store.tokens.get(token)
    if found is None:
        raise UnknownToken(
            f"no token has the public id {token}. Nothing was changed.", fix="Look for it: leasehold token list"
        )
    return found


async def list_all(
    store: TokenStore, limit: int, after: TokenId | None = None, tenant: TenantId | None = None
) -> Sequence[TokenRecord]:
    return await store.tokens.list(limit, after, tenant)


async def rotate(
    store: Store,
    token: TokenId,
    *,
    life: timedelta = DEFAULT_LIFE,
    overlap: timedelta = DEFAULT_OVERLAP,
    actor: Actor | None = None,
) -> tuple[TokenRecord, TokenText]:
    """Gives a token a new secret; the secret before stays valid for `overlap`. Raises UnknownToken, WrongState."""
    if not timedelta() <= overlap <= LONGEST_LIFE or not timedelta() < life <= LONGEST_LIFE:
        raise InvalidInput(
            f"a life of {span(life)} with an overlap of {span(overlap)} can't be given.",
            fix=f"Nothing was changed. Both are at most {LONGEST_LIFE.days}d.",
        )
    before, text = await get(store, token), new_token(token)

    async def rotate() -> TokenRecord:
        rotated = await store.tokens.rotate(token, text.hash, life, overlap)
        if rotated is None:
            raise WrongState(
                f"the token {token} can't be rotated: it is {before.state}, or was changed at the same moment. "
                "Nothing was changed.",
                fix="Look at it: leasehold token list; or make a new one: leasehold token create",
            )
        return rotated

    return await _change(store, before, "rotate", rotate, actor), text


async def revoke(store: Store, token: TokenId, actor: Actor | None = None) -> TokenRecord:
    """Ends a token; every process refuses it after 5 s at the latest. Raises UnknownToken."""

    async def revoke() -> TokenRecord:
        await store.tokens.revoke(token)
        return await get(store, token)

    return await _change(store, await get(store, token), "revoke", revoke, actor)


async def _change(
    store: Store, before: TokenRecord, verb: str, change: Callable[[], Awaitable[TokenRecord]], actor: Actor | None
) -> TokenRecord:
    async def read() -> dict[str, Any]:
        return as_document(before)

    subject = f"token {before.id}"
    return await audited(
        store, actor, f"token.{verb}", subject, change, read=read, shows=as_document, tenant=before.tenant
    )


def as_document(record: TokenRecord) -> dict[str, Any]:
    """Returns a token as JSON, without any hash."""
    return {
        "id": record.id,
        "name": record.name,
        "role": record.role.value,
        "tenant": record.tenant,
        "permissions": None if record.permissions is None else sorted(record.permissions),
        "definitions": record.definitions,
        "state": record.state,
        "created_by": record.created_by,
        "created_at": record.created_at,
        "expires_at": record.expires_at,
        "overlap_until": record.overlap_until,
        "revoked_at": record.revoked_at,
        "last_used_at": record.last_used_at,
    }


class TokenCheck:
    """Recognises the bearers of tokens. Trusts for 5 s what it has read, also that a token does not exist."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._known: OrderedDict[TokenId, tuple[float, TokenRecord | None]] = OrderedDict()

    def known(self, text: str, fresh: float = FRESH) -> Principal | None:
        """Returns the principal of a token that was read so many seconds ago at most; None if it has to be read.

        Raises NotAuthenticated.
        """
        token = _parsed(text)
        read_at, record = self._known.get(token.id, (float("-inf"), None))
        return None if self._clock() - read_at > fresh else _accept(record, token)

    async def read(self, store: TokenStore, text: str) -> Principal:
        """Returns the principal of a token, by a look into the database. Raises NotAuthenticated."""
        token, read_at = _parsed(text), self._clock()
        record = await store.tokens.get(token.id)
        self._remember(token.id, read_at, record)
        principal = _accept(record, token)
        if record is not None and _is_unnoted(record.last_used_at):
            await store.tokens.note_use(token.id)
        return principal

    def _remember(self, token: TokenId, read_at: float, record: TokenRecord | None) -> None:
        self._known[token] = read_at, record
        self._known.move_to_end(token)
        while len(self._known) > MOST_REMEMBERED:
            self._known.popitem(last=False)


def _parsed(text: str) -> TokenText:
    token = read_token(text)
    if token is None:
        raise refused()
    return token


def _accept(record: TokenRecord | None, token: TokenText) -> Principal:
    """Raises the same error for a token that does not exist, has expired, was revoked, or has another secret."""
    if record is None or not record.accepts(token):
        raise refused()
    return record.principal()


def refused() -> NotAuthenticated:
    return NotAuthenticated(
        "the token is not valid: it does not exist, has expired, or was revoked. Nothing was done.",
        fix="Send a valid one: Authorization: Bearer lh_…; leasehold token create makes one.",
    )


def _is_unnoted(last_used_at: datetime | None) -> bool:
    return last_used_at is None or datetime.now(last_used_at.tzinfo) - last_used_at > USE_NOTED
