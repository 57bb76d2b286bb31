"""Which lanes a claim reads next, and from where: tenants in turn, and no walk over what was claimed long ago.

A lane is (definition, tenant). Both classes are mere memory: losing it costs a look, never a job.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby
from statistics import median

# So many tenants are looked for at once. Each takes a probe for each definition, so with many of those it is fewer.
PIECE, SMALLEST_PIECE = 128, 8
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


@dataclass(frozen=True, slots=True)
class Way:
    """Where to look: behind a tenant, from the end on at the beginning if not `around` yet, then up to `until`."""

    after: str = ""
    until: str | None = None
    around: bool = True


class Tour:
    """Tenants in turn: whose was the last, and what a worker knows of those who come next.

    Mostly it remembers nothing but the one who was last: each claim finds the next tenants by itself. Where that has
    become slow, tenants are read in pieces at most 5 % of the time, and kept here; one that gave less than its share
    has nothing more for now and drops out until it is found again.
    """

    def __init__(self) -> None:
        self.whole = True
        self.next_due: timedelta | None = None
        self.behind = False
        self._last = ""
        self._goes_on: Way | None = None
        self._to_come: deque[Sequence[Lane]] = deque()
        self._had_a_turn: list[Sequence[Lane]] = []
        self._next_look = float("-inf")

    @property
    def exhausted(self) -> bool:
        return not self._to_come and not self._had_a_turn

    @property
    def way(self) -> Way:
        if self._goes_on is not None:
            return self._goes_on
        return Way(self._last, self._last, around=False) if self._last else Way()

    def piece(self, definitions: int, limit: int) -> int:
        """How many tenants to look for at once: no more than there is room for, unless those before had nothing."""
        most = max(SMALLEST_PIECE, PIECE // max(1, definitions))
        return most if self._goes_on or not limit else min(most, max(limit, SMALLEST_PIECE))

    def went(self, way: Way, *, last: str | None, full: bool, around: bool, idle: bool) -> None:
        """How far: `full`, there may be tenants behind the last one; `idle`, none of these had anything to claim.

        Only who has come round idle, however many pieces it took, knows that there is nothing to claim.
        """
        self.whole = not full
        self._goes_on = Way(last or "", way.until, around) if full and idle else None

    def had_turns_up_to(self, tenant: str) -> None:
        self._last = tenant

    def may_look(self, now: float) -> bool:
        return now >= self._next_look

    def looked(self, lanes: Sequence[Lane], *, began: float, ended: float) -> None:
        """These come next, in this order."""
        self._next_look = ended + (ended - began) * (1 / SHARE_OF_TIME - 1)
        self._to_come = deque(tuple(group) for _, group in groupby(lanes, key=lambda lane: lane.tenant))
        self._had_a_turn = []

    def take(self, most: int) -> list[Sequence[Lane]]:
        """The next tenants, at most `most`, each with all of its lanes."""
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


class Marks:
    """How far each lane was claimed, by priority, so that a claim need not walk over entries that are dead but kept.

    They are kept as long as somebody holds an old snapshot; without marks a claim then slows down with every job
    (2.8 → 21.7 ms after 160k). A marked claim may miss what came in below a mark: a job that committed late, or was
    given back, when others of its priority were claimed that came after it. So claims are full ones unless those have
    become slow, and even then as often as fits into 5 % of the time. What is slow is found out by trial: a few claims
    by marks, at the same time on the same machine, whose mood would otherwise be taken for dead entries.
    """

    MANY_LANES = 10_000
    MANY_CLAIMED = 5_000
    SLOW = 1.5
    TRIAL = 3
    FAST_IN_A_ROW = 2
    FULL_BETWEEN_TRIALS = 25

    def __init__(self) -> None:
        self._seqs: dict[tuple[str, str], dict[int, int]] = {}
        self._count = 0
        self._full: deque[float] = deque(maxlen=5)
        self._marked: deque[float] = deque(maxlen=self.TRIAL)
        self._usual: float | None = None
        self._fulls_until_trial = 0
        self._trials_left = 0
        self.slow = False
        self._fast_in_a_row = 0
        self._full_allowed_from = float("-inf")

    def full_claim_is_due(self, now: float) -> bool:
        return not self._trials_left and now >= self._full_allowed_from

    def stretches(self, lanes: Iterable[Lane], *, full: bool) -> list[Stretch]:
        stretches: list[Stretch] = []
        for lane in lanes:
            marks = {} if full else self._seqs.get((lane.definition, lane.tenant), {})
            begins = sorted(({LOWEST: -1} | marks).items())
            ends = [*(priority - 1 for priority, _ in begins[1:]), HIGHEST]
            stretches += [Stretch(lane, *begin, end) for begin, end in zip(begins, ends, strict=True)]
        return stretches

    def claimed(self, positions: Iterable[tuple[str, str, int, int]]) -> None:
        """(definition, tenant, priority, seq) of what was claimed, in order. A mark may go down again."""
        if len(self._seqs) > self.MANY_LANES:
            self._seqs.clear()
        for definition, tenant, priority, seq in positions:
            self._seqs.setdefault((definition, tenant), {})[priority] = seq
            self._count += 1

    def full_claim_took(self, seconds: float, *, touched: int, now: float) -> None:
        """Compared by each job and tenant touched, so it has to be a claim that brought all it was to bring."""
        self._fulls_until_trial -= 1
        self._full.append(seconds / touched)
        if self.slow:
            self._judge(self._full[-1], touched, now)
        elif len(self._full) == self._full.maxlen:
            lately = median(self._full)
            self._usual = min(lately, self._usual or lately)
            # Fewer dead entries than that can't be what makes it slow.
            suspicious = lately > self.SLOW * self._usual and self._count >= self.MANY_CLAIMED
            if suspicious and self._fulls_until_trial <= 0:
                self._trials_left = self.TRIAL
                self._marked.clear()

    def marked_claim_took(self, seconds: float, *, touched: int, now: float) -> None:
        self._marked.append(seconds / touched)
        if self._trials_left:
            self._trials_left -= 1
            if not self._trials_left:
                self._judge(median(self._full), touched, now)

    def fell_short(self) -> None:
        """A claim by marks that did not bring all it was to bring: there is hardly work, and nothing to compare."""
        if self._trials_left:
            self._trials_left = 0
            self._begin_anew()

    def _begin_anew(self) -> None:
        self.slow, self._usual, self._fulls_until_trial = False, None, self.FULL_BETWEEN_TRIALS
        self._full.clear()

    def _judge(self, full: float, touched: int, now: float) -> None:
        excess = (full - self.SLOW * median(self._marked)) * touched
        if excess > 0:
            self.slow, self._fast_in_a_row = True, 0
            self._full_allowed_from = now + excess * (1 / SHARE_OF_TIME - 1)
            return
        self._full_allowed_from = now
        self._fast_in_a_row += 1
        if not self.slow or self._fast_in_a_row == self.FAST_IN_A_ROW:
            self._begin_anew()
