"""Explains why a job does not run: the conditions of a claim, in the order in which a claim meets them.

A check that is `blocking` keeps every claim from taking the job. A check that is `slow` only delays it, or says what
will happen when it starts. So the blocking checks are none if, and only if, a claim of a live worker that serves the
job takes it, once the worker has a free slot and the jobs ahead of it have had their turn.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from shlex import quote
from typing import Any

from leasehold.model.duration import span
from leasehold.model.explanation import Check, CheckState, Explanation
from leasehold.model.facts import COUNTED_AHEAD, JobFacts, LaneState, LockHolder, ScopeState, WorkerState
from leasehold.model.job import JobId, JobRecord
from leasehold.model.secret_fields import is_sealed
from leasehold.model.status import DisplayState, Status

TOLERATED_SKEW = timedelta(seconds=2)
SHOWN_WORKERS = 5


def explain(facts: JobFacts, skew: timedelta | None = None) -> Explanation:
    """Explains a job. `skew` tells how far the reader's clock is ahead of the engine's, if that is known."""
    return Explanation(facts.job, facts.now, list(_checks(facts, skew)))


def lane_checks(lane: LaneState) -> Iterator[Check]:
    """Yields the checks that all jobs of a lane share: for lists, and as a part of every explanation."""
    yield _definition(lane)
    yield from map(_pause, lane.scopes)
    yield from (_limit(state) for state in lane.scopes if state.max_running is not None)
    yield _worker(lane)


def waiting_reasons(lane: LaneState) -> list[str]:
    """Returns why nothing of the lane starts; empty if its jobs only wait for a free slot."""
    return [check.text for check in lane_checks(lane) if check.state is CheckState.BLOCKING]


def _checks(facts: JobFacts, skew: timedelta | None) -> Iterator[Check]:
    job = facts.job
    if job.status is not Status.QUEUED:
        yield _state(job, facts.now)
        if job.status is Status.RUNNING:
            yield _lease(facts)
        if facts.key_holder is not None:
            yield _dedupe_key(facts.key_holder)
        return
    yield Check("state", CheckState.OK, "it waits to be claimed", {"state": job.display.value})
    yield _due(job, facts.now)
    for check in lane_checks(facts.lane):
        yield _with_details(check, facts)
    serving = [worker for worker in facts.workers if worker.serves]
    if job.due:
        if serving:
            yield from _slots(serving)
        yield _position(facts)
    yield _lock(facts.locked_by, facts.now)
    if job.due and serving:
        yield from _wake(serving)
    yield from _prospects(facts)
    if skew is not None:
        yield _clock(skew)


# ------------------------------------------------------------------------------------------------------ the job


def _state(job: JobRecord, now: datetime) -> Check:
    evidence = {"state": job.display.value, "started_at": job.started_at, "finished_at": job.finished_at}
    if job.status is Status.RUNNING:
        since = f" for {span(now - job.started_at)}" if job.started_at else ""
        asked = ", and is asked to stop" if job.cancel_requested_at else ""
        text = f"it runs{since}, as try {job.tries} of {job.max_attempts}{asked}"
        return Check("state", CheckState.BLOCKING, text, evidence | {"worker": job.worker}, fix=_see("logs -f", job))
    if job.status is Status.BLOCKED:
        return Check("state", CheckState.BLOCKING, "it waits for other jobs", evidence)
    ago = f" {span(now - job.finished_at)} ago" if job.finished_at else ""
    text = f"it has ended{ago}: {job.display}, after {job.tries} of {job.max_attempts} tries"
    evidence |= {"error_code": job.last_error_code}
    again = job.status is not Status.SUCCEEDED
    return Check("state", CheckState.BLOCKING, text, evidence, fix=_see("retry", job) if again else None)


def _dedupe_key(holder: JobId) -> Check:
    text = f"a retry would be refused: job {holder} holds its dedupe key"
    return Check("dedupe_key", CheckState.BLOCKING, text, {"holder": holder}, fix=f"leasehold job {holder}")


def _lease(facts: JobFacts) -> Check:
    """A running job whose worker is gone goes on when another worker takes it over."""
    job, until = facts.job, facts.job.lease_expires_at
    living = [worker for worker in facts.workers if worker.alive]
    evidence = {"worker": job.worker, "lease_expires_at": until, "live_workers": len(living)}
    if until is not None and until > facts.now:
        return Check("lease", CheckState.OK, f"its worker's lease holds for {span(until - facts.now)}", evidence)
    over = "its worker is gone" if until is None else f"its worker's lease ended {span(facts.now - until)} ago"
    if living:
        return Check("lease", CheckState.SLOW, f"{over}: a live worker ends this try within a minute", evidence)
    text = f"{over}, and no live worker could end this try"
    return Check("lease", CheckState.BLOCKING, text, evidence, fix=f"{_START}; any worker does this")


def _due(job: JobRecord, now: datetime) -> Check:
    evidence: dict[str, Any] = {"scheduled_for": job.scheduled_for}
    if job.due:
        waited = span(now - max(job.scheduled_for, job.queued_at))
        return Check("due", CheckState.OK, f"it is due for {waited}", evidence)
    text = f"it is due in {span(job.scheduled_for - now)}"
    if job.display is DisplayState.RETRYING:
        text += f", for try {job.tries + 1} of {job.max_attempts}"
        evidence |= {"tries": job.tries, "max_attempts": job.max_attempts, "error_code": job.last_error_code}
    fix = _see("run-now", job)
    return Check("due", CheckState.BLOCKING, text, evidence, fix=fix, starts_at=job.scheduled_for)


def _see(verb: str, job: JobRecord) -> str:
    return f"leasehold {verb} {job.id}"


# ----------------------------------------------------------------------------------------------------- its lane


def _definition(lane: LaneState) -> Check:
    key = next((state.scope.key for state in lane.scopes if state.scope.kind == "definition"), "KEY")
    evidence = {"known": lane.known, "active": lane.active}
    if not lane.known:
        fix = "leasehold definitions sync TARGET, with code that has it"
        return Check("definition", CheckState.BLOCKING, "its definition does not exist", evidence, fix=fix)
    if not lane.active:
        fix = f"leasehold definitions activate {quote(key)}"
        return Check("definition", CheckState.BLOCKING, "its definition is inactive", evidence, fix=fix)
    return Check("definition", CheckState.OK, "its definition is active", evidence)


def _pause(state: ScopeState) -> Check:
    kind = state.scope.kind.value
    if state.paused_because is None:
        return Check(f"{kind}_pause", CheckState.OK, f"its {kind} is not paused")
    until = f" until {state.paused_until:%Y-%m-%d %H:%M:%S %Z}" if state.paused_until else ""
    since = f" since {state.paused_since:%Y-%m-%d %H:%M:%S %Z}" if state.paused_since else ""
    by = f" by {state.paused_by}" if state.paused_by else ""
    return Check(
        f"{kind}_pause",
        CheckState.BLOCKING,
        f"its {kind} is paused{until}: {state.paused_because}",
        {
            "why": state.paused_because,
            "since": state.paused_since,
            "until": state.paused_until,
            "by": state.paused_by,
        },
        (f"paused{since}{by}",) if since or by else (),
        f"leasehold resume {kind} {quote(state.scope.key)}",
        state.paused_until,
    )


def _limit(state: ScopeState) -> Check:
    kind, most, oldest = state.scope.kind.value, state.max_running or 0, state.oldest
    evidence = {
        "max_running": most,
        "running": state.running,
        "oldest_job": oldest and oldest.job,
        "oldest_started_at": oldest and oldest.started_at,
    }
    if not state.is_full:
        text = f"its {kind} runs {state.running} of {most} jobs"
        return Check(f"{kind}_limit", CheckState.OK, text, evidence)
    jobs = "1 job" if most == 1 else f"{most} jobs"
    return Check(
        f"{kind}_limit",
        CheckState.BLOCKING,
        f"its {kind} runs {jobs}, which is its limit",
        evidence,
        fix=f"leasehold limit {kind} {quote(state.scope.key)} --max-running {most + 1}, or wait until one ends",
    )


_START = "leasehold worker TARGET"


def _worker(lane: LaneState) -> Check:
    evidence = {"workers": lane.workers, "for_other_tenants": lane.elsewhere}
    if lane.workers:
        live = "1 live worker serves" if lane.workers == 1 else f"{lane.workers} live workers serve"
        return Check("worker", CheckState.OK, f"{live} it", evidence)
    if lane.elsewhere:
        tenant = next((state.scope.key for state in lane.scopes if state.scope.kind == "tenant"), "TENANT")
        text, fix = "no live worker serves it for this tenant", f"{_START} --tenants {quote(tenant)}"
    else:
        text, fix = "no live worker serves it", f"{_START}, with a handler for it that --only and --except let in"
    return Check("worker", CheckState.BLOCKING, text, evidence, fix=fix)


def _with_details(check: Check, facts: JobFacts) -> Check:
    """Adds what only a single job's explanation shows: which job holds a limit, and which workers there are."""
    more: tuple[str, ...] = ()
    if check.state is CheckState.BLOCKING and (since := check.evidence.get("oldest_started_at")):
        holder = check.evidence["oldest_job"] or "a job of another tenant"
        more = (f"the oldest of them, {holder}, has run for {span(facts.now - since)}",)
    elif check.state is CheckState.BLOCKING and check.name == "worker":
        more = tuple(_workers_at_hand(facts))
    if not more:
        return check
    evidence = dict(check.evidence)
    if check.name == "worker":
        evidence["at_hand"] = [_as_evidence(worker) for worker in facts.workers]
        if last := facts.last_worker:
            evidence["last_worker"] = {"worker": last.name, "id": last.id, "at": last.at}
    return Check(check.name, check.state, check.text, evidence, (*check.details, *more), check.fix, check.starts_at)


