"""A queue by hand, for code that was written against a jobs repository: enqueue, claim, mark as done or failed."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from os import getpid
from random import random
from socket import gethostname
from time import monotonic
from typing import TYPE_CHECKING, Any, Self

from leasehold.config import VERSION
from leasehold.errors import InvalidInput, PayloadInvalid, RegistrationLost
from leasehold.model.backoff import SMALL_TEAM
from leasehold.model.bounds import described, problems_of_duration
from leasehold.model.dedupe import DEFAULT_TENANT, Mode, WhileActive, canonical_key
from leasehold.model.definition import Definition, OnExhausted
from leasehold.model.duration import Duration, as_duration
from leasehold.model.job import Claim, JobId
from leasehold.model.outcome import Outcome, Raised, Released, Succeeded, decide
from leasehold.model.payload import encode_result
from leasehold.model.status import Status, parse_status
from leasehold.store import Registration, Store, Subscription, WorkerFacts
from leasehold.worker.fence import was_written
from leasehold.worker.heartbeat import SHORTEST_LEASE
from leasehold.worker.upkeep import reclaim_orphans

if TYPE_CHECKING:
    from leasehold.app.app import Leasehold

LEASE = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class EnqueueJobInput:
    """What `JobsRepository.enqueue` takes. Without `org_id` it is for the app's own tenant, or for `default`.

    `dedupe_key` or `dedupe`: no second job while one with this key is active, or for as long as `dedupe` says. A
    `dedupe` without a key uses the one that `JobsRepository.dedupe_key` makes.
    """

    type: str
    org_id: str | None = None
    payload: Mapping[str, Any] = field(default_factory=dict)
    run_at: datetime | None = None
    dedupe_key: str | None = None
    dedupe: Mode | None = None


class JobsRepository:
    """Jobs by hand, within `app.open()`: you run them, it keeps the promises.

        async with app.open(), JobsRepository(app, types=["send_mail"]) as jobs:
            await jobs.enqueue(EnqueueJobInput("send_mail", org_id="acme", payload={"to": "ada@example.com"}))
            for claim in await jobs.claim(10):
                ...
                await jobs.mark_success(claim)

    Nothing marks "a job": it is the claim of one attempt that is marked. One that was lost raises RegistrationLost,
    and
    nothing is written. Claims hold for `lease` after the last claim, mark or `renew`; an enqueue renews nothing. A
    type that neither the app nor the database knows is registered with the retries of `backoff` and 5 attempts, and
    ends as `failed`; one that other code has registered stays as that code said. Leaving the block ends the claims
    that were not marked: whoever claims next takes them for crashed.
    """

    def __init__(self, app: "Leasehold", types: Sequence[str] = (), lease: Duration = LEASE) -> None:
        self._app = app
        self._types = tuple(types) or tuple(app.handlers.keys)
        self._lease = _lease(lease)
        self._registration: Registration | None = None
        self._claiming = asyncio.Lock()
        self._unmarked: set[Claim] = set()
        self._claim_failed_at: float | None = None
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
        self._registration = await store.join(Subscription(self._types), facts, self._lease)
        return self

    async def __aexit__(self, *_: object) -> None:
        registration, self._registration = self._registration, None
        if registration is not None:
            await self._store.leave(registration)

    async def enqueue(self, job: EnqueueJobInput) -> JobId:
        """Returns the id of the new job, or of the one that holds the dedupe key.

        Raises PayloadInvalid if the payload does not fit the type.
        """
        if not isinstance(job.payload, Mapping):
            raise PayloadInvalid(
                f"payload={described(job.payload)} is not a mapping. Nothing was enqueued.",
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
        """Up to `limit` due jobs. Before that, claims of workers that are gone are taken from them.

        A claim's `payload` is JSON text, as it is stored.
        """
        await self.renew()
        await reclaim_orphans(self._store)
        async with self._claiming:  # one at a time: what another claim is about to return is no stray
            await self._give_strays_back()
            try:
                claims = (await self._store.claim(self._held_registration(), limit)).claims
            except BaseException:
                self._claim_failed_at = monotonic()
                raise
            self._unmarked.update(claims)
            return claims

    async def mark_success(self, claim: Claim, result: Any = None) -> None:
        await self._mark(claim, Succeeded(None if result is None else encode_result(result)))

    async def mark_failure(self, claim: Claim, error: str, *, code: str = "error", final: bool = False) -> None:
        """Queued again after its backoff, or ended when its attempts are used up, or at once if it is `final`."""
        for name, value in (("error", error), ("code", code)):
            if not isinstance(value, str):
                raise InvalidInput(
                    f"{name}={described(value)} is not text. Nothing was written, and the claim is still held.",
                    fix=f"Mark it again with {name} as text, such as str(error).",
                )
        await self._mark(claim, Raised(code, error, final=final))

    async def renew(self) -> None:
        """Extends the lease of all claims. Raises RegistrationLost when it had run out, and others have the jobs."""
        registration = self._held_registration()
        if not (await self._store.renew(registration, tuple(self._unmarked), self._lease)).alive:
            raise _lost(f"worker {registration.worker} was evicted: nothing was called for a whole lease.")

    async def _give_strays_back(self) -> None:
        """What a claim took whose answer never came: nobody else would get it for as long as this registration is
        renewed.

        The server may still be at it when we look for the first time, so we look again until a lease has passed.
        """
        if self._claim_failed_at is None:
            return
        is_last_look = monotonic() - self._claim_failed_at > self._lease.total_seconds()
        strays = [claim for claim in await self._store.held(self._held_registration()) if claim not in self._unmarked]
        if strays:
            await self._store.finish([(claim, decide(Released(), claim, random())) for claim in strays])
        if is_last_look:
            self._claim_failed_at = None

    async def _mark(self, claim: Claim, outcome: Outcome) -> None:
        verdict = decide(outcome, claim, random())
        fenced = await self._store.finish([(claim, verdict)])
        self._unmarked.discard(claim)
        if fenced and not await was_written(self._store, claim, verdict):
            raise _lost(f"job {claim.job} try {claim.tries} lost its lease.")
        await self._store.renew(self._held_registration(), tuple(self._unmarked), self._lease)

    @property
    def _store(self) -> Store:
        return self._app.store

    def _held_registration(self) -> Registration:
        if self._registration is None:
            raise InvalidInput(
                "the repository is not open. Nothing was done.",
                fix="Write: async with JobsRepository(app) as jobs: …",
            )
        return self._registration

    # -------------------------------------------------------------------------------------------- rules, as functions

    @staticmethod
    def backoff(attempts: int) -> timedelta:
        """How long to wait after so many attempts: 1 s after none or one, then 2, 4, 8 s and so on, at most 60 s."""
        return SMALL_TEAM.backoff.delay(max(1, attempts), jitter=0)

    @staticmethod
    def can_retry(status: str, attempts: int, max_attempts: int = SMALL_TEAM.max_attempts) -> bool:
        """Not what has succeeded or runs; anything else while attempts are left."""
        return parse_status(status) not in (Status.SUCCEEDED, Status.RUNNING) and attempts < max_attempts

    @staticmethod
    def dedupe_key(type: str, org_id: str | None, payload: Mapping[str, Any]) -> str:  # noqa: A002
        """`<type>::<org_id or global>::<payload as JSON with sorted keys>`: the same for equal jobs.

        At most 1,000 characters: of a longer one, the JSON is written as `sha256:` and its hash.
        """
        return canonical_key(type, org_id, payload)


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


def _lost(happened: str) -> RegistrationLost:
    return RegistrationLost(
        f"{happened} Nothing was written.", fix="Others have its jobs: drop them, and open it again."
    )
