"""Which tenants a claim reads next: all in turn. The rotation is memory only: losing it costs a look, never a job."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby

from asyncpg import Record

from leasehold.engines.postgres.claim.positions import SHARE_OF_TIME, DueMark, FewJobs, FullLooks, Lane

# Tenants that one look finds at most; fewer with many definitions, since each tenant takes a probe for each of them.
PIECE, SMALLEST_PIECE = 128, 8


@dataclass(frozen=True, slots=True)
class ScanRange:
    """A range of tenants: behind `after`, then from the beginning if not `around` yet, up to `until`."""

    after: str = ""
    until: str | None = None
    around: bool = True


class TenantRotation:
    """Takes tenants in turn: remembers the last one, and lanes of the next ones where finding them is slow.

    Mostly it remembers only the last tenant: each claim finds the next tenants by itself. If that has become slow,
    tenants are read in pieces at most 5 % of the time, and remembered here; a tenant that gave less than its share
    has no more jobs for now and drops out until it is found again.
    """

    def __init__(self) -> None:
        self.whole = True
        self.next_due: timedelta | None = None
        self.behind = False
        self.due_mark = DueMark()
        self.few = FewJobs()
        self.full_looks = FullLooks()
        self._last = ""
        self._goes_on: ScanRange | None = None
        self._to_come: deque[Sequence[Lane]] = deque()
        self._had_a_turn: list[Sequence[Lane]] = []
        self._next_look = float("-inf")

    @property
    def exhausted(self) -> bool:
        return not self._to_come and not self._had_a_turn

    @property
    def way(self) -> ScanRange:
        if self._goes_on is not None:
            return self._goes_on
        return ScanRange(self._last, self._last, around=False) if self._last else ScanRange()

    def piece(self, definitions: int, limit: int) -> int:
        """Returns how many tenants to look for at once: no more than there is room for, unless those before had no
        jobs.
        """
        most = max(SMALLEST_PIECE, PIECE // max(1, definitions))
        return most if self._goes_on or not limit else min(most, max(limit, SMALLEST_PIECE))

    def note_range(self, way: ScanRange, *, last: str | None, full: bool, around: bool, idle: bool) -> None:
        """Notes a look: `full`, there may be tenants behind the last one; `idle`, none of these had a job to claim.

        Only a rotation that has come round idle, in however many pieces, shows that there is nothing to claim.
        """
        self.whole = not full
        self._goes_on = ScanRange(last or "", way.until, around) if full and idle else None

    def note_due_look(self, facts: Record, due_from: datetime | None, now: float) -> None:
        self.next_due = facts["next_due"]
        self.behind = self.next_due is not None and self.next_due <= timedelta()
        self.due_mark.note_look(
            due_from, facts["looked_at"], facts["seconds"], now, dead_rows=facts["dead_rows"], behind=self.behind
        )

    def note_turns(self, tenant: str) -> None:
        self._last = tenant

    def may_look(self, now: float) -> bool:
        return now >= self._next_look

    def note_look(self, lanes: Sequence[Lane], *, began: float, ended: float) -> None:
        """Takes these lanes as the next ones, in this order."""
        self._next_look = ended + (ended - began) * (1 / SHARE_OF_TIME - 1)
        self._to_come = deque(tuple(group) for _, group in groupby(lanes, key=lambda lane: lane.tenant))
        self._had_a_turn = []

    def take(self, most: int) -> list[Sequence[Lane]]:
        """Returns the next tenants, at most `most`, each with all of its lanes."""
        if not self._to_come:
            self._to_come, self._had_a_turn = deque(self._had_a_turn), []
        taken: list[Sequence[Lane]] = []
        while self._to_come and len(taken) < most:
            taken.append(self._to_come.popleft())
            self._last = taken[-1][0].tenant
        return taken

    def keep(self, tenants: Iterable[Sequence[Lane]]) -> None:
        self._had_a_turn.extend(tenants)

    def forget(self) -> None:
        self._to_come, self._had_a_turn = deque(), []