def _workers_at_hand(facts: JobFacts) -> Iterator[str]:
    if not any(worker.alive for worker in facts.workers):
        yield "no worker is alive"
    for worker in facts.workers[:SHOWN_WORKERS]:
        if not worker.alive:
            ended = span(facts.now - worker.lease_expires_at)
            yield f"worker {worker.name} {_serves(worker)}, but its lease ended {ended} ago"
        else:
            yield f"worker {worker.name} {_serves(worker)}"
    if (more := len(facts.workers) - SHOWN_WORKERS) > 0:
        yield f"and {more} more"
    if last := facts.last_worker:
        ago = span(facts.now - last.at)
        yield f"the last to end a job of its definition was worker {last.name or last.id}, {ago} ago"


def _serves(worker: WorkerState) -> str:
    if worker.serves_definition:
        return "serves it" if worker.serves_tenant else "serves it for other tenants"
    shown = ", ".join(worker.definitions[:SHOWN_WORKERS]) or "nothing"
    more = len(worker.definitions) - SHOWN_WORKERS
    return f"serves {shown}" + (f" and {more} more" if more > 0 else "")


def _as_evidence(worker: WorkerState) -> dict[str, Any]:
    return {
        "worker": worker.name,
        "id": worker.id,
        "alive": worker.alive,
        "serves_definition": worker.serves_definition,
        "serves_tenant": worker.serves_tenant,
        "definitions": worker.definitions,
        "last_seen_at": worker.last_seen_at,
    }


