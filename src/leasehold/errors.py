"""The tree of errors. A class exists only if a caller would act differently.

LeaseholdError
├── InvalidInput              LH-1000  a value that you passed can't be used; nothing was changed
│   ├── PayloadInvalid        LH-1001  the arguments don't fit the handler or its schema, or are too large
│   │   └── NotJson           LH-1003  JSON can't hold this, or would give it back as something else
│   ├── UnknownDefinition     LH-1002  no such definition
│   ├── NoTenant              LH-1004  an enqueue without a tenant
│   ├── InactiveDefinition    LH-1005  the definition accepts no new jobs
│   ├── UnknownTenant         LH-1006  strict tenants: this one was never registered
│   ├── UnusableHandler       LH-1007  a handler whose arguments can't be taken from JSON
│   ├── UnknownJob            LH-1008  the tenant has no such job
│   ├── ValueRefused          LH-1014  the database can't hold one of the values
│   ├── TenantDeleted         LH-1015  the tenant is being deleted: nothing new is accepted for it
│   ├── UnknownOperation      LH-1016  no such operation
│   ├── UnknownTrigger        LH-1030  the tenant has no such trigger
│   ├── UnknownToken          LH-6004  no API token has this public id
│   ├── MalformedRequest      LH-6005  a request of the HTTP API that can't be read
│   ├── RequestTooLarge       LH-6006  a request of the HTTP API, or a part of it, is larger than allowed
│   ├── NoSecretKey           LH-1040  secret fields of a payload need a key, or the package cryptography
│   └── CannotLoad            LH-5001  the file or module that holds the handlers can't be imported
├── Conflict                           the state of the job does not allow it; nothing was changed
│   ├── WrongState            LH-1009  the job is not in a state for this
│   ├── DuplicateJob          LH-1010  another job holds the dedupe key
│   ├── IdReused              LH-1013  the id was used before, for another request
│   └── ChangedMeanwhile      LH-1050  somebody else changed it since you read it
├── JobFailed                 LH-1011  the job whose result you wait for failed, became a dead letter, or was canceled
├── ResultTimeout             LH-1012  the job did not end within the timeout; a TimeoutError, too
├── SecretUnreadable          LH-1041  secret fields of a job were encrypted by a key that this worker does not have
├── SchemaMismatch            LH-2000  the database schema changed after the store was opened
│                             LH-2001  … is missing or older than this code
│                             LH-2002  … is newer than this code can work with
│                             LH-2003  … is in use: a migration got no lock
│                             LH-2004  … is that of another program: a table in DynamoDB without our keys and indexes
├── Unreachable               LH-3001  the database can't be reached
│                             LH-3005  … can be reached, but a lock of ours stays held: try again
├── CannotListen              LH-3002  LISTEN is accepted but nothing arrives, as behind a pooler: poll instead
├── BlockingCall              LH-3003  a blocking call on a running event loop: await its async twin instead
├── EmbeddedError             LH-3010  the embedded Postgres can't be started
├── RegistrationLost          LH-4001  this worker was evicted: stop its runs, join again
├── TransactionConflict       LH-4002  your transaction lost a race: run it again
├── PartlyEnqueued            LH-4003  some chunks of a call with atomic=False are enqueued, the rest is not
├── NotAuthenticated          LH-6001  the HTTP API does not know who sends a request
├── NotPermitted              LH-6002  the principal of a request may not do this
├── TooManyRequests           LH-6003  a token or a tenant sends more requests than allowed
└── LifespanFailed            LH-5002  the lifespan of the app failed when a worker started; it has claimed nothing

Every message contains the event with its values, the cause, the fix, and whether anything was changed.
"""

from collections.abc import Sequence
from typing import Any


class NotInTransaction(UserWarning):
    """LH-1020: `within(…)` got a connection in autocommit, so the job is committed separately."""


class LeaseholdError(Exception):
    """The base class. `code` is stable and documented; `fix` names the next step."""

    code = "LH-0000"

    def __init__(self, happened: str, *, fix: str, code: str | None = None) -> None:
        super().__init__(happened)
        self.happened = happened
        self.fix = fix
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        return f"{self.code}: {self.happened} {self.fix}"


