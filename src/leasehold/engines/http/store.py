"""A store that is reached over HTTP: everything that a worker asks for, as requests, and nothing else."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from random import random
from typing import Any, NoReturn

import orjson

from leasehold.engines.http.client import HttpClient
from leasehold.engines.http.refusals import Refused, no_caller_transaction
from leasehold.engines.http.tenant import HttpTenantJobs
from leasehold.errors import RegistrationLost, Unreachable
from leasehold.model.definition import Change, Definition
from leasehold.model.job import Attempt, Claim, JobId, LogLine, TenantId, WorkerId
from leasehold.model.outcome import Verdict
from leasehold.store import (
    Abilities,
    Claimed,
    DeclaredTrigger,
    DueWork,
    NextFire,
    Registration,
    Renewal,
    Subscription,
    TriggerChange,
    Wake,
    WorkerFacts,
    wire,
)

log = logging.getLogger("leasehold.worker")

MOST_AT_ONCE = 100
MOST_BYTES = 1_000_000
# Proxies end a request without an answer after 60 s, and some after 30 s.
POLL, POLL_MARGIN = 25.0, 10.0
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 5.0


class HttpStore:
    """An open engine, for workers. `hello` is the answer of the server to the first request."""

    def __init__(self, client: HttpClient, hello: Mapping[str, Any]) -> None:
        self._client = client
        self._may_sync = None if hello["syncs"] is None else frozenset(hello["syncs"])
        self._joined: set[WorkerId] = set()
        self.abilities = abilities_of(wire.read_abilities(hello["abilities"]))
        self.all_triggers = UnsavedTriggers()

    def __getattr__(self, name: str) -> Refused:
        """Returns what a worker does not have: administration, lists, triggers, tokens. A call of it raises."""
        if name.startswith("_"):
            raise AttributeError(name)
        return Refused(f"store.{name}")

    def tenant(self, tenant: TenantId) -> HttpTenantJobs:
        return HttpTenantJobs(self._client, tenant, self._own_attempts)

    async def close(self) -> None:
        await self._client.close()

    async def sync_definitions(self, found: Sequence[Definition]) -> Sequence[Change]:
        """Registers the definitions that the token may register; the others are left as the database has them."""
        may = [each for each in found if self._may_sync is None or each.key in self._may_sync]
        sent = {"definitions": [wire.write_definition(each) for each in may]}
        answer = await self._client.post("/worker/definitions", sent) if may else {"changes": []}
        changes = {change.key: change for change in map(wire.read_change, answer["changes"])}
        return [changes.get(each.key) or Change(each.key, 0, {}, created=False) for each in found]

    async def join(self, serves: Subscription, facts: WorkerFacts, lease: timedelta) -> Registration:
        answer = await self._client.post("/worker/join", wire.write_join(serves, facts, lease))
        registration = wire.read_registration(answer)
        self._joined.add(registration.worker)
        return registration

    async def renew(
        self,
        registration: Registration,
        held: Sequence[Claim],
        lease: timedelta,
        *,
        look: bool = False,
        probe: bool = False,
    ) -> Renewal:
        """Extends a lease. The server reclaims the jobs of dead workers, so `orphans` is False."""
        own = [claim for claim in held if claim.worker == registration.worker]
        sent = {
            "worker_id": registration.worker,
            "held": [wire.write_fence(claim) for claim in own],
            "lease_seconds": lease.total_seconds(),
            "look": look,
            "probe": probe,
        }
        try:
            renewal = wire.read_renewal(await self._client.post("/worker/renew", sent), own)
        except RegistrationLost:
            return Renewal(False, frozenset(held), frozenset(), orphans=False, strays=False, next_due=None)
        return _with_lost(renewal, frozenset(held).difference(own))

    async def leave(self, registration: Registration, *, has_claimed: bool = True) -> None:
        self._joined.discard(registration.worker)
        try:
            await self._client.post("/worker/leave", {"worker_id": registration.worker, "has_claimed": has_claimed})
        except RegistrationLost:
            log.debug("worker %s had lost its registration when it left", registration.worker)

    async def note_drain(self, registration: Registration) -> None:
        await self._client.post("/worker/drain", {"worker_id": registration.worker})

    async def claim(self, registration: Registration, limit: int) -> Claimed:
        return await self._claim(registration, limit, sleep=False)

    async def prepare_to_sleep(self, registration: Registration, limit: int = 1) -> Claimed:
        return await self._claim(registration, limit, sleep=True)

    async def _claim(self, registration: Registration, limit: int, *, sleep: bool) -> Claimed:
        sent = {"worker_id": registration.worker, "limit": min(limit, MOST_AT_ONCE), "prepare_to_sleep": sleep}
        return wire.read_claimed(await self._client.post("/worker/claim", sent), registration.worker)

    async def held(self, registration: Registration) -> Sequence[Claim]:
        answer = await self._client.post("/worker/held", {"worker_id": registration.worker})
        return wire.read_claimed(answer, registration.worker).claims

    async def finish(self, done: Sequence[tuple[Claim, Verdict]], *, reclaimed: bool = False) -> frozenset[Claim]:
        documents = ((claim, {**wire.write_fence(claim), **_verdict(verdict)}) for claim, verdict in done)
        return await self._write("/worker/finish", "done", documents)

    async def append_log(self, lines: Sequence[tuple[Claim, LogLine]]) -> frozenset[Claim]:
        documents = ((claim, wire.write_line(claim, line)) for claim, line in lines)
        return await self._write("/worker/lines", "lines", documents)

    async def _write(self, path: str, name: str, documents: Iterable[tuple[Claim, Any]]) -> frozenset[Claim]:
        """Sends what claims write, for each worker in requests of bounded size. Returns the claims that are lost."""
        by_worker: dict[WorkerId, list[tuple[Claim, Any]]] = {}
        for claim, document in documents:
            by_worker.setdefault(claim.worker, []).append((claim, document))
        refused: frozenset[Claim] = frozenset()
        for worker, written in by_worker.items():
            for part in _parts(written):
                claims = [claim for claim, _ in part]
                sent = {"worker_id": worker, name: [document for _, document in part]}
                try:
                    refused |= wire.read_refused(await self._client.post(path, sent), claims)
                except RegistrationLost:
                    refused |= frozenset(claims)
        return refused

    def wakes(self, registration: Registration) -> AsyncGenerator[Wake | DueWork | NextFire, None]:
        return self._poll_wakes(registration.worker)

    async def _poll_wakes(self, worker: WorkerId) -> AsyncGenerator[Wake | DueWork | NextFire, None]:
        """Yields wakes, over lost connections. Each request says which wakes were heard, so that none is lost."""
        feed, heard, pause = None, 0, FIRST_PAUSE
        while True:
            sent = {"worker_id": worker, "feed": feed, "heard": heard, "wait_seconds": POLL}
            try:
                answer = await self._client.post("/worker/wakes", sent, timeout=POLL + POLL_MARGIN)
            except Unreachable:
                await asyncio.sleep(pause * (0.5 + random()))
                pause = min(2 * pause, LONGEST_PAUSE)
                continue
            feed, heard, pause = answer["feed"], answer["heard"], FIRST_PAUSE
            for wake in answer["wakes"]:
                yield wire.read_wake(wake)

    async def wake_another(self, registration: Registration) -> None:
        await self._client.post("/worker/wake-another", {"worker_id": registration.worker})

    async def evict(self, limit: int) -> Sequence[Claim]:
        """Returns nothing: the server evicts dead workers itself."""
        return ()

    async def prune(self, limit: int) -> int:
        """Deletes nothing: the server prunes itself."""
        return 0

    def transaction(self, claim: Claim, given: object | None) -> NoReturn:
        raise no_caller_transaction()

    async def _own_attempts(self, tenant: TenantId, job: JobId) -> Sequence[Attempt]:
        found: list[Attempt] = []
        for worker in tuple(self._joined):
            sent = {"worker_id": worker, "tenant_id": tenant, "job_id": job}
            answer = await self._client.post("/worker/attempts", sent)
            found += [wire.read_attempt(each, worker) for each in answer["attempts"]]
        return found


class UnsavedTriggers:
    """Stands for the triggers of all owners. Workers over HTTP leave those of their code unsaved, and say so once."""

    def __getattr__(self, name: str) -> Refused:
        return Refused(f"store.all_triggers.{name}")

    async def sync(
        self, declared: Sequence[DeclaredTrigger], definitions: Sequence[str], *, dry_run: bool = False
    ) -> Sequence[TriggerChange]:
        if declared:
            log.warning(
                "%d triggers of the code are not saved over HTTP. Where the database can be reached, run: "
                "leasehold triggers sync",
                len(declared),
            )
        return ()


def abilities_of(server: Abilities | None) -> Abilities:
    """Returns the abilities of a worker over HTTP, by those of the server's engine; None: it is not known."""
    return Abilities(
        caller_transaction=False,
        exact_caps=server is None or server.exact_caps,
        priorities=server is None or server.priorities,
        exact_fairness=server is None or server.exact_fairness,
        atomic_bulk=False,
        wakes=server is None or server.wakes,
        adaptive_polling=server is not None and server.adaptive_polling,
        fenced_logs=server is None or server.fenced_logs,
        schedules=False,
        atomic_audit=False,
        series=False,
        upkeep=False,
    )


def _parts(written: Sequence[tuple[Claim, Any]]) -> Iterator[list[tuple[Claim, Any]]]:
    """Yields parts that fit into one request; a document that is too large for that has a request of its own."""
    part: list[tuple[Claim, Any]] = []
    size = 0
    for each in written:
        length = len(orjson.dumps(each[1]))
        if part and (len(part) == MOST_AT_ONCE or size + length > MOST_BYTES):
            yield part
            part, size = [], 0
        part.append(each)
        size += length
    if part:
        yield part


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {"verdict": wire.write_verdict(verdict)}


def _with_lost(renewal: Renewal, lost: frozenset[Claim]) -> Renewal:
    """Adds claims of other workers, which this registration can't hold."""
    if not lost:
        return renewal
    return Renewal(
        *(renewal.alive, renewal.lost | lost, renewal.cancels, renewal.orphans, renewal.strays, renewal.next_due),
        renewal.work_waits,
    )
