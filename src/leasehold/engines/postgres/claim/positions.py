"""Where in a lane a claim begins to read, so that it does not walk over rows that were claimed long ago.

A lane is (definition, tenant). These classes are memory only: losing it costs a look, never a job.
"""

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import repeat
from statistics import median
from typing import Any, NamedTuple

LOWEST, HIGHEST = -(2**15), 2**15 - 1
SHARE_OF_TIME = 0.05
# Greater than the id of any tenant, which has at most 100 characters.
BEHIND_ALL_TENANTS = "\U0010ffff" * 101


@dataclass(frozen=True, slots=True)
class Lane:
    definition: str
    tenant: str
    capped: bool


@dataclass(frozen=True, slots=True)
class LaneRange:
    """A part of a lane: after (priority, seq), up to a priority."""

    lane: Lane
    from_priority: int = LOWEST
    from_seq: int = -1
    to_priority: int = HIGHEST


class Gap(NamedTuple):
    """All lanes of a definition between two tenants, without theirs."""

    definition: str
    after: str = ""
    before: str = BEHIND_ALL_TENANTS


class ReadyRanges(NamedTuple):
    """Parts of the ready jobs of some definitions: gaps, and the lanes between them."""

    gaps: Sequence[Gap]
    lanes: Sequence[LaneRange] = ()

    def columns(self) -> dict[str, Sequence[Any]]:
        return {
            "gap_definitions": [gap.definition for gap in self.gaps],
            "gaps_after": [gap.after for gap in self.gaps],
            "gaps_before": [gap.before for gap in self.gaps],
            "lane_definitions": [each.lane.definition for each in self.lanes],
            "lane_tenants": [each.lane.tenant for each in self.lanes],
            "from_priorities": [each.from_priority for each in self.lanes],
            "from_seqs": [each.from_seq for each in self.lanes],
            "to_priorities": [each.to_priority for each in self.lanes],
        }


