"""The bodies of requests and answers. Requests refuse unknown fields; answers may gain fields."""

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Header, Path, Query
from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, WithJsonSchema

from leasehold.model.job import JobId, Source, TenantId, job_id, tenant_id
from leasehold.model.trigger import TriggerId, trigger_id

MOST_ON_A_PAGE = 200
DEEPEST_OFFSET = 1000
_ID = "01989c1e-77b0-7000-8000-000000000042"
_AT = "2026-02-16T10:30:01Z"


_UUID = WithJsonSchema({"type": "string", "format": "uuid"})
JobIdPath = Annotated[JobId, Path(alias="job_id"), AfterValidator(job_id), _UUID]
TriggerIdPath = Annotated[TriggerId, Path(alias="trigger_id"), AfterValidator(trigger_id), _UUID]
OfTenant = Annotated[
    TenantId | None,
    Query(alias="tenant", description="The tenant; only for tokens of all tenants.", max_length=100),
    AfterValidator(lambda text: None if text is None else tenant_id(text)),
]
OfEveryone = Annotated[
    bool,
    Query(alias="all_tenants", description="Triggers for all tenants; only for tokens of all tenants."),
]
Limit = Annotated[int, Query(ge=1, le=MOST_ON_A_PAGE, description="At most so many.")]
Offset = Annotated[int, Query(ge=0, le=DEEPEST_OFFSET, description="Leaves out so many; use the cursor beyond that.")]
Cursor = Annotated[str | None, Query(max_length=2000, description="`next` of the page before.")]
IdempotencyKey = Annotated[
    str | None,
    Header(alias="Idempotency-Key", description="1 to 200 printable ASCII characters, best a UUID, for each call."),
]
Text = Annotated[str, Field(min_length=1, max_length=1000)]


