"""Everything Leasehold raises, as one tree. A class exists only where a caller would act differently.

LeaseholdError
├── InvalidInput              LH-1000  what you passed cannot be used; nothing was changed
│   ├── PayloadInvalid        LH-1001  the arguments don't fit the handler or its schema, or are too large
│   │   └── NotJson           LH-1003  JSON can't hold this, or would give it back as something else
│   ├── UnknownDefinition     LH-1002  no such definition
│   ├── NoTenant              LH-1004  an enqueue without a tenant
│   ├── InactiveDefinition    LH-1005  the definition takes nothing new
│   ├── UnknownTenant         LH-1006  strict tenants: this one was never registered
│   ├── UnusableHandler       LH-1007  a handler whose arguments can't be taken from JSON
│   ├── UnknownJob            LH-1008  the tenant has no such job
│   ├── ValueRefused          LH-1014  the database can't hold one of the values
│   └── CannotLoad            LH-5001  the file or module that holds the handlers can't be imported
├── Conflict                           what is there does not allow it; nothing was changed
│   ├── WrongState            LH-1009  the job is not in a state for this
│   ├── DuplicateJob          LH-1010  another job holds the dedupe key
│   └── IdReused              LH-1013  the id was brought before, for another request
├── JobFailed                 LH-1011  the job whose result you wait for failed, was given up, or was canceled
├── ResultTimeout             LH-1012  it has not ended in the time that you wait; a TimeoutError, too
├── SchemaMismatch            LH-2000  the database schema is not what it was when the store was opened
│                             LH-2001  … is missing or older than this code
│                             LH-2002  … is newer than this code can work with
│                             LH-2003  … is in use: a migration got no lock
├── Unreachable               LH-3001  the database cannot be reached
│                             LH-3005  … can be reached, but a lock of ours stays held: try again
├── CannotListen              LH-3002  LISTEN is accepted but nothing arrives, as behind a pooler: poll instead
├── BlockingCall              LH-3003  a blocking call on a running event loop: await its async twin instead
├── EmbeddedError             LH-3010  the embedded Postgres cannot be started
├── RegistrationLost                  LH-4001  this worker was evicted: stop its runs, join again
├── TransactionConflict       LH-4002  your transaction lost a race: run it again
└── PartlyEnqueued            LH-4003  some chunks of a call that was not atomic are there, the rest is not

Every message says what happened, with values, why, what to do, and whether anything was changed.
"""

from collections.abc import Sequence
from typing import Any


class NotInTransaction(UserWarning):
    """LH-1020: `within(…)` got a connection in autocommit, so the job is committed by itself."""


class LeaseholdError(Exception):
    """The root. `code` is stable and documented; `fix` says what to do next."""

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
    """`number` says which of several jobs it is about, from 1 on; None: there was only one, or it is about all."""

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


class CannotLoad(InvalidInput):
    code = "LH-5001"


class Conflict(LeaseholdError):
    pass


class WrongState(Conflict):
    code = "LH-1009"


class DuplicateJob(Conflict):
    """`job` is the id of the one that holds the key, where an enqueue raised it."""

    code = "LH-1010"
    job: str | None = None


class IdReused(Conflict):
    code = "LH-1013"


class JobFailed(LeaseholdError):
    """`status` says how it ended; `error` and `error_code` are those of its last attempt that had one."""

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


class SchemaMismatch(LeaseholdError):
    code = "LH-2000"


class Unreachable(LeaseholdError):
    """`too_slow`: one statement had no answer in its time; others may well be answered."""

    code = "LH-3001"
    too_slow = False


class CannotListen(LeaseholdError):
    code = "LH-3002"


class BlockingCall(LeaseholdError):
    code = "LH-3003"


class EmbeddedError(LeaseholdError):
    code = "LH-3010"


class TransactionConflict(LeaseholdError):
    code = "LH-4002"


class PartlyEnqueued(LeaseholdError):
    """`placed` is the answer for those that are there; what went wrong then is its cause."""

    code = "LH-4003"

    def __init__(self, happened: str, *, fix: str, placed: Sequence[Any] = ()) -> None:
        super().__init__(happened, fix=fix)
        self.placed = placed


class RegistrationLost(LeaseholdError):
    code = "LH-4001"
