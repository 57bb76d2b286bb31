"""The bodies of requests and answers of workers that run the program of Leasehold."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from leasehold.api.documents import Sent, Told, example

_ID = "01989c1e-77b0-7000-8000-000000000042"
_WORKER = "5b0cb5c6-6f2f-4a08-9a4c-0f6f1c1f0a11"
_CLAIM: dict[str, Any] = {"tenant_id": "acme", "job_id": _ID, "attempt": 1, "batch": 77}
_DEFINITION: dict[str, Any] = {
    "key": "report",
    "description": "",
    "schema": None,
    "timeout_seconds": 3600,
    "max_attempts": 5,
    "backoff": {"base": 5, "factor": 2, "cap": 3600, "jitter": 1},
    "priority": 100,
    "retention_seconds": {"succeeded": 2592000, "canceled": 2592000, "failed": None, "dead_letter": None},
    "on_exhausted": "dead_letter",
    "durable_claims": False,
}
WorkerName = Annotated[str, Field(min_length=1, max_length=36)]
Key = Annotated[str, Field(min_length=1, max_length=100)]
Seconds = Annotated[float, Field(ge=0, le=315_360_000)]
Count = Annotated[int, Field(ge=0, le=2_147_483_647)]


class WorkHello(Told):
    """The versions of these requests that the server understands, and what the token is for.

    `syncs` are the definitions that it may register; null: all. `definitions` null: it may serve all.
    """

    model_config = example(
        oldest=1,
        protocol=1,
        definitions=["report"],
        syncs=["report"],
        abilities={"wakes": True},
        longest_lease_seconds=3600,
    )
    oldest: int
    protocol: int
    tenant_id: str | None = None
    definitions: list[str] | None = None
    syncs: list[str] | None = None
    abilities: dict[str, bool]
    longest_lease_seconds: float


class Join(Sent):
    """A worker and what it serves. `tenants` null: all that its token allows."""

    model_config = Sent.model_config | example(
        definitions=["report"],
        tenants=None,
        host="host-2",
        pid=4711,
        version="1.0",
        slots=10,
        metadata={"zone": "b"},
        lease_seconds=60,
    )
    definitions: Annotated[list[Key], Field(min_length=1, max_length=1000)]
    tenants: Annotated[list[Key] | None, Field(max_length=1000)] = None
    host: Annotated[str, Field(min_length=1, max_length=200)]
    pid: Count = 0
    version: Annotated[str, Field(max_length=100)] = ""
    slots: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    metadata: Annotated[dict[str, str], Field(max_length=100, default_factory=dict)]
    lease_seconds: Seconds = 60


class RegistrationDocument(Told):
    model_config = example(worker_id=_WORKER, definitions=["report"], tenants=["acme"])
    worker_id: str
    definitions: list[str]
    tenants: list[str] | None = None


class OfWorker(Sent):
    model_config = Sent.model_config | example(worker_id=_WORKER)
    worker_id: WorkerName


class ClaimName(Sent):
    """A claim, by its fence."""

    model_config = Sent.model_config | example(**_CLAIM)
    tenant_id: Key
    job_id: Annotated[str, Field(max_length=36)]
    attempt: Annotated[int, Field(ge=1, le=2_147_483_647)]
    batch: Annotated[int, Field(ge=0, le=2**53)]


class Renew(OfWorker):
    """All claims that the worker knows of, and the lease that it needs from now on.

    `look` asks whether work waits, `probe` for a wake `heartbeat` to this worker.
    """

    model_config = Sent.model_config | example(worker_id=_WORKER, held=[_CLAIM], lease_seconds=60)
    held: Annotated[list[ClaimName], Field(max_length=5000, default_factory=list)]
    lease_seconds: Seconds = 60
    look: bool = False
    probe: bool = False


class RenewalDocument(Told):
    """`lost` and `cancels` are places in `held`, from 0. Not `alive`: stop every run, and join again.

    `strays`: the worker holds claims that it did not name.
    """

    model_config = example(alive=True, lost=[], cancels=[0], strays=False, next_due_seconds=12.5, work_waits=False)
    alive: bool
    lost: list[int]
    cancels: list[int]
    strays: bool
    next_due_seconds: float | None = None
    work_waits: bool


class Leave(OfWorker):
    """`has_claimed` false: it never claimed a job."""

    has_claimed: bool = True


class Claim(OfWorker):
    """A claim of up to `limit` due jobs, at most 100. `prepare_to_sleep` announces that the worker will wait for a
    wake if there are none.
    """

    model_config = Sent.model_config | example(worker_id=_WORKER, limit=10, prepare_to_sleep=False)
    limit: Annotated[int, Field(ge=1, le=1000)] = 1
    prepare_to_sleep: bool = False


class ClaimedDocument(Told):
    """Claims. `definition` of a claim is a place in `definitions`; `payload` is JSON as text.

    `more`: there may be more ready jobs. `next_due_seconds`: how long until the next job is due.
    """

    model_config = example(
        claims=[{**_CLAIM, "definition": 0, "version": 1, "payload": '{"name": "june"}'}],
        definitions=[_DEFINITION],
        more=False,
        next_due_seconds=None,
    )
    claims: list[dict[str, Any]]
    definitions: list[dict[str, Any]]
    more: bool
    next_due_seconds: float | None = None


class WrittenVerdict(Sent):
    """The end of an attempt. `result` and `details` are JSON as text."""

    model_config = Sent.model_config | example(status="succeeded", attempt="succeeded", result='{"pages": 9}')
    status: Annotated[str, Field(max_length=20)]
    attempt: Annotated[str, Field(max_length=20)]
    delay_seconds: Seconds = 0
    free_attempts: Annotated[int, Field(ge=0, le=1)] = 0
    result: str | None = None
    error: str | None = None
    error_code: str | None = None
    exit_code: int | None = None
    details: str | None = None


class Ended(ClaimName):
    model_config = Sent.model_config | example(**_CLAIM, verdict={"status": "succeeded", "attempt": "succeeded"})
    verdict: WrittenVerdict


class Finish(OfWorker):
    """Verdicts on claims. They are written all, but for claims that are lost."""

    model_config = Sent.model_config | example(
        worker_id=_WORKER, done=[{**_CLAIM, "verdict": {"status": "succeeded", "attempt": "succeeded"}}]
    )
    done: Annotated[list[Ended], Field(max_length=100)]


class RefusedDocument(Told):
    """The places of claims that are lost, from 0: nothing was written for those."""

    model_config = example(refused=[])
    refused: list[int]


class SentLine(ClaimName):
    """A line of a claim. The worker numbers the lines of an attempt, so that a repeated one is stored once."""

    model_config = Sent.model_config | example(**_CLAIM, number=1, text="page 1 of 9", kind="log")
    number: Count
    text: Annotated[str, Field(max_length=10_000)]
    kind: Annotated[str, Field(max_length=20)] = "log"
    progress: Annotated[float | None, Field(ge=0, le=1)] = None


class AppendLines(OfWorker):
    model_config = Sent.model_config | example(
        worker_id=_WORKER, lines=[{**_CLAIM, "number": 1, "text": "page 1 of 9", "kind": "log"}]
    )
    lines: Annotated[list[SentLine], Field(max_length=100)]


class OwnAttempts(OfWorker):
    model_config = Sent.model_config | example(worker_id=_WORKER, tenant_id="acme", job_id=_ID)
    tenant_id: Key
    job_id: Annotated[str, Field(max_length=36)]


class OwnAttempt(Told):
    number: int
    status: str
    started_at: datetime
    finished_at: datetime | None = None


class OwnAttemptsDocument(Told):
    """The attempts of a job that this worker has made."""

    attempts: list[OwnAttempt]


class PollWakes(OfWorker):
    """`feed` and `heard` are those of the answer before; without them all that may have been missed is told again."""

    model_config = Sent.model_config | example(worker_id=_WORKER, feed=None, heard=0, wait_seconds=25)
    feed: Annotated[str | None, Field(max_length=2000)] = None
    heard: Annotated[int, Field(ge=0, le=2**53)] = 0
    wait_seconds: Annotated[float, Field(ge=0, le=60)] = 25


class WakesDocument(Told):
    """Wakes: `work`, `cancel`, `heartbeat`, or `due` with a definition and `wait_seconds`. A wake is a hint."""

    model_config = example(feed="9f86d081884c7d65", heard=3, wakes=[{"kind": "work"}])
    feed: str
    heard: int
    wakes: list[dict[str, Any]]


class SyncDefinitions(Sent):
    """Definitions as the code of the worker has them. All of them must be those of its token."""

    model_config = Sent.model_config | example(definitions=[_DEFINITION])
    definitions: Annotated[list[dict[str, Any]], Field(max_length=1000)]


class ChangesDocument(Told):
    """One change for each definition, in the order sent; `fields` has the values before and after, as text."""

    model_config = example(
        changes=[{"key": "report", "version": 2, "fields": {"priority": ["100", "50"]}, "created": False}]
    )
    changes: list[dict[str, Any]]