# ------------------------------------------------------------------------------------------ its turn, and its row


def _slots(serving: Sequence[WorkerState]) -> Iterator[Check]:
    if any(worker.running is None for worker in serving):
        return
    slots, free = sum(worker.slots for worker in serving), sum(worker.free_slots for worker in serving)
    evidence = {"slots": slots, "free": free, "workers": len(serving)}
    if free:
        yield Check("slots", CheckState.OK, f"{free} of {slots} slots of these workers are free", evidence)
    else:
        slots_of = "the slot of its worker is" if slots == 1 else f"all {slots} slots of these workers are"
        fix = f"{_START} --slots N, or wait until a job ends"
        yield Check("slots", CheckState.SLOW, f"{slots_of} busy", evidence, fix=fix)


def _position(facts: JobFacts) -> Check:
    evidence = {"ahead": facts.ahead, "counted_to": COUNTED_AHEAD, "priority": facts.job.priority}
    if not facts.ahead:
        return Check("position", CheckState.OK, "it is its tenant's next job", evidence)
    many = "at least " if facts.ahead >= COUNTED_AHEAD else ""
    jobs = "job of its tenant is" if facts.ahead == 1 else "jobs of its tenant are"
    text = f"{many}{facts.ahead} {jobs} ahead of it; tenants take turns"
    return Check("position", CheckState.SLOW, text, evidence, fix="enqueue urgent jobs with a lower priority")


