"""A caller's transaction, as a tenant's door holds it: the right verb for it, and a warning where it is none."""

import sys
import warnings
from dataclasses import dataclass

from leasehold.errors import InvalidInput, NotInTransaction
from leasehold.store import Caller

_AUTOCOMMIT = (
    "LH-1020: within(…) got %s in autocommit: the job is committed by itself, and runs even if your next statement "
    "fails. Write both in a transaction, %s, or say within(…, atomic=False)."
)


@dataclass(frozen=True, slots=True)
class Within:
    caller: Caller
    atomic: bool
    wakes: bool = True

    def require_blocking(self, verb: str) -> None:
        if not self.caller.blocking:
            raise InvalidInput(
                f"within(…) got {self.caller.described}, which is awaited, and {verb}(…) blocks. "
                "Nothing was enqueued.",
                fix=f"Await its twin: await ….a{verb}(…)",
            )
        if self.atomic and self.caller.commits_at_once():
            self._warn()

    async def require_awaited(self, verb: str) -> None:
        if self.caller.blocking:
            raise InvalidInput(
                f"within(…) got {self.caller.described}, which blocks, and {verb}(…) is awaited. "
                "Nothing was enqueued.",
                fix=f"Call its twin: ….{verb[1:]}(…)",
            )
        if self.atomic and await self.caller.acommits_at_once():
            self._warn()

    def _warn(self) -> None:
        said = _AUTOCOMMIT % (self.caller.described, self.caller.begin)
        warnings.warn(said, NotInTransaction, stacklevel=frames_of_ours())


def frames_of_ours() -> int:
    """How far up the caller's own code is: the warning is about that line."""
    depth, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("leasehold."):
        depth, frame = depth + 1, frame.f_back
    return depth
