"""Rights over HTTP: permissions, the roles that bundle them, and the principal of a request."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from leasehold.errors import InvalidInput
from leasehold.model.bounds import problems_of_text
from leasehold.model.job import TenantId, tenant_id

E = TypeVar("E", bound=StrEnum)


class Permission(StrEnum):
    """The right to use some routes. Every route names one.

    OPEN and ANYONE are for routes only: the first needs no principal, the second any. PAYLOADS_READ and LOGS_READ
    decide about fields of answers as well: payloads, results and templates; log lines and details of attempts.
    """

    OPEN = "open"
    ANYONE = "anyone"
    JOBS_READ = "jobs:read"
    PAYLOADS_READ = "payloads:read"
    LOGS_READ = "logs:read"
    JOBS_ENQUEUE = "jobs:enqueue"
    JOBS_CHANGE = "jobs:change"
    TRIGGERS_READ = "triggers:read"
    TRIGGERS_WRITE = "triggers:write"
    EVENTS_READ = "events:read"
    EVENTS_EMIT = "events:emit"
    DEFINITIONS_READ = "definitions:read"
    DEFINITIONS_WRITE = "definitions:write"
    LIMITS_READ = "limits:read"
    LIMITS_WRITE = "limits:write"
    WORKERS_READ = "workers:read"
    TENANTS_READ = "tenants:read"
    TENANTS_WRITE = "tenants:write"
    TOKENS_READ = "tokens:read"
    TOKENS_WRITE = "tokens:write"
    AUDIT_READ = "audit:read"
    METRICS_READ = "metrics:read"
    TICK = "tick"
    WORK = "work"


class Role(StrEnum):
    """The roles of principals and tokens. `PERMISSIONS` has what each of them may do."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    TENANT_ADMIN = "tenant_admin"
    SUPER_ADMIN = "super_admin"
    WORKER = "worker"


_P = Permission
_VIEWER = frozenset({_P.JOBS_READ, _P.TRIGGERS_READ, _P.EVENTS_READ, _P.DEFINITIONS_READ})
_SEPARATE = frozenset({_P.PAYLOADS_READ, _P.LOGS_READ})
_OPERATOR = _VIEWER | _SEPARATE | {_P.JOBS_ENQUEUE, _P.JOBS_CHANGE, _P.EVENTS_EMIT}
_TENANT_ADMIN = _OPERATOR | {_P.TRIGGERS_WRITE, _P.AUDIT_READ}
_SUPER_ADMIN = frozenset(_P) - {_P.OPEN, _P.ANYONE, _P.WORK}

PERMISSIONS: Mapping[Role, frozenset[Permission]] = {
    Role.VIEWER: _VIEWER,
    Role.OPERATOR: _OPERATOR,
    Role.TENANT_ADMIN: _TENANT_ADMIN,
    Role.SUPER_ADMIN: _SUPER_ADMIN,
    Role.WORKER: frozenset({_P.WORK, _P.TICK}),
}


def may_have(role: Role) -> frozenset[Permission]:
    """Returns the permissions that a token of this role can be given: payloads and logs are a switch for viewers, and
    workers may be allowed to enqueue follow-ups.
    """
    return PERMISSIONS[role] | (_SEPARATE if role is not Role.WORKER else {_P.JOBS_ENQUEUE})


@dataclass(frozen=True, slots=True)
class Principal:
    """The sender of a request. `tenant` None means all tenants; `definitions` None all definitions, for workers.

    `permissions` default to those of the role. `name` is written to `created_by` of everything that the request
    creates. `token` is the public id of its API token, if it has one; requests are counted by it.
    """

    name: str
    role: Role
    tenant: TenantId | None
    permissions: frozenset[Permission] | None = None
    token: str | None = None
    definitions: tuple[str, ...] | None = field(default=None)

    def __post_init__(self) -> None:
        """Checks the values, since the resolver of an app makes them. Raises InvalidInput."""
        role = _member(Role, self.role, "role")
        object.__setattr__(self, "role", role)
        chosen = PERMISSIONS[role] if self.permissions is None else self.permissions
        object.__setattr__(self, "permissions", read_permissions(role, chosen))
        if self.tenant is not None:
            object.__setattr__(self, "tenant", tenant_id(self.tenant))
        if problems := list(problems_of_text("name", self.name)):
            raise _refused(problems[0])
        require_bound(role, self.tenant)

    def may(self, permission: Permission) -> bool:
        if permission in (Permission.OPEN, Permission.ANYONE):
            return True
        return self.permissions is not None and permission in self.permissions


def read_permissions(role: Role, chosen: Iterable[str]) -> frozenset[Permission]:
    """Returns the permissions with these names. Raises InvalidInput for one that the role can't be given."""
    wanted = frozenset(_member(Permission, each, "permission") for each in chosen)
    if beyond := sorted(wanted - may_have(role)):
        raise _refused(f"the role {role.value} can't be given {', '.join(beyond)}")
    return wanted


def read_role(text: str) -> Role:
    return _member(Role, text.strip().lower().replace("-", "_").replace(" ", "_"), "role")


def require_bound(role: Role, tenant: TenantId | None) -> None:
    """Raises InvalidInput for a super admin of one tenant."""
    if role is Role.SUPER_ADMIN and tenant is not None:
        raise _refused(f"a super admin is of all tenants, and tenant={tenant!r:.80} is one")


def _member(kind: type[E], value: str, noun: str) -> E:
    try:
        return kind(value)
    except ValueError as error:
        raise _refused(f"{value!r:.80} is not a {noun}; there are {', '.join(kind)}") from error


def _refused(why: str) -> InvalidInput:
    return InvalidInput(f"These rights can't be given: {why}.", fix="Nothing was changed. Correct the values.")
