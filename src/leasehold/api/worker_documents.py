"""The bodies of requests and answers of workers in any language."""

from typing import Annotated, Any, Literal

from pydantic import Field

from leasehold.api.documents import Sent, Told, example

_ID = "01989c1e-77b0-7000-8000-000000000042"


class Claims(Sent):
    """A claim of jobs. Without `worker_id` the worker joins, and the answer has its id for all later requests."""

    model_config = example(definitions=["sync-dropbox"], limit=1, host="host-2")
    worker_id: Annotated[str | None, Field(max_length=36)] = None
    definitions: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=100)]] | None, Field(max_length=100)
    ] = None
    limit: Annotated[int, Field(ge=1, le=100)] = 1
    lease_seconds: Annotated[int, Field(ge=5, le=3600)] = 60
    host: Annotated[str, Field(min_length=1, max_length=200)] = "http"
    pid: Annotated[int, Field(ge=0, le=2_147_483_647)] = 0
    version: Annotated[str, Field(max_length=100)] = ""


class WrittenLine(Sent):
    number: Annotated[int, Field(ge=1, le=2_147_483_647)]
    text: Annotated[str, Field(max_length=10_000)]
    kind: Literal["log", "progress", "stdout", "stderr"] = "log"
    progress: Annotated[float | None, Field(ge=0, le=1)] = None


class OfClaim(Sent):
    """The claim that a request is about: `fence` as it was claimed."""

    worker_id: Annotated[str, Field(max_length=36)]
    fence: Annotated[str, Field(min_length=1, max_length=200)]
    lines: Annotated[list[WrittenLine], Field(max_length=100, default_factory=list)]


class Heartbeat(OfClaim):
    model_config = example(worker_id=_ID, fence="1-7-…", lines=[{"number": 1, "text": "page 1 of 9"}])


class Complete(OfClaim):
    model_config = example(worker_id=_ID, fence="1-7-…", result={"pages": 9})
    result: Any = None


class Fail(OfClaim):
    """The error of an attempt. `final`: it shall not be retried; `retry_in_seconds` replaces its backoff."""

    model_config = example(worker_id=_ID, fence="1-7-…", error="the provider answered 503", code="provider_down")
    error: Annotated[str, Field(max_length=10_000)]
    code: Annotated[str, Field(min_length=1, max_length=200)] = "error"
    final: bool = False
    retry_in_seconds: Annotated[float | None, Field(ge=0, le=315_360_000)] = None


class ClaimDocument(Told):
    """One claim. `fence` is sent back with every request about it. Encrypted fields are as they are stored."""

    job_id: str
    tenant_id: str
    definition_key: str
    attempt: int
    fence: str
    payload: Any
    timeout_seconds: float | None


class ClaimsDocument(Told):
    """Claims, and how long until the next job is due; `more`: there may be more jobs now."""

    worker_id: str
    lease_seconds: float
    claims: list[ClaimDocument]
    more: bool
    next_due_seconds: float | None


class HeartbeatDocument(Told):
    """`cancel_requested`: stop the job, and fail it."""

    cancel_requested: bool
    lease_seconds: float


class FinishedDocument(Told):
    """The status of the job after this attempt."""

    job_id: str
    status: str