def _lock(holder: LockHolder | None, now: datetime) -> Check:
    if holder is None:
        return Check("lock", CheckState.OK, "no transaction holds it")
    held = f" for {span(now - holder.since)}" if holder.since else ""
    named = ", ".join(part for part in (holder.session, holder.application, holder.state) if part)
    return Check(
        "lock",
        CheckState.BLOCKING,
        f"a transaction holds it{held} ({named}), and claims pass over it",
        {
            "session": holder.session,
            "application": holder.application,
            "state": holder.state,
            "since": holder.since,
        },
        fix="end that transaction; a claim or a change that is under way ends by itself",
    )


def _wake(serving: Sequence[WorkerState]) -> Iterator[Check]:
    known = [worker.listens for worker in serving if worker.listens is not None]
    if not known:
        return
    evidence = {"listening": sum(known), "workers": len(serving)}
    if any(known):
        yield Check("wake", CheckState.OK, f"{sum(known)} of {len(serving)} workers listen for wakes", evidence)
    else:
        text = "none of its workers listens for wakes: each looks every 2 s, unless set otherwise"
        fix = "leasehold doctor, which tells why; without a pooler in between workers are woken at once"
        yield Check("wake", CheckState.SLOW, text, evidence, fix=fix)


# ------------------------------------------------------------------------------------------------ once it is claimed


def _prospects(facts: JobFacts) -> Iterator[Check]:
    """Yields the reasons why the job would fail as soon as it is claimed."""
    job = facts.job
    if not facts.version_known:
        text = f"version {job.version} of its definition is gone: it will end as failed when it starts"
        fix = f"leasehold cancel {job.id}, and enqueue it again"
        yield Check("version", CheckState.SLOW, text, {"version": job.version}, fix=fix)
    if job.deadline is not None and job.deadline <= max(facts.now, job.scheduled_for):
        text = "its deadline comes before its start: it will end as failed"
        yield Check("deadline", CheckState.SLOW, text, {"deadline": job.deadline})
    if isinstance(job.payload, Mapping) and (secret := [n for n, value in job.payload.items() if is_sealed(value)]):
        evidence = {"fields": secret, "error_code": job.last_error_code}
        if job.last_error_code == "secret_unreadable":
            text = "the worker of its last try had no key for its secrets"
            fix = "set LEASEHOLD_SECRET_KEY of all workers to all keys in use"
            yield Check("secrets", CheckState.SLOW, text, evidence, fix=fix)
        else:
            text = "it has secret fields; registrations do not tell which keys a worker has"
            yield Check("secrets", CheckState.UNKNOWN, text, evidence)


def _clock(skew: timedelta) -> Check:
    evidence = {"ahead": skew.total_seconds()}
    if abs(skew) <= TOLERATED_SKEW:
        return Check("clock", CheckState.OK, f"clocks agree within {span(abs(skew))}", evidence)
    where = "ahead of" if skew > timedelta() else "behind"
    text = f"the clock here is {span(abs(skew))} {where} the database's, which decides when a job is due"
    return Check("clock", CheckState.SLOW, text, evidence, fix="set the clock of this machine, by NTP")
