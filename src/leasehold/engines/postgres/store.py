"""The Postgres engine: what workers ask for, as statements. The tenant's door is in tenant.py."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any
from uuid import uuid4

import orjson
from asyncpg import Record

from leasehold.engines.postgres import listen, rows
from leasehold.engines.postgres.administration import PostgresAdministration
from leasehold.engines.postgres.claiming import Claiming
from leasehold.engines.postgres.database import ONE_PLAN, Database, Link
from leasehold.engines.postgres.effects import HandlersTransaction, Lent, transaction_of
from leasehold.engines.postgres.tenant import PostgresTenantJobs
from leasehold.model.definition import Definition
from leasehold.model.job import Claim, Line, TenantId, WorkerId
from leasehold.model.outcome import Verdict
from leasehold.model.payload import made_storable
from leasehold.model.status import Status
from leasehold.store import Abilities, Claimed, Renewal, Seat, Serves, Wake, WorkerFacts, WorkerRecord

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
        self._results = listen.Results(database)
        self._lent = Lent(database)
        self._known_tenants: set[TenantId] = set()
        self._versions: dict[rows.DefinitionKey, Definition] = {}
        self._claiming = Claiming(database, self._claimer, self._claims, monotonic)

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
            **rows.served(seat),
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
        self._claiming.forget(seat)
        await self._database.fetch("fleet/leave", worker=seat.worker)

    async def evict(self, limit: int) -> Sequence[Claim]:
        return await self._claims(await self._finisher.fetch("fleet/evict", limit=limit))

    async def held(self, seat: Seat) -> Sequence[Claim]:
        return await self._claims(await self._finisher.fetch("fleet/held", worker=seat.worker))

    async def workers(self) -> Sequence[WorkerRecord]:
        return [rows.worker(row) for row in await self._database.fetch("fleet/workers")]

    # ---------------------------------------------------------------------------------------------------- claiming

    async def claim(self, seat: Seat, limit: int) -> Claimed:
        return await self._claiming.claim(seat, limit)

    async def settle(self, seat: Seat, limit: int = 1) -> Claimed:
        (sleep,) = await self._claimer.fetch("fleet/sleep", worker=seat.worker, **rows.served(seat))
        ((quiet,),) = await self._claimer.fetch("fleet/quiet", definitions=seat.serves.definitions)
        claimed = await self.claim(seat, limit)
        if claimed.claims:
            await self._claimer.fetch("fleet/awake", worker=seat.worker)
        elif not quiet:
            return Claimed((), True, claimed.next_due)
        elif not claimed.more and claimed.next_due is not None:
            await self._claimer.fetch("fleet/doze", sleep=sleep["id"], next_due=claimed.next_due)
        return claimed

    def wakes(self, seat: Seat) -> AsyncGenerator[Wake, None]:
        return listen.wakes(self._database, seat)

    async def rouse(self, seat: Seat) -> None:
        await self._claimer.fetch("fleet/rouse", worker=seat.worker, **rows.served(seat))

    async def _claims(self, found: Sequence[Record], worker: WorkerId | None = None) -> list[Claim]:
        """Rows as claims, of this worker or who each row names. Versions are immutable, so each is read once."""
        missing = {(row["definition"], row["version"]) for row in found} - self._versions.keys()
        if missing:
            keys, versions = zip(*missing, strict=True)
            for row in await self._database.fetch("fleet/definition_versions", keys=keys, versions=versions):
                self._versions[row["key"], row["version"]] = rows.definition(row)
        return [
            rows.claim(row, worker or row["worker_id"], self._versions[row["definition"], row["version"]])
            for row in found
        ]

    # --------------------------------------------------------------------------------------------------- finishing

    async def finish(self, done: Sequence[tuple[Claim, Verdict]]) -> frozenset[Claim]:
        ended: list[tuple[Claim, Verdict]] = []
        again: list[tuple[Claim, Verdict]] = []
        # In the order of the key, in which cancels lock, too: batches that cross would wait for each other.
        for each in sorted(done, key=lambda each: (each[0].tenant, each[0].job)):
            (ended if each[1].status.final else again).append(each)
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
        answer = await self._finisher.fetch("fleet/finish", **rows.endings(ended))
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
