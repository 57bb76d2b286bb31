"""Claims tenants in turn, mostly by one statement that finds and claims at once.

Two kinds of lanes take more. If a scope has a cap, its lock comes first, in a statement of its own. And if a session
holds an old snapshot and finding has become slow, lanes are remembered and read from positions on (positions.py).
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import count, groupby
from math import ceil
from operator import itemgetter
from random import randrange
from typing import Any

from asyncpg import Record

from leasehold.engines.postgres import rows
from leasehold.engines.postgres.claim.positions import (
    ClaimPositions,
    DueMark,
    FewJobs,
    FullLooks,
    Lane,
    LaneRange,
)
from leasehold.engines.postgres.claim.reader import ClaimReader
from leasehold.engines.postgres.claim.rotation import TenantRotation
from leasehold.engines.postgres.database import Database, Link
from leasehold.errors import RegistrationLost
from leasehold.model.job import WorkerId
from leasehold.store import Claimed, Registration

# Steps that one claim may take before it says "ask again": bounds the time of a claim among very many held lanes.
STEPS_PER_CLAIM = 8
PROMOTED_AT_ONCE = 500
# So many capped jobs are claimed before the scopes of the next claim learn again where their running jobs begin.
CAPPED_BETWEEN_ADVANCES = 1_000

# One for all stores of this process: a number that came twice under one worker id would make two claims equal. It
# begins anywhere, because a worker over HTTP claims through several server processes.
_batches = count(randrange(2**40))

Tenants = Sequence[Sequence[Lane]]


class Claiming:
    """Claims for the registrations of one store: keeps their link, their rotation over tenants, and their positions
    in lanes.
    """

    def __init__(
        self,
        database: Database,
        link: Link,
        reader: ClaimReader,
        monotonic: Callable[[], float],
    ) -> None:
        self._database = database
        self._link = link
        self._reader = reader
        self._monotonic = monotonic
        self._rotations: dict[WorkerId, TenantRotation] = {}
        self._positions = ClaimPositions()
        self._capped_since_advance = 0

    def forget(self, registration: Registration) -> None:
        self._rotations.pop(registration.worker, None)

    async def claim_before_sleep(self, registration: Registration, limit: int) -> Claimed:
        """Claims for a worker that is about to sleep, and must miss no job: reads all future and all ready jobs.

        If reading all ready jobs is slow and was done a moment ago, the answer's `next_due` is when to do it again.
        """
        rotation = self._rotations.setdefault(registration.worker, TenantRotation())
        rotation.due_mark = DueMark()
        looks = rotation.full_looks
        looks.before_sleep = looks.was_full = True
        try:
            claimed = await self.claim(registration, limit)
        finally:
            looks.before_sleep = False
        again = looks.time_to_full_look(self._monotonic())
        if claimed.claims or again is None:
            return claimed
        return replace(claimed, next_due=again if claimed.next_due is None else min(claimed.next_due, again))

    async def claim(self, registration: Registration, limit: int) -> Claimed:
        rotation = self._rotations.setdefault(registration.worker, TenantRotation())
        claimed = None
        if limit > 0 and self._are_few(registration, rotation):
            claimed = await self._claim_few(registration, rotation, limit)
        if claimed is None:
            began = self._monotonic()
            claimed = await self._claim_by_turns(registration, rotation, limit)
            rotation.full_looks.note_turns(self._monotonic() - began, found=bool(claimed.claims) or claimed.more)
        rotation.few.note_claims(more=claimed.more)
        return claimed

    def _are_few(self, registration: Registration, rotation: TenantRotation) -> bool:
        """Guesses no for named tenants, since others may have a backlog, and while full claims are slow.

        If claims that find nothing are slow, it guesses yes all the same: by positions a wrong guess costs little.
        """
        now, looks = self._monotonic(), rotation.full_looks
        cheap = looks.slow or looks.suspected
        return (
            registration.serves.tenants is None
            and rotation.few.likely(now, after_a_wrong_guess=cheap)
            and (cheap or self._positions.full_claim_is_due(now))
        )

    async def _claim_few(self, registration: Registration, rotation: TenantRotation, limit: int) -> Claimed | None:
        """Claims all ready jobs, if they are few. None: tenants have to take turns, or some job is held."""
        due_from = rotation.due_mark.begin(self._monotonic())
        served, looks = registration.serves.definitions, rotation.full_looks
        ranges = self._positions.ready_ranges(served, full=looks.begin(self._monotonic()))
        answer = await self._link.fetch(
            "fleet/claim_few",
            worker=registration.worker,
            batch=next(_batches),
            definitions=served,
            limit=min(limit, FewJobs.MOST),
            due_from=due_from,
            cheap=looks.CHEAP,
            **ranges.columns(),
        )
        facts = answer[0]
        self._require_registration(registration, facts)
        rotation.note_due_look(facts, due_from, self._monotonic())
        self._note_full_look(served, looks, facts)
        if not facts["all_free"]:
            rotation.few.note_wrong_guess(self._monotonic())
            return None
        rotation.few.note_right_guess()
        found = sorted([row for row in answer if row["id"] is not None], key=_place)
        self._positions.note_claims(list(map(_position_of, found)))
        # A row that another claimer holds, or that changed meanwhile, was passed over.
        more = len(found) < facts["waiting"] or len(found) == limit
        return Claimed(await self._reader.read(found, registration.worker), more, rotation.next_due)

    def _note_full_look(self, served: Sequence[str], looks: FullLooks, facts: Record) -> None:
        before = looks.note_look(
            facts["seconds"], dead_rows=facts["dead_rows"], last_seq=facts["last_seq"], now=self._monotonic()
        )
        if looks.was_full and looks.slow and before is not None and not facts["waiting"]:
            self._positions.note_all_claimed(served, before)

    def _require_registration(self, registration: Registration, facts: Record) -> None:
        if not facts["alive"]:
            self.forget(registration)
            raise RegistrationLost(
                f"worker {registration.worker} was evicted: its lease ran out. Nothing was claimed.",
                fix="Stop what it runs, and join again.",
            )

    async def _claim_by_turns(self, registration: Registration, rotation: TenantRotation, limit: int) -> Claimed:
        found: list[Record] = []
        busy = filled = tried = False
        for _ in range(STEPS_PER_CLAIM):
            step = await self._step(registration, rotation, limit - len(found))
            found += step.found
            busy, filled, tried = busy or step.busy, step.filled, tried or step.tried
            if len(found) == limit or (rotation.whole and not filled) or (busy and not step.found):
                break
        # A scope whose lock was refused, and lanes that had work and gave none, are busy, never "empty".
        more = busy or filled or rotation.behind or not rotation.whole or len(found) == limit or (tried and not found)
        return Claimed(await self._reader.read(found, registration.worker), more, rotation.next_due)

    async def _step(self, registration: Registration, rotation: TenantRotation, limit: int) -> "Step":
        if self._positions.full_claim_is_due(self._monotonic()):
            rotation.forget()
            return await self._take(registration, rotation, limit)
        return await self._take_remembered(registration, rotation, limit)

    # ------------------------------------------------------------------------------------- find and take at once

    async def _take(self, registration: Registration, rotation: TenantRotation, limit: int) -> "Step":
        began = self._monotonic()
        answer, lanes = await self._ask(registration, rotation, limit)
        ended = self._monotonic()
        facts, sharing = answer[0], answer[0]["tenants_sharing"] or 0
        found = sorted([row for row in answer if row["id"] is not None], key=_place)
        if len(found) == limit or self._positions.slow:
            self._positions.note_full_claim(ended - began, touched=max(1, limit + sharing), now=ended)
        self._positions.note_claims(list(map(_position_of, found)))
        if not sharing:
            return Step([], busy=False, filled=False, tried=False)
        rotation.note_turns(facts["last_served"])
        # One that changed between being seen and being locked is missed: there is more.
        filled = sharing > limit or facts["picked"] > len(found) or _last_turn(found) >= limit // sharing
        step = Step(found, busy=False, filled=filled, tried=True)
        if lanes and len(found) < limit:
            capped = [tuple(group) for _, group in groupby(lanes, key=lambda lane: lane.tenant)]
            more = await self._claim_in_turn(
                registration, rotation, capped, limit - len(found), ceil(limit / sharing)
            )
            return step + more
        return step

    async def _ask(
        self, registration: Registration, rotation: TenantRotation, limit: int
    ) -> tuple[list[Record], list[Lane]]:
        """Claims, or only looks if the limit is 0; first promotes some of the jobs that came due."""
        due_from = rotation.due_mark.begin(self._monotonic())
        answer = await self._ask_once(registration, rotation, limit, due_from, even_if_due=False)
        if rotation.behind:
            await self._link.fetch(
                "fleet/promote", limit=PROMOTED_AT_ONCE, due_from=due_from, **rows.subscription_columns(registration)
            )
            answer = await self._ask_once(registration, rotation, limit, due_from, even_if_due=True)
        facts = answer[0]
        return answer, list(map(Lane, facts["definitions"], facts["tenants"], facts["capped"]))

    async def _ask_once(
        self,
        registration: Registration,
        rotation: TenantRotation,
        limit: int,
        due_from: datetime | None,
        *,
        even_if_due: bool,
    ) -> list[Record]:
        way, most = rotation.way, rotation.piece(len(registration.serves.definitions), limit)
        answer = await self._link.fetch(
            "fleet/claim_next_tenants",
            worker=registration.worker,
            batch=next(_batches),
            after=way.after,
            until=way.until,
            around=way.around,
            most=most,
            limit=limit,
            even_if_due=even_if_due,
            due_from=due_from,
            cheap=DueMark.CHEAP,
            **rows.subscription_columns(registration),
        )
        facts = answer[0]
        self._require_registration(registration, facts)
        rotation.note_due_look(facts, due_from, self._monotonic())
        idle = not facts["tenants_sharing"]
        full = facts["tenants_seen"] == most
        if even_if_due or not rotation.behind:
            rotation.note_range(way, last=facts["last_tenant"], full=full, around=facts["around"], idle=idle)
        return answer

    # -------------------------------------------------------------------------------------- from remembered lanes

    async def _take_remembered(self, registration: Registration, rotation: TenantRotation, limit: int) -> "Step":
        if rotation.exhausted or rotation.may_look(self._monotonic()):
            began = self._monotonic()
            _, lanes = await self._ask(registration, rotation, 0)
            rotation.note_look(lanes, began=began, ended=self._monotonic())
        tenants = rotation.take(limit)
        if not tenants:
            return Step([], busy=False, filled=False, tried=False)
        return await self._claim_in_turn(registration, rotation, tenants, limit, ceil(limit / len(tenants)))

    async def _claim_in_turn(
        self, registration: Registration, rotation: TenantRotation, tenants: Tenants, limit: int, share: int
    ) -> "Step":
        """Claims a fair share for each tenant; one that filled it may have more and keeps its place."""
        lanes = [lane for lanes in tenants for lane in lanes]
        began = self._monotonic()
        found, busy, marked = await self._claim_from(registration, lanes, share, limit)
        ended = self._monotonic()
        if marked and len(found) == limit:
            self._positions.note_positioned_claim(ended - began, touched=limit + len(tenants), now=ended)
        elif len(found) < limit:
            self._positions.note_shortfall()
        given = Counter(row["tenant_id"] for row in found)
        rotation.keep(lanes for lanes in tenants if given[lanes[0].tenant] >= share)
        return Step(found, busy=busy, filled=max(given.values(), default=0) >= share, tried=True)

    async def _claim_from(
        self, registration: Registration, lanes: Sequence[Lane], share: int, limit: int
    ) -> tuple[list[Record], bool, bool]:
        """Returns the rows, whether some scope was busy, and whether positions were enough to find the rows."""
        marked = not self._positions.full_claim_is_due(self._monotonic())
        found, busy = await self._claim_ranges(
            registration, self._positions.ranges(lanes, full=not marked), share, limit
        )
        if not found and marked:
            marked = False
            found, busy = await self._claim_ranges(
                registration, self._positions.ranges(lanes, full=True), share, limit
            )
        # One that changed between being seen and being locked is missed: there is more.
        busy = busy or any(row["chosen"] > len(found) for row in found)
        found.sort(key=_place)
        self._positions.note_claims(list(map(_position_of, found)))
        return found, busy, marked

    async def _claim_ranges(
        self, registration: Registration, ranges: Sequence[LaneRange], share: int, limit: int
    ) -> tuple[list[Record], bool]:
        """Claims by one statement; if a scope is capped, its lock comes first, in a statement and snapshot of its
        own.

        Also returns whether some scope was busy: its lock was refused.
        """
        values: dict[str, Any] = {
            "worker": registration.worker,
            "batch": next(_batches),
            "definitions": [lane_range.lane.definition for lane_range in ranges],
            "tenants": [lane_range.lane.tenant for lane_range in ranges],
            "from_priorities": [lane_range.from_priority for lane_range in ranges],
            "from_seqs": [lane_range.from_seq for lane_range in ranges],
            "to_priorities": [lane_range.to_priority for lane_range in ranges],
            "share": share,
            "limit": limit,
        }
        if not any(lane_range.lane.capped for lane_range in ranges):
            unlocked = {"locked_tenants": [], "locked_definitions": [], "advance": False}
            return await self._link.fetch("fleet/claim_from_lanes", **values, **unlocked), False
        advance = self._capped_since_advance >= CAPPED_BETWEEN_ADVANCES
        async with self._link.transaction() as connection:
            scopes = await self._database.fetch_on(
                connection, "fleet/lock_scopes", tenants=values["tenants"], definitions=values["definitions"]
            )
            locked = [scope for scope in scopes if scope["locked"]]
            found = await self._database.fetch_on(
                connection,
                "fleet/claim_from_lanes",
                **values,
                locked_tenants=[scope["key"] for scope in locked if scope["kind"] == "tenant"],
                locked_definitions=[scope["key"] for scope in locked if scope["kind"] == "definition"],
                advance=advance,
            )
        self._capped_since_advance = len(found) + (0 if advance else self._capped_since_advance)
        return found, len(locked) < len(scopes)


class Step:
    """The rows of one step of a claim; whether some scope was busy, and whether there may be more of the same."""

    __slots__ = ("busy", "filled", "found", "tried")

    def __init__(self, found: list[Record], *, busy: bool, filled: bool, tried: bool) -> None:
        self.found, self.busy, self.filled, self.tried = found, busy, filled, tried

    def __add__(self, other: "Step") -> "Step":
        return Step(
            self.found + other.found,
            busy=self.busy or other.busy,
            filled=self.filled or other.filled,
            tried=self.tried or other.tried,
        )


# First everybody's first, then everybody's second.
_place = itemgetter("turn", "priority", "seq")
_position_of = itemgetter("definition", "tenant_id", "priority", "seq")


def _last_turn(found: Sequence[Record]) -> int:
    """Returns how many jobs the tenant with the most of them has; they are numbered for each tenant, and in order."""
    return found[-1]["turn"] if found else 0
