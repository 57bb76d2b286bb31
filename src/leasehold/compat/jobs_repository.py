"""A queue by hand, for code that was written against a jobs repository: enqueue, claim, mark as done or failed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from os import getpid
from random import random
from socket import gethostname
from time import monotonic
from typing import Any, Self

from leasehold.app.client import Leasehold
from leasehold.config import VERSION, process_redactor
from leasehold.errors import InvalidInput, PayloadInvalid, RegistrationLost
from leasehold.model.backoff import SMALL_TEAM
from leasehold.model.bounds import describe, problems_of_duration
from leasehold.model.dedupe import DEFAULT_TENANT, Mode, WhileActive, canonical_key
from leasehold.model.definition import Definition, OnExhausted
from leasehold.model.duration import Duration, as_duration
from leasehold.model.job import Claim, JobId
from leasehold.model.outcome import Outcome, Raised, Succeeded, decide
from leasehold.model.payload import decode, encode_result
from leasehold.model.status import Status, parse_status
from leasehold.runtime.outage import Outage
from leasehold.store import Registration, Store, Subscription, WorkerFacts
from leasehold.store.reclaim import reclaim_orphans
from leasehold.worker.claims import ClaimLedger
from leasehold.worker.heartbeat import SHORTEST_LEASE
from leasehold.worker.opened_payload import open_payload
from leasehold.worker.store_calls import StoreCalls, was_written

LEASE = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class EnqueueJobInput:
    """A job for `JobsRepository.enqueue`. Without `org_id` it belongs to the app's own tenant, or to `default`.

    With `dedupe_key` or `dedupe` no second job is enqueued while one with this key is active, or for as long as
    `dedupe` says. A `dedupe` without a key uses the key that `JobsRepository.dedupe_key` makes.
    """

    type: str
    org_id: str | None = None
    payload: Mapping[str, Any] = field(default_factory=dict)
    run_at: datetime | None = None
    dedupe_key: str | None = None
    dedupe: Mode | None = None


class JobsRepository:
    """Claims and marks jobs by hand, within `app.open()`: your code runs them.

        async with app.open(), JobsRepository(app, types=["send_mail"]) as jobs:
            await jobs.enqueue(EnqueueJobInput("send_mail", org_id="acme", payload={"to": "ada@example.com"}))
            for claim in await jobs.claim(10):
                ...
                await jobs.mark_success(claim)

    A mark ends the claim of one attempt, never "the job". Marking a lost claim raises RegistrationLost and writes
    nothing. Claims hold for `lease` after the last claim, mark or `renew`; an enqueue renews nothing. A type that
    neither the app nor the database knows is registered with the retries of `backoff` and 5 attempts, and ends as
    `failed`; the registration of other code stays as it is. Leaving the block ends the claims that were not marked:
    the next claim counts them as crashed.
    """

    def __init__(self, app: Leasehold, types: Sequence[str] = (), lease: Duration = LEASE) -> None:
        self._app = app
        self._types = tuple(types) or tuple(app.handlers.keys)
        self._lease = _lease(lease)
        self._calls: StoreCalls | None = None
        self._ledger: ClaimLedger | None = None
        self._strays_until = float("-inf")
        if not self._types:
            raise InvalidInput(
                "a repository of no types would never claim anything. Nothing was opened.",
                fix='Name them: JobsRepository(app, types=["send_mail"]); or register handlers with the app.',
            )

    async def __aenter__(self) -> Self:
        store = self._store
        ours = {definition.key: definition for definition in self._app.handlers.definitions}
        of_others = {registered.definition.key for registered in await store.definitions()} - ours.keys()
        await store.sync_definitions([ours.get(key) or _by_hand(key) for key in self._types if key not in of_others])
        facts = WorkerFacts(gethostname(), getpid(), VERSION, metadata={"repository": "yes"})
        registration = await store.join(Subscription(self._types), facts, self._lease)
        self._calls = StoreCalls(store, registration, self._lease, Outage())
        self._ledger = ClaimLedger(self._calls)
        return self

    async def __aexit__(self, *_: object) -> None:
        calls, self._calls, self._ledger = self._calls, None, None
        if calls is not None:
            await self._store.leave(calls.registration)

    async def enqueue(self, job: EnqueueJobInput) -> JobId:
        """Returns the id of the new job, or of the one that holds the dedupe key.

        Raises PayloadInvalid if the payload does not fit the type.
        """
        if not isinstance(job.payload, Mapping):
            raise PayloadInvalid(
                f"payload={describe(job.payload)} is not a mapping. Nothing was enqueued.",
                fix="Pass a dict with a value for each argument.",
            )
        tenant = self._app.tenant(job.org_id or self._app._tenant or DEFAULT_TENANT)
        key, mode = job.dedupe_key, job.dedupe
        if key is not None and key == self.dedupe_key(job.type, job.org_id, dict(job.payload)):
            # The database makes this key itself, by the tenant and with the handler's defaults in the payload.
            key, mode = None, mode or WhileActive()
        options = tenant.options(at=job.run_at, dedupe_key=key, dedupe=mode)
        return (await options.aenqueue_key(job.type, dict(job.payload))).id

    async def claim(self, limit: int = 1) -> Sequence[Claim]:
        """Claims up to `limit` due jobs. Before that, the claims of dead workers are reclaimed.

        A claim's `payload` is JSON text, as it is stored: `reveal` decrypts its secret fields.

        If the answer to a claim is lost, the next claim gives its jobs back. The server may still be working on the
        lost claim then, so each claim looks again until a lease has passed.
        """
        await self.renew()
        await reclaim_orphans(self._store)
        ledger = self._open_ledger()
        if monotonic() < self._strays_until:
            ledger.expect_strays()
        try:
            return (await ledger.claim(self._store.claim, limit)).claims
        except BaseException:
            self._strays_until = monotonic() + self._lease.total_seconds()
            raise

    @staticmethod
    def reveal(claim: Claim) -> Mapping[str, Any]:
        """Returns the payload of a claim in plain, with its secret fields decrypted."""
        return open_payload(claim, decode(claim.payload)).payload

    async def mark_success(self, claim: Claim, result: Any = None) -> None:
        await self._mark(claim, Succeeded(None if result is None else process_redactor().json(encode_result(result))))

    async def mark_failure(self, claim: Claim, error: str, *, code: str = "error", final: bool = False) -> None:
        """Queues the job again after its backoff; ends it if its attempts are used up, or if it is `final`."""
        for name, value in (("error", error), ("code", code)):
            if not isinstance(value, str):
                raise InvalidInput(
                    f"{name}={describe(value)} is not text. Nothing was written, and the claim is still held.",
                    fix=f"Mark it again with {name} as text, such as str(error).",
                )
        await self._mark(claim, Raised(code, process_redactor().text(error), final=final))

    async def renew(self) -> None:
        """Extends the lease of all claims. Raises RegistrationLost when it had run out, and others have the jobs.

        Names all held claims, so a renewal takes longer the more are held: an engine may keep a lease on each claim.
        """
        registration = self._registration()
        if not (await self._store.renew(registration, tuple(self._open_ledger().held), self._lease)).alive:
            raise _loss(f"worker {registration.worker} was evicted: nothing was called for a whole lease.")

    async def _mark(self, claim: Claim, outcome: Outcome) -> None:
        verdict = decide(outcome, claim, random())
        fenced = await self._store.finish([(claim, verdict)])
        self._open_ledger().remove_held(claim)
        if fenced and not await was_written(self._store, claim, verdict):
            raise _loss(f"job {claim.job} try {claim.tries} lost its lease.")
        await self._store.renew(self._registration(), tuple(self._open_ledger().held), self._lease)

    @property
    def _store(self) -> Store:
        return self._app.store

    def _registration(self) -> Registration:
        if self._calls is None:
            raise _not_open()
        return self._calls.registration

    def _open_ledger(self) -> ClaimLedger:
        if self._ledger is None or self._calls is None:
            raise _not_open()
        self._calls.store = self._store  # a worker of this process that joins again brings another one
        return self._ledger

    # -------------------------------------------------------------------------------------------- rules, as functions

    @staticmethod
    def backoff(attempts: int) -> timedelta:
        """Returns the delay after so many attempts: 1 s after none or one, then 2, 4, 8 s and so on, at most 60 s."""
        return SMALL_TEAM.backoff.delay(max(1, attempts), jitter=0)

    @staticmethod
    def can_retry(status: str, attempts: int, max_attempts: int = SMALL_TEAM.max_attempts) -> bool:
        """Returns whether attempts are left and the job has neither succeeded nor runs."""
        return parse_status(status) not in (Status.SUCCEEDED, Status.RUNNING) and attempts < max_attempts

    @staticmethod
    def dedupe_key(type: str, org_id: str | None, payload: Mapping[str, Any]) -> str:  # noqa: A002
        """Returns `<type>::<org_id or global>::<payload as JSON with sorted keys>`: the same for equal jobs.

        At most 1,000 characters: in a longer key, `sha256:` and a hash replace the JSON.
        """
        return canonical_key(type, org_id, payload)


def _not_open() -> InvalidInput:
    return InvalidInput(
        "the repository is not open. Nothing was done.",
        fix="Write: async with JobsRepository(app) as jobs: …",
    )


def _by_hand(key: str) -> Definition:
    preset = SMALL_TEAM
    return Definition(key, backoff=preset.backoff, max_attempts=preset.max_attempts, on_exhausted=OnExhausted.FAILED)


def _lease(given: Duration) -> timedelta:
    lease: timedelta = as_duration(given)
    if problems := list(problems_of_duration("lease", lease, least=SHORTEST_LEASE)):
        raise InvalidInput(
            f"The repository can't be used: {problems[0]}.",
            fix="Nothing was opened. Correct the lease; 60s is the default.",
        )
    return lease


def _loss(happened: str) -> RegistrationLost:
    return RegistrationLost(
        f"{happened} Nothing was written.", fix="Others have its jobs: drop them, and open it again."
    )
