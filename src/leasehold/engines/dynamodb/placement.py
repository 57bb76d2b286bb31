"""Plans the jobs of triggers' decisions: each with its writes, to be sent together with its decision."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from leasehold.engines.dynamodb.enqueue import Enqueueing
from leasehold.engines.dynamodb.enqueue_plan import WINDOW, Plan, Request
from leasehold.engines.dynamodb.keys import hold_pk, read_timestamp
from leasehold.engines.dynamodb.table import Write
from leasehold.errors import InactiveDefinition, InvalidInput, PayloadInvalid, UnknownDefinition, UnknownTenant
from leasehold.model.decision import Decision, DecisionKind, Reason
from leasehold.model.dedupe import Dedupe, Within
from leasehold.model.event_plan import EventDecision
from leasehold.model.job import JobId, NewJob, TenantId

EnqueueingOf = Callable[[TenantId], Enqueueing]
# The key of a trailing run is held a little longer than the window at whose end the job runs.
LONGER = timedelta(seconds=60)
_REASONS: tuple[tuple[type[InvalidInput], Reason], ...] = (
    (InactiveDefinition, Reason.INACTIVE_DEFINITION),
    (UnknownDefinition, Reason.UNKNOWN_DEFINITION),
    (UnknownTenant, Reason.UNKNOWN_TENANT),
    (PayloadInvalid, Reason.INVALID_PAYLOAD),
)


@dataclass(frozen=True, slots=True)
class Placed:
    """A decision as it will be recorded, and the writes of its job."""

    decision: Decision
    writes: Sequence[Write] = field(default=())


class Placement:
    """Plans jobs of one tenant. A job that is refused becomes an error of its own decision."""

    def __init__(self, enqueueing: Enqueueing, plan: Plan) -> None:
        self._enqueueing = enqueueing
        self._plan = plan

    async def place(self, wanted: Sequence[EventDecision]) -> list[Placed]:
        asked = await self._ask([each.job for each in wanted if each.job is not None])
        answers = iter(asked)
        found = [next(answers) if each.job is not None else None for each in wanted]
        await self._enqueueing.read_for(self._plan, [each for each in asked if isinstance(each, Request)])
        return [await self._place(each, request) for each, request in zip(wanted, found, strict=True)]

    async def _ask(self, jobs: Sequence[NewJob]) -> list[Request | InvalidInput]:
        """Completes the jobs together; if that is refused, each on its own, so that a refusal concerns one job."""
        if not jobs:
            return []
        try:
            return list(await self._enqueueing.requests(jobs))
        except InvalidInput:
            return [await self._ask_one(job) for job in jobs]

    async def _ask_one(self, job: NewJob) -> Request | InvalidInput:
        try:
            (request,) = await self._enqueueing.requests([job])
        except InvalidInput as error:
            return error
        return request

    async def _place(self, wanted: EventDecision, request: Request | InvalidInput | None) -> Placed:
        if request is None:
            return Placed(wanted.decision)
        if isinstance(request, InvalidInput):
            return Placed(_refused(wanted.decision, request))
        job, created, writes = self._add(request)
        if created:
            return Placed(replace(wanted.decision, job=job), writes)
        return await self._place_late(wanted, request, job) or Placed(
            replace(wanted.decision, kind=DecisionKind.DEDUPED, job=job, why=f"job {job} holds the dedupe key")
        )

    async def _place_late(self, wanted: EventDecision, request: Request, holder: JobId) -> Placed | None:
        """Plans one more run at the end of the window. Its key names the holder: there is one for each window."""
        until = self._held_until(request)
        if not wanted.trailing or until is None or until <= self._plan.now:
            return None
        assert request.job.dedupe is not None
        key = f"{request.job.dedupe.key}:trailing:{holder}"
        late = replace(request.job, at=until, dedupe=Dedupe(key, Within(until - self._plan.now + LONGER)))
        (asked,) = await self._enqueueing.requests([late])
        await self._enqueueing.read_for(self._plan, [asked])
        job, created, writes = self._add(asked)
        if created:
            return Placed(
                replace(wanted.decision, job=job, why=f"it runs after the dedupe window of job {holder}"), writes
            )
        why = f"job {job} runs after the dedupe window"
        return Placed(replace(wanted.decision, kind=DecisionKind.DEDUPED, job=job, why=why))

    def _add(self, request: Request) -> tuple[JobId, bool, list[Write]]:
        before = set(self._plan.writes)
        answer = self._plan.add(request)
        return answer.id, answer.created, [write for key, write in self._plan.writes.items() if key not in before]

    def _held_until(self, request: Request) -> datetime | None:
        dedupe = request.job.dedupe
        if dedupe is None or dedupe.key is None:
            return None
        key = hold_pk(self._plan.tenant, dedupe.key), WINDOW
        item = self._plan.planned.get(key) or self._plan.found.get(key)
        return read_timestamp(item["expires_at"]) if item and item.get("expires_at") else None


def _refused(decision: Decision, error: InvalidInput) -> Decision:
    reason = next((reason for kind, reason in _REASONS if isinstance(error, kind)), Reason.REFUSED)
    kind = DecisionKind.SKIPPED if reason is Reason.INACTIVE_DEFINITION else DecisionKind.ERROR
    return replace(decision, kind=kind, reason=reason, why=error.happened)
