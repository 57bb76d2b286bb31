"""The bodies of requests and answers about definitions, operations, tenants, tokens, figures and the audit log."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import Path
from pydantic import AfterValidator, AwareDatetime, Field

from leasehold.api.documents import Sent, Text, Told, example
from leasehold.model.access import Permission, Role
from leasehold.model.job import Source, TenantId, tenant_id
from leasehold.model.operation import OperationState
from leasehold.store.operations import MOST_CHOSEN
from leasehold.store.saved_views import LONGEST_NAME, LONGEST_QUERY

_ID = "01989c1e-77b0-7000-8000-000000000042"
_AT = "2026-02-16T10:30:01Z"
TenantPath = Annotated[
    TenantId, Path(alias="tenant_id", max_length=100, description="The tenant's id."), AfterValidator(tenant_id)
]
OperationPath = Annotated[str, Path(alias="operation_id", max_length=40, description="The operation's id.")]
TokenPath = Annotated[str, Path(alias="token_id", max_length=40, description="The public id of the token.")]
Names = Annotated[list[str], Field(default_factory=list, max_length=1000)]
Moment = Annotated[AwareDatetime | None, Field(strict=False)]

# -------------------------------------------------------------------------------------------------------- definitions


class DefinitionFields(Sent):
    """Fields of a definition in place of those of its code. A field that is left out stays as it is.

    Durations are texts like 30s, 10m or 2h. A definition runs no program: that is the worker's own. `arg_schema`,
    `timeout_seconds` and `is_active` are other spellings of `schema`, `timeout` and `active`, which answers have.
    """

    model_config = example(timeout="10m", max_attempts=5, active=True)
    description: str | None = None
    payload_schema: Annotated[dict[str, Any] | None, Field(alias="schema")] = None
    arg_schema: dict[str, Any] | None = None
    timeout: str | None = None
    timeout_seconds: Annotated[int | None, Field(ge=1, le=315_360_000)] = None
    max_attempts: int | None = None
    backoff: dict[str, Any] | str | None = None
    retention: dict[str, Any] | str | None = None
    active: bool | None = None
    is_active: bool | None = None


class NewDefinition(DefinitionFields):
    """A definition without code, which workers that serve its key run. Its key never changes."""

    model_config = example(key="sync-dropbox", timeout="10m", max_attempts=5)
    key: Annotated[str, Field(min_length=1, max_length=100)]


class ResetFields(Sent):
    """The fields that shall have the values of the code again; all if none is named."""

    model_config = example(fields=["timeout"])
    fields: Names


# --------------------------------------------------------------------------------------------------------- operations


class BeginOperation(Sent):
    """Retries or cancels all jobs that match. Fields that are left out match anything.

    `error_group` is an id of `GET /errors`. With `jobs`, it changes those that are named, if they have such a status.
    Jobs that ended, or were enqueued, after `as_of` are left alone; by default, after the operation began.
    `pace` is a text like 50/s. With `canary`, one job runs first, and the others only if it succeeds. With `plan`,
    the answer says how many jobs match, and nothing is changed.
    """

    model_config = example(kind="retry", statuses=["dead_letter"], definitions=["sync-dropbox"], pace="50/s")
    kind: Literal["retry", "cancel"]
    statuses: Names
    definitions: Names
    source: Annotated[Source | None, Field(strict=False)] = None
    correlation_id: Text | None = None
    created_after: Moment = None
    created_before: Moment = None
    error_group: Annotated[str | None, Field(max_length=40)] = None
    jobs: Annotated[list[Annotated[UUID, Field(strict=False)]], Field(max_length=MOST_CHOSEN, default_factory=list)]
    as_of: Moment = None
    pace: Annotated[str | None, Field(max_length=40)] = None
    canary: bool = False
    reason: Text | None = None
    plan: bool = False


class ErrorGroupDocument(Told):
    """Failed and dead jobs of a tenant with one error, up to 1,000 of them: `is_cap` tells that there may be more.

    `code` and `error` are those of the newest job. `fields` are top-level fields of the newest payloads, with their
    commonest values; only the answer about one group has them.
    """

    model_config = example(
        id="5f0c9a3be2d14471",
        tenant_id="acme",
        definition_key="sync-dropbox",
        code="TimeoutError",
        error="timed out after 30 s",
        jobs=468,
        is_cap=False,
        recent=31,
        newest=_ID,
        first_at=_AT,
        last_at=_AT,
    )
    id: str
    tenant_id: str
    definition_key: str
    code: str | None
    error: str | None
    jobs: int
    is_cap: bool
    recent: int
    first_at: datetime
    last_at: datetime
    newest: str


class SaveView(Sent):
    """A view of the list of jobs: `query` is the query of its address in the console. `shared`: for all people of the
    tenant, which needs the permission jobs:change.
    """

    model_config = example(name="dead syncs", query="q=status%3Adead-letter&limit=100", shared=False)
    name: Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
    query: Annotated[str, Field(min_length=1, max_length=LONGEST_QUERY)]
    shared: bool = False


class ViewDocument(Told):
    model_config = example(
        name="dead syncs", query="q=status%3Adead-letter&limit=100", shared=False, created_by="ada", created_at=_AT
    )
    name: str
    query: str
    shared: bool
    created_by: str | None
    created_at: datetime | None


class ViewsDocument(Told):
    """A person's own views and those that are shared, by name."""

    model_config = example(views=[])
    views: list[ViewDocument]


