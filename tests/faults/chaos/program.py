"""A worker process that writes down what it sees: `python -m tests.faults.chaos.program '{"url": …}'`.

SIGUSR1 arms the fault that stands in the file `<history>.<name>.fault`. A mutant finishes by the job's id alone, as
queues do that have no fence: it is what the checker must find out.
"""

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.dynamodb.fault_injection import Faults
from tests.faults.chaos.history import Event, History
from tests.postgres_parts import ReplacedStatements

from leasehold import faults
from leasehold.engines.dynamodb import finish as dynamodb_finish
from leasehold.engines.dynamodb import items
from leasehold.engines.dynamodb.engine import DynamoEngine
from leasehold.engines.postgres.migrate import schema_status
from leasehold.engines.postgres.store import PostgresStore
from leasehold.model.backoff import Steps
from leasehold.model.definition import Definition
from leasehold.model.job import Claim, WorkerId
from leasehold.model.outcome import Verdict
from leasehold.runtime.process import leave, serve
from leasehold.store import Claimed, Registration, Store, Subscription, WorkerFacts
from leasehold.worker import Handlers, Job, Worker, WorkerSettings
from leasehold.worker.heartbeat import Leases

SCHEMA = "leasehold"
FENCE = " and j.attempt = v.attempt and j.worker_id = v.worker_id and j.claim_batch = v.claim_batch"
WORK = Definition("work", max_attempts=100, backoff=Steps(0))
FRAGILE = Definition("fragile", max_attempts=2, backoff=Steps(0))
# The share of requests to DynamoDB that are throttled.
THROTTLES = 0.02
STEP, LONGEST_WAIT_IN_STEPS = 0.02, 1500
# Less than a worker waits for its store to close.
TO_ITS_END = 2.0


@dataclass(frozen=True)
class Setup:
    """Durations in seconds. Both leases are the same: an idle worker, too, soon sees who has died."""

    url: str
    history: str
    name: str
    lease: float = 1.0
    slots: int = 8
    notify: bool = True
    fallback: float | None = None
    mutant: bool = False

    def as_json(self) -> str:
        return json.dumps(asdict(self))

    @property
    def fault_file(self) -> Path:
        return Path(f"{self.history}.{self.name}.fault")

    @property
    def settings(self) -> WorkerSettings:
        lease = timedelta(seconds=self.lease)
        fallback = None if self.fallback is None else timedelta(seconds=self.fallback)
        return WorkerSettings(
            slots=self.slots, leases=Leases(busy=lease, idle=lease), notify=self.notify, fallback=fallback
        )


class Witness:
    """Records what a store is asked and what it answers. `watch` puts it in front of the store's own verbs."""

    def __init__(self, store: Store, history: History, registrations: set[WorkerId]) -> None:
        self._join, self._claim, self._finish_jobs, self._close = store.join, store.claim, store.finish, store.close
        self._history = history
        self._registrations = registrations
        self._under_way: set[asyncio.Future[frozenset[Claim]]] = set()

    def watch(self, store: Store) -> Store:
        for verb in ("join", "claim", "finish", "close"):
            setattr(store, verb, getattr(self, verb))
        return store

    async def join(self, serves: Subscription, facts: WorkerFacts, lease: timedelta) -> Registration:
        registration = await self._join(serves, facts, lease)
        self._registrations.add(registration.worker)
        self._history.add(Event.JOINED, worker=registration.worker)
        return registration

    async def claim(self, registration: Registration, limit: int) -> Claimed:
        claimed = await self._claim(registration, limit)
        for claim in claimed.claims:
            self._note(Event.CLAIMED, claim)
        return claimed

    async def finish(self, done: Sequence[tuple[Claim, Verdict]], *, reclaimed: bool = False) -> frozenset[Claim]:
        """Lets a sent call end even if the worker abandons it, so that a stale finish reaches the fence."""
        finishing = asyncio.ensure_future(self._finish(done, reclaimed))
        self._under_way.add(finishing)
        finishing.add_done_callback(self._under_way.discard)
        return await asyncio.shield(finishing)

    async def close(self) -> None:
        """After that: one that has yet to connect would find the store closed, and never reach the fence."""
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=TO_ITS_END)
        await self._close()

    async def _finish(self, done: Sequence[tuple[Claim, Verdict]], reclaimed: bool) -> frozenset[Claim]:
        """Burying the dead is finishing, too, but nobody's own."""
        own = [(claim, verdict) for claim, verdict in done if claim.worker in self._registrations]
        for claim, verdict in own:
            self._note(Event.FINISHING, claim, verdict.status)
        try:
            refused = await self._finish_jobs(done, reclaimed=reclaimed)
        except Exception:
            for claim, verdict in own:
                self._note(Event.UNKNOWN, claim, verdict.status)
            raise
        for claim, verdict in own:
            self._note(Event.REFUSED if claim in refused else Event.FINISHED, claim, verdict.status)
        return refused

    def _note(self, event: Event, claim: Claim, status: str = "") -> None:
        self._history.add(event, claim.job, claim.attempt, claim.worker, status)


