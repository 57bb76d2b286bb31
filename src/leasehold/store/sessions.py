"""Sessions of browsers, by the hashes of their secrets."""

from typing import Protocol

from leasehold.model.session import NewSession, SessionRecord


class Sessions(Protocol):
    """Sessions and one-time links of all tokens. Only the engine's clock judges whether one has expired."""

    async def add(self, session: NewSession) -> None:
        """Saves a session, whose life begins now. Removes some of those that have expired."""

    async def get(self, secret_hash: bytes) -> SessionRecord | None:
        """Returns a session; None if it has expired, was removed, or never was."""

    async def take(self, secret_hash: bytes) -> SessionRecord | None:
        """Removes a session and returns it; of several calls at once, one gets it. None as in `get`."""
