"""The exit code and the HTTP status of each error, in one table."""

from typing import NamedTuple

from leasehold.errors import (
    CannotListen,
    ChangedMeanwhile,
    Conflict,
    EmbeddedError,
    InactiveDefinition,
    InvalidInput,
    JobFailed,
    LeaseholdError,
    MalformedRequest,
    NotAuthenticated,
    NotPermitted,
    RegistrationLost,
    RequestTooLarge,
    ResultTimeout,
    SchemaMismatch,
    TenantDeleted,
    TooManyRequests,
    TransactionConflict,
    UnknownDefinition,
    UnknownJob,
    UnknownOperation,
    UnknownTenant,
    UnknownToken,
    UnknownTrigger,
    Unreachable,
)

OK, FAILED, USAGE, NOT_FOUND, CONFLICT, DENIED = 0, 1, 2, 3, 4, 5
SCHEMA_NOT_CURRENT, UNREACHABLE, TIMED_OUT, ENDED_BADLY, INTERRUPTED = 6, 7, 8, 9, 130


class Statuses(NamedTuple):
    """`exit_code` ends a command, `http` answers a request."""

    exit_code: int
    http: int


# The first entry that fits counts, so subclasses stand before their parents.
_STATUSES: dict[type[LeaseholdError], Statuses] = {
    UnknownJob: Statuses(NOT_FOUND, 404),
    UnknownTrigger: Statuses(NOT_FOUND, 404),
    UnknownOperation: Statuses(NOT_FOUND, 404),
    UnknownDefinition: Statuses(NOT_FOUND, 404),
    UnknownTenant: Statuses(NOT_FOUND, 404),
    UnknownToken: Statuses(NOT_FOUND, 404),
    InactiveDefinition: Statuses(CONFLICT, 409),
    TenantDeleted: Statuses(CONFLICT, 409),
    MalformedRequest: Statuses(USAGE, 400),
    RequestTooLarge: Statuses(USAGE, 413),
    InvalidInput: Statuses(USAGE, 422),
    ChangedMeanwhile: Statuses(CONFLICT, 412),
    Conflict: Statuses(CONFLICT, 409),
    RegistrationLost: Statuses(FAILED, 409),
    NotAuthenticated: Statuses(DENIED, 401),
    NotPermitted: Statuses(DENIED, 403),
    TooManyRequests: Statuses(DENIED, 429),
    TransactionConflict: Statuses(FAILED, 503),
    JobFailed: Statuses(ENDED_BADLY, 409),
    ResultTimeout: Statuses(TIMED_OUT, 504),
    SchemaMismatch: Statuses(SCHEMA_NOT_CURRENT, 503),
    Unreachable: Statuses(UNREACHABLE, 503),
    CannotListen: Statuses(FAILED, 503),
    EmbeddedError: Statuses(UNREACHABLE, 503),
}
_OTHERS = Statuses(FAILED, 500)


def statuses_of(error: LeaseholdError) -> Statuses:
    return next((statuses for kind, statuses in _STATUSES.items() if isinstance(error, kind)), _OTHERS)


def exit_code(error: LeaseholdError) -> int:
    return statuses_of(error).exit_code
