"""Signs people in to the console: by an API token, or by a one-time link; and recognises their browsers."""

from collections import OrderedDict
from collections.abc import Callable
from datetime import timedelta
from time import monotonic

from leasehold.errors import NotAuthenticated, NotPermitted
from leasehold.model.access import Permission, Principal
from leasehold.model.audit import Actor
from leasehold.model.session import LINK_LIFE, SESSION_LIFE, NewSession, SessionKind, hash_of, new_secret
from leasehold.model.token import TokenId
from leasehold.operations.audit import record
from leasehold.operations.tokens import FRESH, MOST_REMEMBERED, TokenCheck
from leasehold.store import Store


async def sign_in(store: Store, token: str, actor_request: str | None = None) -> str:
    """Begins a session with the rights of a token, and returns its secret.

    Raises NotAuthenticated, or NotPermitted for a token that may not read jobs.
    """
    principal = await TokenCheck().read(store, token)
    return await _begin(store, principal, actor_request)


async def make_link(store: Store, token: TokenId, life: timedelta = LINK_LIFE) -> str:
    """Makes the secret of a link that begins one session with the rights of a token."""
    secret = new_secret()
    await store.sessions.add(NewSession(hash_of(SessionKind.LINK, secret), SessionKind.LINK, token, life))
    return secret


async def redeem_link(store: Store, link: str, actor_request: str | None = None) -> str:
    """Uses a one-time link up, begins a session and returns its secret. Raises NotAuthenticated, NotPermitted."""
    found = await store.sessions.take(hash_of(SessionKind.LINK, link))
    principal = None if found is None else await _principal(store, found.token)
    if principal is None:
        raise NotAuthenticated(
            "this link can't be used: it was used before, has expired, or its token has ended. Nothing was done.",
            fix="Make another: leasehold console link; or sign in with a token.",
        )
    return await _begin(store, principal, actor_request)


async def sign_out(store: Store, secret: str) -> None:
    """Ends a session. One that has ended stays so."""
    await store.sessions.take(hash_of(SessionKind.SESSION, secret))


async def _begin(store: Store, principal: Principal, request: str | None) -> str:
    if not principal.may(Permission.JOBS_READ):
        raise NotPermitted(
            f"jobs:read is needed for the console, and this token, of the role {principal.role.value}, has it not. "
            "Nothing was done.",
            fix="Make one: leasehold token create NAME --role viewer --tenant TENANT",
        )
    secret, token = new_secret(), TokenId(principal.token or "")
    session = NewSession(hash_of(SessionKind.SESSION, secret), SessionKind.SESSION, token, SESSION_LIFE)
    await store.sessions.add(session)
    actor = Actor(principal.name, principal.token, request)
    await record(store, actor, "console.sign_in", f"token {token}", tenant=principal.tenant)
    return secret


async def _principal(store: Store, token: TokenId) -> Principal | None:
    found = await store.tokens.get(token)
    return None if found is None or not found.hashes else found.principal()


class SessionCheck:
    """Recognises browsers by the secrets of their sessions. Trusts for 5 s what it has read."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._known: OrderedDict[bytes, tuple[float, Principal]] = OrderedDict()

    def known(self, secret: str) -> Principal | None:
        """Returns the principal of a session that was read a moment ago; None if it has to be read."""
        read_at, principal = self._known.get(hash_of(SessionKind.SESSION, secret), (float("-inf"), None))
        return None if self._clock() - read_at > FRESH else principal

    async def read(self, store: Store, secret: str) -> Principal | None:
        """Returns the principal of a session; None if it has ended, or its token has."""
        key, read_at = hash_of(SessionKind.SESSION, secret), self._clock()
        found = await store.sessions.get(key)
        principal = None if found is None else await _principal(store, found.token)
        if principal is None:
            self._known.pop(key, None)
            return None
        self._known[key] = read_at, principal
        self._known.move_to_end(key)
        while len(self._known) > MOST_REMEMBERED:
            self._known.popitem(last=False)
        return principal

    def forget(self, secret: str) -> None:
        """Forgets a session that was signed out here."""
        self._known.pop(hash_of(SessionKind.SESSION, secret), None)