class InvalidInput(LeaseholdError):
    """A value can't be used. `number` is the job of a bulk call, counted from 1; None if it concerns the call."""

    code = "LH-1000"
    number: int | None = None

    def __str__(self) -> str:
        if self.number is None:
            return super().__str__()
        return f"{self.code}: job {self.number:,} of those given: {self.happened} {self.fix}"


class PayloadInvalid(InvalidInput):
    code = "LH-1001"


class UnknownDefinition(InvalidInput):
    code = "LH-1002"


class NotJson(PayloadInvalid):
    code = "LH-1003"


class NoTenant(InvalidInput):
    code = "LH-1004"


class InactiveDefinition(InvalidInput):
    code = "LH-1005"


class UnknownTenant(InvalidInput):
    code = "LH-1006"


class UnusableHandler(InvalidInput):
    code = "LH-1007"


class UnknownJob(InvalidInput):
    code = "LH-1008"


class ValueRefused(InvalidInput):
    code = "LH-1014"


class TenantDeleted(InvalidInput):
    code = "LH-1015"


class UnknownOperation(InvalidInput):
    code = "LH-1016"


class UnknownTrigger(InvalidInput):
    code = "LH-1030"


class UnknownToken(InvalidInput):
    code = "LH-6004"


class MalformedRequest(InvalidInput):
    code = "LH-6005"


class RequestTooLarge(InvalidInput):
    code = "LH-6006"


class NoSecretKey(InvalidInput):
    code = "LH-1040"


class CannotLoad(InvalidInput):
    code = "LH-5001"


class Conflict(LeaseholdError):
    pass


class WrongState(Conflict):
    code = "LH-1009"


class DuplicateJob(Conflict):
    """Another job holds the dedupe key. `job` is its id if an enqueue raised the error."""

    code = "LH-1010"
    job: str | None = None


class IdReused(Conflict):
    code = "LH-1013"


class ChangedMeanwhile(Conflict):
    """Somebody else changed it since the caller read it. `revision` is the one that it has now."""

    code = "LH-1050"
    revision: int | None = None


class JobFailed(LeaseholdError):
    """The job ended without success. `error` and `error_code` are those of its last failed attempt."""

    code = "LH-1011"

    def __init__(
        self,
        happened: str,
        *,
        fix: str,
        job: str = "",
        status: str = "",
        error: str | None = None,
        error_code: str | None = None,
    ) -> None:
        super().__init__(happened, fix=fix)
        self.job = job
        self.status = status
        self.error = error
        self.error_code = error_code


class ResultTimeout(LeaseholdError, TimeoutError):
    code = "LH-1012"


class SecretUnreadable(LeaseholdError):
    code = "LH-1041"


class SchemaMismatch(LeaseholdError):
    code = "LH-2000"


class Unreachable(LeaseholdError):
    """The database can't be reached. `too_slow`: one statement timed out; other statements may succeed.

    `lost_before`: a connection has broken while it was idle. Nothing was asked now, and the database may be there.
    """

    code = "LH-3001"
    too_slow = False
    lost_before = False


class CannotListen(LeaseholdError):
    code = "LH-3002"


class BlockingCall(LeaseholdError):
    code = "LH-3003"


class EmbeddedError(LeaseholdError):
    code = "LH-3010"


class TransactionConflict(LeaseholdError):
    code = "LH-4002"


class PartlyEnqueued(LeaseholdError):
    """A call with atomic=False failed halfway. `placed` has the results of the enqueued jobs."""

    code = "LH-4003"

    def __init__(self, happened: str, *, fix: str, placed: Sequence[Any] = ()) -> None:
        super().__init__(happened, fix=fix)
        self.placed = placed


class RegistrationLost(LeaseholdError):
    code = "LH-4001"


class NotAuthenticated(LeaseholdError):
    code = "LH-6001"


class NotPermitted(LeaseholdError):
    code = "LH-6002"


class TooManyRequests(LeaseholdError):
    """A limit of requests is reached. `retry_after` is when one may be sent again, in seconds."""

    code = "LH-6003"
    retry_after: float = 1.0


class LifespanFailed(LeaseholdError):
    """Raised by a worker or a tick before its first claim. The error of the lifespan is its `__cause__`."""

    code = "LH-5002"