class ClaimPositions:
    """Remembers how far each lane was claimed, by priority, so that a claim does not walk over dead index entries.

    They stay as long as a session holds an old snapshot; without positions a claim then slows down with every job
    (2.8 → 21.7 ms after 160k). A claim by positions may miss jobs that came in below one: a job that committed late,
    or was given back, after younger jobs of its priority were claimed. So claims are full unless those have become
    slow, and even then as often as fits into 5 % of the time. A trial finds out whether they are slow: a few claims
    by positions, at the same time on the same machine, whose load would otherwise be taken for dead entries.
    """

    MANY_LANES = 10_000
    MANY_CLAIMED = 5_000
    SLOW = 1.5
    TRIAL = 3
    FAST_IN_A_ROW = 2
    FULL_BETWEEN_TRIALS = 25
    # A claim of a worker with little to do reads at most so many lanes from their positions on.
    MOST_LANES_LEFT_OUT = 128
    # Such a claim reads the latest entries before a position again: jobs that producers committed out of order.
    READ_AGAIN = 200

    def __init__(self) -> None:
        self._seqs: dict[tuple[str, str], dict[int, int]] = {}
        self._claimed: Counter[tuple[str, str]] = Counter()
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

    def ranges(self, lanes: Iterable[Lane], *, full: bool) -> list[LaneRange]:
        ranges: list[LaneRange] = []
        for lane in lanes:
            marks = {} if full else self._seqs.get((lane.definition, lane.tenant), {})
            begins = sorted(({LOWEST: -1} | marks).items())
            ends = [*(priority - 1 for priority, _ in begins[1:]), HIGHEST]
            ranges += [LaneRange(lane, *begin, end) for begin, end in zip(begins, ends, strict=True)]
        return ranges

    def note_claims(self, positions: Sequence[tuple[str, str, int, int]]) -> None:
        """Notes (definition, tenant, priority, seq) of claimed jobs, in order. A position may go down again."""
        if len(self._seqs) > self.MANY_LANES:
            self._seqs.clear()
            self._claimed.clear()
        self._count += len(positions)
        self._claimed.update([(definition, tenant) for definition, tenant, _, _ in positions])
        latest = {(definition, tenant, priority): seq for definition, tenant, priority, seq in positions}
        for (definition, tenant, priority), seq in latest.items():
            self._seqs.setdefault((definition, tenant), {})[priority] = seq

    def note_all_claimed(self, definitions: Iterable[str], seq: int) -> None:
        """Notes that none of these definitions had a ready job up to this number, whichever worker claimed them."""
        served = frozenset(definitions)
        for (definition, _), marks in self._seqs.items():
            if definition in served:
                marks |= {priority: max(mark, seq) for priority, mark in marks.items()}

    def ready_ranges(self, definitions: Iterable[str], *, full: bool) -> ReadyRanges:
        """Returns ranges that together are all lanes of the definitions, or all but what was claimed long ago."""
        if full:
            return ReadyRanges(list(map(Gap, definitions)))
        most = [lane for lane, _ in self._claimed.most_common(self.MOST_LANES_LEFT_OUT)]
        gaps: list[Gap] = []
        lanes: list[Lane] = []
        for definition in definitions:
            tenants = sorted(tenant for key, tenant in most if key == definition)
            gaps += map(Gap, repeat(definition), ["", *tenants], [*tenants, BEHIND_ALL_TENANTS])
            lanes += [Lane(definition, tenant, capped=False) for tenant in tenants]
        ranges = self.ranges(lanes, full=False)
        return ReadyRanges(
            gaps, [replace(each, from_seq=max(-1, each.from_seq - self.READ_AGAIN)) for each in ranges]
        )

    def note_full_claim(self, seconds: float, *, touched: int, now: float) -> None:
        """Notes the time of a full claim, compared by each job and tenant touched. Only for claims that filled their
        limit.
        """
        self._fulls_until_trial -= 1
        self._full.append(seconds / touched)
        if self.slow:
            self._judge(self._full[-1], touched, now)
        elif len(self._full) == self._full.maxlen:
            lately = median(self._full)
            self._usual = min(lately, self._usual or lately)
            # Fewer dead entries than that can't make a claim slow.
            suspicious = lately > self.SLOW * self._usual and self._count >= self.MANY_CLAIMED
            if suspicious and self._fulls_until_trial <= 0:
                self._trials_left = self.TRIAL
                self._marked.clear()

    def note_positioned_claim(self, seconds: float, *, touched: int, now: float) -> None:
        self._marked.append(seconds / touched)
        if self._trials_left:
            self._trials_left -= 1
            if not self._trials_left:
                self._judge(median(self._full), touched, now)

    def note_shortfall(self) -> None:
        """Ends a trial: a claim by positions did not fill its limit, so there is nothing to compare."""
        if self._trials_left:
            self._trials_left = 0
            self._reset()

    def _reset(self) -> None:
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
            self._reset()


class DueMark:
    """Remembers the due time up to which all jobs were promoted, so that a claim does not walk over dead entries
    below it.

    Entries of promoted jobs stay while a session holds an old snapshot: claims of delayed jobs became four times as
    slow over 100,000 of them. A job below the mark can still appear, when a transaction commits late or a pause ends.
    So looks are full unless that takes long and dead rows explain it; then as often as fits into 5 % of the time, and
    at least once a second.
    """

    CHEAP = 0.002
    MANY_DEAD_ROWS = 5_000
    LONGEST = 1.0

    def __init__(self) -> None:
        self._promoted_to: datetime | None = None
        self._full_look_from = float("-inf")

    def begin(self, now: float) -> datetime | None:
        """Returns where the next look begins; None: at the first job that is not promoted."""
        return None if now >= self._full_look_from else self._promoted_to

    def note_look(
        self, since: datetime | None, at: datetime, seconds: float, now: float, *, dead_rows: int, behind: bool
    ) -> None:
        if since is None:
            excess = max(0.0, seconds - self.CHEAP) if dead_rows >= self.MANY_DEAD_ROWS else 0.0
            pause = excess * (1 / SHARE_OF_TIME - 1)
            self._full_look_from = now + min(pause, self.LONGEST)
        if not behind:
            self._promoted_to = at