async def open_on_postgres(setup: Setup) -> Store:
    (await schema_status(setup.url, SCHEMA)).require_usable()
    database = ReplacedStatements(setup.url, SCHEMA)
    if setup.mutant:
        finish = database.statement("fleet/finish").text
        assert FENCE in finish
        database.texts["fleet/finish"] = finish.replace(FENCE, "")
    return PostgresStore(database)


async def open_on_dynamodb(setup: Setup) -> Store:
    engine = DynamoEngine(setup.url)
    engine.intercept = Faults(seed=os.getpid(), throttles=THROTTLES).intercept
    if setup.mutant:
        without_fence = {**vars(items), "FENCE": "#status = :running"}
        vars(dynamodb_finish)["items"] = SimpleNamespace(**without_fence)
    return await engine.open()


def handlers_for(history: History) -> Handlers:
    handlers = Handlers()

    @handlers.add(WORK)
    @handlers.add(FRAGILE)
    async def work(job: Job, payload: dict[str, Any]) -> dict[str, Any]:
        """Says something, arms faults, takes its time, waits for a file, fails: whatever the payload tells it to."""
        worker = job._claim.worker
        first = job.attempt == 1
        history.add(Event.STARTED, job.id, job.attempt, worker)
        try:
            for line in payload.get("says", ()):
                job.log(line)
            if first:
                faults.arm(payload.get("faults", ""))
            faults.reach("in_run")
            await asyncio.sleep(payload.get("seconds" if first else "later_seconds", 0))
            if not first and "until" in payload:
                await _appears(Path(payload["until"]))
        except asyncio.CancelledError:
            history.add(Event.STOPPED, job.id, job.attempt, worker)
            raise
        history.add(Event.ENDED, job.id, job.attempt, worker)
        if job.attempt <= payload.get("fails", 0):
            raise ValueError("it was told to fail")
        return {"attempt": job.attempt, "worker": worker}

    return handlers


async def _appears(path: Path) -> None:
    appeared = path.exists
    for _ in range(LONGEST_WAIT_IN_STEPS):
        if appeared():
            return
        await asyncio.sleep(STEP)


def make_worker(setup: Setup) -> Worker:
    history = History(Path(setup.history), f"{setup.name}:{os.getpid()}")
    registrations: set[WorkerId] = set()

    async def open_witnessed() -> Store:
        open_store = open_on_dynamodb if setup.url.startswith("dynamodb:") else open_on_postgres
        store = await open_store(setup)
        return Witness(store, history, registrations).watch(store)

    return Worker(open_witnessed, handlers_for(history), setup.settings)


def main() -> None:
    setup = Setup(**json.loads(sys.argv[1]))
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(relativeCreated)d %(levelname)s %(message)s")
    signal.signal(signal.SIGUSR1, lambda *_: faults.arm(setup.fault_file.read_text()))
    leave(serve(lambda: make_worker(setup)))


if __name__ == "__main__":
    main()
