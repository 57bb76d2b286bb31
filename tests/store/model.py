"""The rules of the queue in memory, for one tenant and one definition. Its clock counts hours."""

from dataclasses import dataclass, field

from tests.tenant_kit import HOUR

from leasehold.model.job import Claim, JobId, WorkerId
from leasehold.model.outcome import Verdict
from leasehold.model.status import AttemptStatus, Status
from leasehold.store import CancelAnswer, Registration, RescheduleAnswer, RetryAnswer


@dataclass
class ModelJob:
    id: JobId
    number: int
    priority: int
    key: str | None
    due_at: int
    waited: bool
    """A wait or a second life gave it another place among those of its priority than its number says."""
    status: Status = Status.QUEUED
    attempt: int = 0
    free_attempts: int = 0
    worker: WorkerId | None = None
    cancel_requested: bool = False
    history: list[tuple[int, AttemptStatus]] = field(default_factory=list)
    lines: dict[int, set[int]] = field(default_factory=dict)

    @property
    def active(self) -> bool:
        return not self.status.final

    def held_by(self, claim: Claim) -> bool:
        fence = (self.status, self.id, self.attempt, self.worker)
        return fence == (Status.RUNNING, claim.job, claim.attempt, claim.worker)


@dataclass
class ModelRegistration:
    registration: Registration
    expires_at: int
    ended: bool = False


class Model:
    """The rules, in memory. Ids, and the jobs of a claim, it learns from the engine."""

    def __init__(self) -> None:
        self.now = 0
        self.jobs: dict[JobId, ModelJob] = {}
        self.registrations: dict[WorkerId, ModelRegistration] = {}

    def holder_of(self, key: str | None) -> ModelJob | None:
        return next((job for job in self.jobs.values() if job.active and job.key == key), None) if key else None

    def enqueued(self, job: JobId, priority: int, delay: int, key: str | None) -> None:
        self.jobs[job] = ModelJob(job, len(self.jobs), priority, key, self.now + delay, waited=delay > 0)

    def ready(self) -> list[ModelJob]:
        return [job for job in self.jobs.values() if job.status is Status.QUEUED and job.due_at <= self.now]

    def claimed(self, claim: Claim) -> None:
        job = self.jobs[claim.job]
        job.status, job.worker, job.attempt = Status.RUNNING, claim.worker, job.attempt + 1

    def finished(self, claim: Claim, verdict: Verdict) -> bool:
        """Whether the fence let it through."""
        job = self.jobs[claim.job]
        if not job.held_by(claim):
            return False
        again = verdict.status is Status.QUEUED
        job.history.append((job.attempt, verdict.attempt))
        job.status = Status.CANCELED if again and job.cancel_requested else verdict.status
        job.free_attempts += verdict.free_attempts if job.active else 0
        job.worker = None
        if job.active:
            self._wait(job, int(verdict.delay / HOUR))
        return True

    def canceled(self, job: ModelJob) -> CancelAnswer:
        if job.status is Status.QUEUED:
            job.status = Status.CANCELED
            return CancelAnswer.CANCELED
        if job.status is Status.RUNNING:
            job.cancel_requested = True
            return CancelAnswer.REQUESTED
        return CancelAnswer.ENDED

    def retried(self, job: ModelJob, seen: int) -> RetryAnswer:
        if job.active:
            return RetryAnswer.ACTIVE
        if job.attempt != seen:
            return RetryAnswer.CHANGED
        if self.holder_of(job.key):
            return RetryAnswer.DUPLICATE
        job.status, job.free_attempts, job.cancel_requested = Status.QUEUED, job.attempt, False
        self._wait(job, 0)
        return RetryAnswer.QUEUED

    def rescheduled(self, job: ModelJob, delay: int) -> RescheduleAnswer:
        if job.status is not Status.QUEUED:
            return RescheduleAnswer.NOT_WAITING
        self._wait(job, delay)
        return RescheduleAnswer.RESCHEDULED

    def is_live(self, claim: Claim) -> bool:
        return self.jobs[claim.job].held_by(claim)

    def must_be_alive(self, registration: Registration) -> bool:
        """A registration whose lease is over may be alive, until another worker evicts it."""
        return not self.must_be_gone(registration) and self.registrations[registration.worker].expires_at > self.now

    def must_be_gone(self, registration: Registration) -> bool:
        return self.registrations[registration.worker].ended

    def evicted(self, spare: Registration | None = None) -> None:
        for each in self.registrations.values():
            each.ended |= each.expires_at <= self.now and each.registration != spare

    def orphans(self) -> set[tuple[JobId, int, WorkerId]]:
        return {
            (job.id, job.attempt, job.worker)
            for job in self.jobs.values()
            if job.worker is not None and self.registrations[job.worker].ended
        }

    def _wait(self, job: ModelJob, delay: int) -> None:
        job.due_at, job.waited = self.now + delay, True