class FewJobs:
    """Decides whether a claim first asks for a few jobs: a small statement, for a worker that has little to do.

    It is a good guess after a claim that left nothing. Where the guess is wrong, as for jobs under a cap, the worker
    does not guess again for a second, and after each further wrong guess for twice as long, up to a minute.
    """

    MOST = 16
    PAUSE, LONGEST_PAUSE = 1.0, 60.0

    def __init__(self) -> None:
        self._likely = False
        self._pause = self.PAUSE
        self._not_before = float("-inf")

    def likely(self, now: float, *, after_a_wrong_guess: bool = False) -> bool:
        return self._likely and (after_a_wrong_guess or now >= self._not_before)

    def note_claims(self, *, more: bool) -> None:
        self._likely = not more

    def note_right_guess(self) -> None:
        self._pause = self.PAUSE

    def note_wrong_guess(self, now: float) -> None:
        self._likely, self._not_before = False, now + self._pause
        self._pause = min(2 * self._pause, self.LONGEST_PAUSE)


class FullLooks:
    """Decides whether a worker with little to do reads all ready entries, or leaves out what was claimed long ago.

    Entries of claimed jobs stay while a session holds an old snapshot: a claim that found nothing became ten times as
    slow over 100,000 of them. A job can still appear among those: one that was given back, or whose transaction
    committed late. So looks are full unless that takes long and dead rows explain it; then as often as fits into 5 %
    of the time, and at least once a second.

    The look before a sleep is the full one, if one is due: it alone shows that no job was missed. A worker that goes
    to sleep without it has to come back for it. Other claims are full only if no sleep was near for twice as long.
    """

    CHEAP = 0.002
    MANY_DEAD_ROWS = 5_000
    LONGEST = 1.0

    def __init__(self) -> None:
        self._looked_at = float("-inf")
        self._pause = 0.0
        self._last_seq: int | None = None
        self.was_full = True
        self.before_sleep = False
        self.suspected = False

    @property
    def slow(self) -> bool:
        return self._pause > 0

    def note_turns(self, seconds: float, *, found: bool) -> None:
        """Notes a claim of tenants in turn: one that took long to find nothing may have read dead entries."""
        self.was_full = True
        self.suspected = not found and seconds > self.CHEAP

    def begin(self, now: float) -> bool:
        """Returns whether the next look is full."""
        pause = self._pause if self.before_sleep else 2 * self._pause
        self.was_full = now >= self._looked_at + pause
        return self.was_full

    def note_look(self, seconds: float, *, dead_rows: int, last_seq: int | None, now: float) -> int | None:
        """Returns the latest number that was drawn before this look; None if that is not known."""
        before, self._last_seq = self._last_seq, last_seq
        if self.was_full:
            self.suspected = False
            pause = max(0.0, seconds - self.CHEAP) * (1 / SHARE_OF_TIME - 1)
            self._looked_at = now
            self._pause = min(pause, self.LONGEST) if dead_rows >= self.MANY_DEAD_ROWS else 0.0
        return before

    def time_to_full_look(self, now: float) -> timedelta | None:
        """Returns when a full look is due; None if the latest look was full."""
        return None if self.was_full else timedelta(seconds=max(0.0, self._looked_at + self._pause - now))


class HeartbeatLooks:
    """Decides how far the heartbeats of one registration look: at all running and future jobs, or at few.

    Entries of jobs that ended or came due stay while a session holds an old snapshot: a heartbeat that read all of
    them became twelve times as slow over 100,000 jobs. So heartbeats are thorough unless that takes long and dead
    rows explain it; then in a thousandth of the time, and at least once a minute. Others read future jobs from the
    last heartbeat on at which none was overdue, and look for claims without a live worker only if they evicted one.
    """

    CHEAP = 0.005
    MANY_DEAD_ROWS = 5_000
    SHARE_OF_TIME = 0.001
    LONGEST = 60.0

    def __init__(self) -> None:
        self._thorough_from = float("-inf")
        self._none_overdue_at: datetime | None = None

    def begin(self, now: float) -> tuple[bool, datetime | None]:
        """Returns whether the next heartbeat is thorough, and the first due time that it reads; None: all."""
        thorough = now >= self._thorough_from
        return thorough, None if thorough else self._none_overdue_at

    def note_thorough_look(self, seconds: float, *, dead_rows: int, now: float) -> None:
        if dead_rows >= self.MANY_DEAD_ROWS:
            pause = max(0.0, seconds - self.CHEAP) / self.SHARE_OF_TIME
            self._thorough_from = now + min(pause, self.LONGEST)

    def note_none_overdue(self, at: datetime) -> None:
        self._none_overdue_at = at