class ErrorGroupsDocument(Told):
    """Error groups, those with the latest job first. `is_whole`: there are no others."""

    model_config = example(groups=[], is_whole=True)
    groups: list[ErrorGroupDocument]
    is_whole: bool


class OperationDocument(Told):
    """An operation, or with `plan` the effect that it would have."""

    model_config = example(id=_ID, kind="retry", state="running", done=20, skipped=0, refused=0, created_at=_AT)
    kind: str
    id: str | None = None
    state: OperationState | None = None
    done: int | None = None
    skipped: int | None = None
    refused: int | None = None
    created_at: datetime | None = None


class OperationsDocument(Told):
    """Operations, the newest first. `next` is the cursor of the following page."""

    operations: list[OperationDocument]
    next: str | None


# ------------------------------------------------------------------------------------------------------------ tenants


class NewTenant(Sent):
    model_config = example(id="acme")
    id: Annotated[str, Field(min_length=1, max_length=100)]


class TenantDocument(Told):
    """A tenant, and what it has; `created` tells whether the request registered it."""

    model_config = example(tenant="acme")
    tenant: str


class TenantsDocument(Told):
    """Tenants by name. `next` is the cursor of the following page. `strict`: others can't enqueue."""

    model_config = example(tenants=["acme", "globex"], strict=False, next="globex")
    tenants: list[str]
    strict: bool
    next: str | None


# ------------------------------------------------------------------------------------------------------------- tokens


class CreateToken(Sent):
    """A token to create. Without `tenant` it is for all tenants."""

    model_config = example(name="ci of acme", role="operator", tenant="acme", life="90d")
    name: Text
    role: Annotated[Role, Field(strict=False)]
    tenant: Annotated[str | None, Field(max_length=100)] = None
    permissions: Annotated[list[Permission] | None, Field(strict=False)] = None
    definitions: list[str] | None = None
    life: Annotated[str, Field(max_length=40)] = "90d"


class RotateToken(Sent):
    """How long the new secret is valid, and how long the secret before stays so."""

    model_config = example(life="90d", overlap="1d")
    life: Annotated[str, Field(max_length=40)] = "90d"
    overlap: Annotated[str, Field(max_length=40)] = "1d"


class TokenDocument(Told):
    """A token. `token` is its text, in the one answer that creates or rotates it."""

    model_config = example(id="abcdefgh2345", name="ci of acme", role="operator", tenant="acme")
    id: str
    name: str
    role: str
    token: str | None = None


class TokensDocument(Told):
    """Tokens. `next` is the cursor of the following page."""

    tokens: list[TokenDocument]
    next: str | None


# --------------------------------------------------------------------------------------------- figures, the audit log


class ChartDocument(Told):
    """Figures of jobs over time, and up to when they are complete."""

    series: list[dict[str, Any]]


class UsageFigures(Told):
    """Attempts that ended, and seconds. `cpu_seconds` is null if the processor time of none of them is known."""

    attempts: int
    run_seconds: float
    cpu_seconds: float | None
    cpu_unknown_attempts: int


class UsageRowDocument(UsageFigures):
    """The usage of a tenant, a definition, and an hour or a day; null for that by which it is not divided."""

    at: datetime | None
    tenant_id: str | None
    definition_key: str | None


class UsageDocument(Told):
    """Usage from the hour `since` to the hour `until`: rows in the order of time, the longest run time first."""

    model_config = example(
        since="2030-01-31T09:00:00Z",
        until="2030-02-01T09:00:00Z",
        by=["day", "definition", "tenant"],
        rows=[
            {
                "at": "2030-01-31T00:00:00Z",
                "tenant_id": "acme",
                "definition_key": "resize",
                "attempts": 120,
                "run_seconds": 84.25,
                "cpu_seconds": 61.5,
                "cpu_unknown_attempts": 1,
            }
        ],
        total={"attempts": 120, "run_seconds": 84.25, "cpu_seconds": 61.5, "cpu_unknown_attempts": 1},
    )

    since: datetime
    until: datetime
    by: list[str]
    rows: list[UsageRowDocument]
    total: UsageFigures


class AuditDocument(Told):
    """Changes by people and tools, the newest first. `next` is the cursor of the following page."""

    entries: list[dict[str, Any]]
    next: str | None