class Sent(BaseModel):
    """The body of a request."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Told(BaseModel):
    """The body of an answer."""

    model_config = ConfigDict(extra="allow")


def example(**fields: Any) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": [fields]})


# --------------------------------------------------------------------------------------------------------------- jobs


class EnqueueJob(Sent):
    """A job to enqueue. `scheduled_for` and `delay_seconds` say when it is due; without them it is now."""

    model_config = example(
        definition_key="recompute-trained-tags",
        payload={"model": "siglip"},
        priority=100,
        scheduled_for="2026-02-16T10:30:00Z",
        dedupe_key="tenant:bcg:training:daily",
    )
    definition_key: Annotated[str, Field(min_length=1, max_length=100)]
    payload: dict[str, Any] = {}
    priority: int | None = None
    scheduled_for: Annotated[AwareDatetime | None, Field(strict=False)] = None
    delay_seconds: Annotated[float | None, Field(ge=0, le=315_360_000)] = None
    deadline: Annotated[AwareDatetime | None, Field(strict=False)] = None
    max_attempts: Annotated[int | None, Field(ge=1, le=1_000_000)] = None
    dedupe_key: Text | None = None
    dedupe_window_seconds: Annotated[float | None, Field(gt=0, le=315_360_000)] = None
    on_conflict: Literal["return", "raise", "replace"] = "return"
    correlation_id: Text | None = None


class Reschedule(Sent):
    """When a waiting job shall be due, and its priority. A field that is left out stays."""

    model_config = example(delay_seconds=0, priority=10)
    delay_seconds: Annotated[float | None, Field(ge=0, le=315_360_000)] = None
    priority: int | None = None


class JobDocument(Told):
    """A job. `status` is the stored one, `state` the one that people see.

    `payload` and `result` are null without the permission payloads:read, `last_error` without logs:read, and `hidden`
    names them then.
    """

    model_config = example(
        id=_ID,
        tenant_id="acme",
        status="queued",
        state="ready",
        definition_key="recompute-trained-tags",
        queued_at=_AT,
    )
    id: str
    tenant_id: str
    definition_key: str
    status: str
    state: str
    queued_at: datetime
    scheduled_for: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    priority: int | None = None
    attempt: int | None = None
    tries: int | None = None
    max_attempts: int | None = None
    payload: Any = None
    result: Any = None
    last_error: str | None = None
    last_error_code: str | None = None
    source: Source | None = None
    source_ref: str | None = None
    correlation_id: str | None = None
    created_by: str | None = None
    held_by: list[str] = []
    hidden: list[str] = []


class EnqueuedDocument(JobDocument):
    """The job that the request created, or the one that holds its key or id: `created` tells."""

    model_config = example(
        id=_ID,
        tenant_id="acme",
        status="queued",
        state="ready",
        definition_key="recompute-trained-tags",
        queued_at=_AT,
        created=True,
    )
    created: bool
    replaced: bool = False


class JobPageDocument(Told):
    """Jobs, newest first. `next` is the cursor of the following page; null after the last one.

    A page of all tenants by a filter may have fewer jobs than `limit`, even none, and a `next`: it has looked at
    enough jobs, and the next page goes on from there.
    """

    jobs: list[JobDocument]
    next: str | None


class SummaryDocument(Told):
    """Jobs by status, each counted up to `cap`. `oldest_queued_seconds` is the age of the oldest waiting job."""

    model_config = example(counts={"queued": 3, "running": 1}, cap=10_000, running=1, oldest_queued_seconds=41.5)
    counts: dict[str, int]
    cap: int
    running: int
    oldest_queued_at: datetime | None = None
    oldest_queued_seconds: float | None = None


class CancelDocument(Told):
    """`canceled`, or `requested` if a worker has to stop the job first."""

    model_config = example(id=_ID, answer="canceled")
    id: str
    answer: Literal["canceled", "requested"]


class AttemptsDocument(Told):
    """The attempts of a job, oldest first. `details` and `error` are null without logs:read."""

    attempts: list[dict[str, Any]]


class LinesDocument(Told):
    """Log lines, oldest first. `next` is the cursor of the lines after these; `ended`: none will follow."""

    lines: list[dict[str, Any]]
    next: str | None
    ended: bool


class ExplanationDocument(Told):
    """Why a job does not run: each condition of a claim, in the order of a claim."""

    id: str
    state: str
    summary: str
    blocking: list[str]
    starts_at: datetime | None
    checks: list[dict[str, Any]]


# ------------------------------------------------------------------------------------------------ triggers and events


class SaveTrigger(Sent):
    """A rule: by a schedule, or by an event. The fields of the other kind are left out."""

    model_config = example(
        label="Nightly provider sync",
        trigger_type="schedule",
        cron_expr="0 2 * * *",
        timezone="America/New_York",
        definition_key="sync-dropbox",
        payload_template={"path_prefix": "/"},
    )
    label: Annotated[str, Field(min_length=1, max_length=200)]
    definition_key: Annotated[str, Field(min_length=1, max_length=100)]
    trigger_type: Literal["event", "schedule"] | None = None
    event_name: Annotated[str | None, Field(max_length=200)] = None
    filter: dict[str, Any] | None = None
    cron_expr: Annotated[str | None, Field(max_length=200)] = None
    timezone: Annotated[str | None, Field(max_length=100)] = None
    every: Annotated[float | None, Field(gt=0, le=315_360_000)] = None
    anchor: Annotated[AwareDatetime | None, Field(strict=False)] = None
    payload_template: dict[str, Any] = {}
    is_enabled: bool = True
    catch_up: Literal["skip", "latest", "all"] | None = None
    catch_up_cap: Annotated[int | None, Field(ge=1, le=1_000_000)] = None
    spread: Annotated[float | None, Field(ge=0, le=315_360_000)] = None
    dedupe_window_seconds: Annotated[float | None, Field(ge=0, le=315_360_000)] = None
    trailing: bool | None = None


class ChangeTrigger(Sent):
    """The fields of a trigger to change; the others stay."""

    model_config = example(is_enabled=False)
    label: Annotated[str | None, Field(min_length=1, max_length=200)] = None
    definition_key: Annotated[str | None, Field(min_length=1, max_length=100)] = None
    event_name: Annotated[str | None, Field(max_length=200)] = None
    filter: dict[str, Any] | None = None
    cron_expr: Annotated[str | None, Field(max_length=200)] = None
    timezone: Annotated[str | None, Field(max_length=100)] = None
    every: Annotated[float | None, Field(gt=0, le=315_360_000)] = None
    anchor: Annotated[AwareDatetime | None, Field(strict=False)] = None
    payload_template: dict[str, Any] | None = None
    is_enabled: bool | None = None
    catch_up: Literal["skip", "latest", "all"] | None = None
    catch_up_cap: Annotated[int | None, Field(ge=1, le=1_000_000)] = None
    spread: Annotated[float | None, Field(ge=0, le=315_360_000)] = None
    dedupe_window_seconds: Annotated[float | None, Field(ge=0, le=315_360_000)] = None
    trailing: bool | None = None


class PreviewSchedule(Sent):
    """A schedule that is not saved: a cron and its zone, or an interval in seconds."""

    model_config = example(cron_expr="0 2 * * *", timezone="America/New_York", count=5)
    cron_expr: Annotated[str | None, Field(max_length=200)] = None
    timezone: Annotated[str, Field(max_length=100)] = "UTC"
    every: Annotated[float | None, Field(gt=0, le=315_360_000)] = None
    anchor: Annotated[AwareDatetime | None, Field(strict=False)] = None
    count: Annotated[int, Field(ge=1, le=50)] = 5
    viewer_timezone: Annotated[str, Field(max_length=100)] = "UTC"


class TriggerDocument(Told):
    """A trigger. Its version is its ETag. `payload_template` is null without payloads:read."""

    id: str
    tenant_id: str | None
    label: str
    definition_key: str
    trigger_type: str
    is_enabled: bool
    version: int


class TriggersDocument(Told):
    """Triggers, the oldest first. `next` is the cursor of the following page."""

    triggers: list[TriggerDocument]
    next: str | None


class PreviewDocument(Told):
    runs: list[dict[str, Any]]


class DecisionsDocument(Told):
    decisions: list[dict[str, Any]]


class EmitEvent(Sent):
    """An event: dotted words, and data that templates and filters read."""

    model_config = example(name="provider.folder.updated", data={"provider_id": "p_9", "folder_path": "/a"})
    name: Annotated[str, Field(min_length=1, max_length=200)]
    data: dict[str, Any] = {}
    correlation_id: Text | None = None


class EmittedDocument(Told):
    """The event, the jobs that it made, and what each trigger decided."""

    id: str
    tenant_id: str
    name: str
    created: bool
    expanded: bool
    jobs: list[str]
    decisions: list[dict[str, Any]]


class EventsDocument(Told):
    """Events, the newest first. `data` is null without payloads:read. `decisions` are there if they are asked for."""

    events: list[dict[str, Any]]
    next: str | None


class EventTestDocument(Told):
    triggers: list[dict[str, Any]]


# ------------------------------------------------------------------------------------------------- administration


class DefinitionDocument(Told):
    key: str
    version: int
    active: bool


class DefinitionsDocument(Told):
    definitions: list[DefinitionDocument]


class SetLimit(Sent):
    """How many jobs of a tenant or a definition may run at once; null lifts the limit."""

    model_config = example(max_running=5)
    max_running: Annotated[int | None, Field(ge=1, le=2_147_483_647)]


class SetPause(Sent):
    """A reason for people, and how long; without `seconds`, until it is resumed."""

    model_config = example(why="provider is down", seconds=3600)
    why: Text
    seconds: Annotated[float | None, Field(gt=0, le=315_360_000)] = None


class PauseTrigger(SetPause):
    """A reason for people, and the end: after so many seconds, or at a moment. Without both, until it is resumed."""

    until: Annotated[AwareDatetime | None, Field(strict=False)] = None


class ScopesDocument(Told):
    """Tenants and definitions that have a limit or a pause."""

    scopes: list[dict[str, Any]]


class HealthDocument(Told):
    """Findings: each has a check, a verdict (ok, warning, problem), a text, and often a fix."""

    findings: list[dict[str, Any]]


class WorkersDocument(Told):
    workers: list[dict[str, Any]]


class ActivityDocument(Told):
    """Counts of now and rates. `enqueued` grows by one with each new job; without `is_whole`, jobs are missing."""

    now: datetime
    since: datetime | None
    enqueued: int | None
    is_whole: bool
    totals: dict[str, Any]
    definitions: list[dict[str, Any]]
    tenants: list[dict[str, Any]]
    more_definitions: int
    more_tenants: int
    workers: list[dict[str, Any]]


class OkDocument(Told):
    model_config = example(ok=True)
    ok: bool


class TickRequest(Sent):
    """How much a tick may do."""

    model_config = example(max_jobs=100, max_seconds=10)
    max_jobs: Annotated[int, Field(ge=1, le=10_000)] = 100
    max_seconds: Annotated[float, Field(gt=0, le=300)] = 10


class WhoDocument(Told):
    """The principal of the request, and the abilities of the engine: not every engine has all of them."""

    name: str
    role: str
    tenant_id: str | None
    permissions: list[str]
    abilities: dict[str, bool]


class ProblemDocument(Told):
    """An error, as application/problem+json. `code` has a page in the documentation; `fix` says what to do."""

    model_config = example(
        type="urn:leasehold:error:LH-1008",
        title="Not found",
        status=404,
        code="LH-1008",
        detail='tenant "acme" has no job 01989c1e-77b0-7000-8000-000000000042. Nothing was changed.',
        fix="Check the id and the tenant; jobs are pruned when their retention is over.",
        request_id="5f0c3a3e",
    )
    type: str
    title: str
    status: int
    code: str
    detail: str
    fix: str
    request_id: str
