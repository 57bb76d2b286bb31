"""Which lanes a claim reads next, and from where: tenants in turn, and no walk over what was claimed long ago.

A lane is (definition, tenant). Both classes hold one worker's memory; losing it costs a look, never a job.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby

PIECE = 64
SHARE_OF_TIME = 0.05
LOWEST, HIGHEST = -(2**15), 2**15 - 1


@dataclass(frozen=True, slots=True)
class Lane:
    definition: str
    tenant: str
    capped: bool


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a lane: after (priority, seq), up to a priority."""

    lane: Lane
    from_priority: int = LOWEST
    from_seq: int = -1
    to_priority: int = HIGHEST


class Tour:
    """Tenants in turn, read from the database in pieces of 64 and at most 5 % of the time.

    A tenant that gave less than its share has nothing more for now and drops out until the next look.
    """

    def __init__(self) -> None:
        self.whole = True
        self.next_due: timedelta | None = None
        self._to_come: deque[Sequence[Lane]] = deque()
        self._had_a_turn: list[Sequence[Lane]] = []
        self._last_tenant = ""
        self._next_look = float("-inf")

    @property
    def exhausted(self) -> bool:
        return not self._to_come and not self._had_a_turn

    @property
    def look_after(self) -> str:
        """The tenant to look behind. While all fit in one piece, each look takes all and the turn is kept here."""
        return "" if self.whole else self._last_tenant

    def may_look(self, now: float) -> bool:
        return now >= self._next_look

    def looked(self, lanes: Iterable[Lane], *, whole: bool, began: float, ended: float) -> None:
        self.whole = whole
        self._next_look = ended + (ended - began) * (1 / SHARE_OF_TIME - 1)
        tenants = [tuple(group) for _, group in groupby(lanes, key=lambda lane: lane.tenant)]
        later = [lanes for lanes in tenants if lanes[0].tenant > self._last_tenant]
        self._to_come = deque(later + tenants[: len(tenants) - len(later)])
        self._had_a_turn = []

    def passed(self, tenant: str) -> None:
        """Nothing could be claimed up to this tenant; the next piece begins behind it."""
        self._last_tenant = tenant

    def take(self, most: int) -> list[Sequence[Lane]]:
        """The next tenants, at most `most`, each with all of its lanes."""
        if not self._to_come:
            self._to_come, self._had_a_turn = deque(self._had_a_turn), []
        taken: list[Sequence[Lane]] = []
        while self._to_come and len(taken) < most:
            taken.append(self._to_come.popleft())
            self._last_tenant = taken[-1][0].tenant
        return taken

    def keep(self, tenants: Iterable[Sequence[Lane]]) -> None:
        self._had_a_turn.extend(tenants)


class Marks:
    """How far each lane was claimed, by priority, so that a claim need not walk over entries that are dead but kept.

    They are kept as long as somebody holds an old snapshot; without marks a claim then slows down with every job
    (2.8 → 21.7 ms after 160k). A marked claim may miss what came in below a mark: a more urgent job, or one that
    committed late. So full claims go on as long as what they cost beyond a marked one stays under 5 % of the time;
    without an old snapshot they cost the same, and every claim is a full one.
    """

    MANY_LANES = 10_000
    REHEARSE_EVERY = 50

    def __init__(self) -> None:
        self._seqs: dict[tuple[str, str], dict[int, int]] = {}
        self._marked_cost = 0.0
        self._full_allowed_from = float("-inf")
        self._claims = 0

    def full_claim_is_due(self, now: float) -> bool:
        """Now and then a marked claim runs even so, to know what one costs."""
        self._claims += 1
        return now >= self._full_allowed_from and self._claims % self.REHEARSE_EVERY != 0

    def stretches(self, lanes: Iterable[Lane], *, full: bool) -> list[Stretch]:
        stretches: list[Stretch] = []
        for lane in lanes:
            marks = None if full else self._seqs.get((lane.definition, lane.tenant))
            if marks:
                stretches += (Stretch(lane, priority, seq, priority) for priority, seq in sorted(marks.items()))
            else:
                stretches.append(Stretch(lane))
        return stretches

    def claimed(self, positions: Iterable[tuple[str, str, int, int]]) -> None:
        """(definition, tenant, priority, seq) of what was claimed, in order. A mark may go down again."""
        if len(self._seqs) > self.MANY_LANES:
            self._seqs.clear()
        for definition, tenant, priority, seq in positions:
            self._seqs.setdefault((definition, tenant), {})[priority] = seq

    def took(self, *, full: bool, began: float, ended: float) -> None:
        cost = ended - began
        if not full:
            self._marked_cost = cost if not self._marked_cost else 0.8 * self._marked_cost + 0.2 * cost
        elif self._marked_cost:
            # Twice the cost is noise; what goes beyond is the walk over dead entries.
            excess = max(0.0, cost - 2 * self._marked_cost)
            self._full_allowed_from = ended + excess * (1 / SHARE_OF_TIME - 1)
