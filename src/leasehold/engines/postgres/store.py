"""The Postgres engine: what workers ask for, as statements. The tenant's door is in tenant.py."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from datetime import timedelta
from math import ceil
from typing import Any
from uuid import uuid4

import orjson
from asyncpg import Record

from leasehold.engines.postgres import listen, rows
from leasehold.engines.postgres.administration import PostgresAdministration
from leasehold.engines.postgres.database import ONE_PLAN, Database, Link
from leasehold.engines.postgres.effects import HandlersTransaction, Lent, transaction_of
from leasehold.engines.postgres.lanes import PIECE, Lane, Marks, Stretch, Tour
from leasehold.engines.postgres.tenant import PostgresTenantJobs
from leasehold.errors import SeatLost
from leasehold.model.definition import Definition
from leasehold.model.job import Claim, Line, TenantId, WorkerId
from leasehold.model.outcome import Verdict
from leasehold.model.payload import made_storable
from leasehold.model.status import Status
from leasehold.store import Abilities, Claimed, Renewal, Seat, Serves, Wake, WorkerFacts, WorkerRecord

# Looks that one claim may take before it says "ask again": bounds the time of a claim among very many held lanes.
LOOKS_PER_CLAIM = 8
PROMOTED_AT_ONCE = 500
LONGEST_LINE = 10_000


class PostgresStore(PostgresAdministration):
    """An open engine. Links of its own, so that claiming, finishing and heartbeats don't wait for each other.

    The claim commits asynchronously: when the database crashes, an attempt number may be handed out again, but
    never to the same worker id, and both are in the fence. Enqueue and finish are always durable.
    """

    abilities = Abilities(
        caller_transaction=True, exact_caps=True, priorities=True, wakes=True, atomic_bulk=None, fenced_logs=True
    )

    def __init__(
        self,
        database: Database,
        *,
        strict_tenants: bool = False,
        durable_claims: bool = False,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(database)
        self._strict_tenants = strict_tenants
        commit = "on" if durable_claims else "off"
        self._claimer = Link(database, ONE_PLAN | {"synchronous_commit": commit}, tells_of_loss=True)
        self._finisher = Link(database, ONE_PLAN)
        self._heart = Link(database, ONE_PLAN)
        self._monotonic = monotonic
        self._results = listen.Results(database)
        self._lent = Lent(database)
        self._known_tenants: set[TenantId] = set()
        self._versions: dict[rows.DefinitionKey, Definition] = {}
        self._tours: dict[WorkerId, Tour] = {}
        self._marks = Marks()

    def tenant(self, tenant: TenantId) -> PostgresTenantJobs:
        return PostgresTenantJobs(
            self._database, tenant, self._results, self._known_tenants, strict=self._strict_tenants
        )

    async def close(self) -> None:
        parts = (self._results, self._lent, self._claimer, self._finisher, self._heart, self._database)
        await asyncio.gather(*(part.close() for part in parts))

    # ------------------------------------------------------------------------------------------------------ seats

    async def join(self, serves: Serves, facts: WorkerFacts, lease: timedelta) -> Seat:
        seat = Seat(WorkerId(str(uuid4())), serves)
        await self._database.fetch(
            "fleet/join",
            worker=seat.worker,
            host=facts.host,
            pid=facts.pid,
            version=facts.version,
            slots=facts.slots,
            metadata=orjson.dumps(facts.metadata).decode(),
            lease=lease,
            **_served(seat),
        )
        return seat

    async def renew(self, seat: Seat, held: Sequence[Claim], lease: timedelta) -> Renewal:
        (row,) = await self._heart.fetch(
            "fleet/renew",
            worker=seat.worker,
            lease=lease,
            definitions=seat.serves.definitions,
            **rows.fences(held),
        )
        still = {number - 1 for number in row["held"]}
        return Renewal(
            alive=row["alive"],
            lost=frozenset(claim for number, claim in enumerate(held) if number not in still),
            cancels=frozenset(held[number - 1] for number in row["cancels"]),
            orphans=row["orphans"],
            next_due=row["next_due"],
        )

    async def leave(self, seat: Seat) -> None:
        self._tours.pop(seat.worker, None)
        await self._database.fetch("fleet/leave", worker=seat.worker)

    async def evict(self, limit: int) -> Sequence[Claim]:
        return await self._claims(await self._finisher.fetch("fleet/evict", limit=limit))

    async def held(self, seat: Seat) -> Sequence[Claim]:
        return await self._claims(await self._finisher.fetch("fleet/held", worker=seat.worker))

    async def workers(self) -> Sequence[WorkerRecord]:
        return [rows.worker(row) for row in await self._database.fetch("fleet/workers")]

    # ---------------------------------------------------------------------------------------------------- claiming

    async def claim(self, seat: Seat, limit: int) -> Claimed:
        tour = self._tours.setdefault(seat.worker, Tour())
        claims: list[Claim] = []
        busy = tried = False
        looks = 0
        while len(claims) < limit:
            if tour.exhausted:
                if claims or looks == LOOKS_PER_CLAIM or (looks and tour.whole):
                    break
                looks += 1
                await self._look(seat, tour)
            elif tour.may_look(self._monotonic()):
                await self._look(seat, tour)
            tenants = tour.take(limit - len(claims))
            if not tenants:
                continue
            tried = True
            found, refused = await self._claim_in_turn(seat, tour, tenants, limit - len(claims))
            claims += found
            busy = busy or refused
        # A scope whose lock was refused, and lanes that had work and gave none, are busy, never "empty".
        more = busy or tour.behind or len(claims) == limit or not tour.whole or (tried and not claims)
        return Claimed(claims, more, tour.next_due)

    async def settle(self, seat: Seat, limit: int = 1) -> Claimed:
        (sleep,) = await self._claimer.fetch("fleet/sleep", worker=seat.worker, **_served(seat))
        claimed = await self.claim(seat, limit)
        if not claimed.claims and not claimed.more:
            ((quiet,),) = await self._claimer.fetch("fleet/quiet")
            if not quiet:
                return Claimed((), True, claimed.next_due)
            claimed = await self.claim(seat, limit)
        if claimed.claims:
            await self._claimer.fetch("fleet/awake", worker=seat.worker)
        elif not claimed.more and claimed.next_due is not None:
            await self._claimer.fetch("fleet/doze", sleep=sleep["id"], next_due=claimed.next_due)
        return claimed

    def wakes(self, seat: Seat) -> AsyncGenerator[Wake, None]:
        return listen.wakes(self._database, seat)

    async def rouse(self, seat: Seat) -> None:
        await self._claimer.fetch("fleet/rouse", worker=seat.worker, **_served(seat))

    async def _look(self, seat: Seat, tour: Tour) -> None:
        """Reads the next piece of lanes, having promoted some of what came due: so much that nobody waits for it."""
        after = tour.look_after
        began = self._monotonic()
        row = await self._look_after(seat, after)
        if _is_due(row):
            await self._promote(seat)
            row = await self._look_after(seat, after)
        tour.next_due = row["next_due"]
        tour.behind = _is_due(row)
        lanes = list(map(Lane, row["definitions"], row["tenants"], row["capped"]))
        last = row["last_tenant"] if row["tenants_seen"] == PIECE else None
        tour.looked(lanes, after=after, last=last, began=began, ended=self._monotonic())

    async def _look_after(self, seat: Seat, tenant: str) -> Record:
        (row,) = await self._claimer.fetch(
            "fleet/look", worker=seat.worker, after=tenant, most=PIECE, **_served(seat)
        )
        if not row["alive"]:
            self._tours.pop(seat.worker, None)
            raise SeatLost(
                f"worker {seat.worker} was evicted: its lease ran out. Nothing was claimed.",
                fix="Stop what it runs, and join again.",
            )
        return row

    async def _promote(self, seat: Seat) -> None:
        await self._claimer.fetch("fleet/promote", limit=PROMOTED_AT_ONCE, **_served(seat))

    async def _claim_in_turn(
        self, seat: Seat, tour: Tour, tenants: Sequence[Sequence[Lane]], limit: int
    ) -> tuple[list[Claim], bool]:
        """A fair share for each tenant; who filled it may have more and keeps its place in the tour."""
        share = ceil(limit / len(tenants))
        lanes = [lane for lanes in tenants for lane in lanes]
        found, busy = await self._claim_from(seat, lanes, share, limit)
        given = Counter(row["tenant_id"] for row in found)
        tour.keep(lanes for lanes in tenants if given[lanes[0].tenant] >= share)
        return await self._claims(found), busy

    async def _claim_from(
        self, seat: Seat, lanes: Sequence[Lane], share: int, limit: int
    ) -> tuple[list[Record], bool]:
        full = self._marks.full_claim_is_due(self._monotonic())
        if not full:
            found, busy = await self._claim_stretches(seat, self._marks.stretches(lanes, full=False), share, limit)
        if full or not found:
            began = self._monotonic()
            found, busy = await self._claim_stretches(seat, self._marks.stretches(lanes, full=True), share, limit)
            ended = self._monotonic()
            self._marks.full_claim_took(ended - began, touched=len(found) + len(lanes), now=ended)
        # One that changed between being seen and being locked is missed: there is more.
        busy = busy or any(row["chosen"] > len(found) for row in found)
        found.sort(key=lambda row: (row["turn"], row["priority"], row["seq"]))
        self._marks.claimed((r["definition"], r["tenant_id"], r["priority"], r["seq"]) for r in found)
        return found, busy

    async def _claim_stretches(
        self, seat: Seat, stretches: Sequence[Stretch], share: int, limit: int
    ) -> tuple[list[Record], bool]:
        """One statement; where a scope is capped, its lock comes first, in a statement and snapshot of its own.

        Also says whether some scope was busy: its lock was refused.
        """
        values: dict[str, Any] = {
            "worker": seat.worker,
            "definitions": [stretch.lane.definition for stretch in stretches],
            "tenants": [stretch.lane.tenant for stretch in stretches],
            "from_priorities": [stretch.from_priority for stretch in stretches],
            "from_seqs": [stretch.from_seq for stretch in stretches],
            "to_priorities": [stretch.to_priority for stretch in stretches],
            "share": share,
            "limit": limit,
        }
        if not any(stretch.lane.capped for stretch in stretches):
            found = await self._claimer.fetch("fleet/claim", **values, locked_tenants=[], locked_definitions=[])
            return found, False
        async with self._claimer.transaction() as connection:
            scopes = await self._database.fetch_on(
                connection, "fleet/lock_scopes", tenants=values["tenants"], definitions=values["definitions"]
            )
            locked = [scope for scope in scopes if scope["locked"]]
            found = await self._database.fetch_on(
                connection,
                "fleet/claim",
                **values,
                locked_tenants=[scope["key"] for scope in locked if scope["kind"] == "tenant"],
                locked_definitions=[scope["key"] for scope in locked if scope["kind"] == "definition"],
            )
            return found, len(locked) < len(scopes)

    async def _claims(self, found: Sequence[Record]) -> list[Claim]:
        """Rows as claims. Versions are immutable, so each is read once."""
        missing = {(row["definition"], row["version"]) for row in found} - self._versions.keys()
        if missing:
            keys, versions = zip(*missing, strict=True)
            for row in await self._database.fetch("fleet/definition_versions", keys=keys, versions=versions):
                self._versions[row["key"], row["version"]] = rows.definition(row)
        return [rows.claim(row, self._versions[row["definition"], row["version"]]) for row in found]

    # --------------------------------------------------------------------------------------------------- finishing

    async def finish(self, done: Sequence[tuple[Claim, Verdict]]) -> frozenset[Claim]:
        # In the order of the key, in which cancels lock, too: batches that cross would wait for each other.
        in_order = sorted(done, key=lambda each: rows.fence_of(each[0]))
        ended = [(claim, verdict) for claim, verdict in in_order if verdict.status.final]
        again = [(claim, verdict) for claim, verdict in in_order if not verdict.status.final]
        refused = await self._requeue(again) if again else []
        # Refused may mean fenced off, or that a cancel was requested: then it ends here, if its fence holds.
        ended += [(claim, _canceled(verdict)) for claim, verdict in refused]
        return await self._end(ended) if ended else frozenset()

    async def _requeue(self, again: Sequence[tuple[Claim, Verdict]]) -> list[tuple[Claim, Verdict]]:
        verdicts = [verdict for _, verdict in again]
        answer = await self._finisher.fetch(
            "fleet/requeue",
            **_verdict_columns(again),
            delays=[verdict.delay for verdict in verdicts],
            forgiven=[verdict.forgiven for verdict in verdicts],
        )
        return _refused(again, answer)

    async def _end(self, ended: Sequence[tuple[Claim, Verdict]]) -> frozenset[Claim]:
        answer = await self._finisher.fetch(
            "fleet/finish",
            **_verdict_columns(ended),
            statuses=[verdict.status.value for _, verdict in ended],
            results=[verdict.result for _, verdict in ended],
            keeps=[claim.definition.retention.keep(verdict.status) for claim, verdict in ended],
        )
        return frozenset(claim for claim, _ in _refused(ended, answer))

    async def say(self, lines: Sequence[tuple[Claim, Line]]) -> frozenset[Claim]:
        held = await self._finisher.fetch(
            "fleet/say",
            **rows.fences(claim for claim, _ in lines),
            workers=[claim.worker for claim, _ in lines],
            numbers=[line.number for _, line in lines],
            kinds=[line.kind.value for _, line in lines],
            texts=[made_storable(line.text, LONGEST_LINE) for _, line in lines],
            progresses=[line.progress and min(1.0, max(0.0, line.progress)) for _, line in lines],
        )
        kept = {rows.fence(row) for row in held}
        return frozenset(claim for claim, _ in lines if rows.fence_of(claim) not in kept)

    def transaction(self, claim: Claim, given: object | None) -> HandlersTransaction:
        return transaction_of(self._database, self._lent, claim, given)

    async def prune(self, limit: int) -> int:
        ((pruned,),) = await self._finisher.fetch("fleet/prune", limit=limit)
        while (await self._finisher.fetch("fleet/prune_holds", limit=limit))[0][0] == limit:
            continue
        count: int = pruned
        return count


def _refused(sent: Sequence[tuple[Claim, Verdict]], answer: Sequence[Record]) -> list[tuple[Claim, Verdict]]:
    """Those whose number did not come back."""
    held = set(answer[0]["held"] or ())
    return [] if len(held) == len(sent) else [each for number, each in enumerate(sent, 1) if number not in held]


def _is_due(row: Record) -> bool:
    return row["next_due"] is not None and row["next_due"] <= timedelta()


def _served(seat: Seat) -> dict[str, Any]:
    return {"definitions": seat.serves.definitions, "tenants": seat.serves.tenants}


def _verdict_columns(done: Iterable[tuple[Claim, Verdict]]) -> dict[str, list[Any]]:
    claims, verdicts = zip(*done, strict=True)
    return {
        **rows.fences(claims),
        "workers": [claim.worker for claim in claims],
        "attempt_statuses": [verdict.attempt.value for verdict in verdicts],
        "errors": [verdict.error for verdict in verdicts],
        "error_codes": [verdict.error_code for verdict in verdicts],
        "exit_codes": [verdict.exit_code for verdict in verdicts],
        "details": [verdict.details for verdict in verdicts],
    }


def _canceled(verdict: Verdict) -> Verdict:
    return Verdict(
        Status.CANCELED,
        verdict.attempt,
        error=verdict.error,
        error_code=verdict.error_code,
        exit_code=verdict.exit_code,
        details=verdict.details,
    )
