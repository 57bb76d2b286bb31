"""Everything Leasehold raises, as one tree. A class exists only where a caller would act differently.

LeaseholdError
├── InvalidInput           LH-1000  what you passed cannot be used; nothing was changed
│   ├── PayloadInvalid     LH-1001  the payload does not fit the definition's schema, or is not plain JSON
│   ├── UnknownDefinition  LH-1002  no such definition
│   ├── InactiveDefinition LH-1005  the definition takes nothing new
│   └── UnknownTenant      LH-1006  strict tenants: this one was never registered
├── SchemaMismatch         LH-2000  the database schema is not what it was when the store was opened
│                          LH-2001  … is missing or older than this code
│                          LH-2002  … is newer than this code can work with
├── Unreachable            LH-3001  the database cannot be reached
├── CannotListen           LH-3002  LISTEN is accepted but nothing arrives, as behind a pooler: poll instead
├── EmbeddedError          LH-3010  the embedded Postgres cannot be started
├── TransactionConflict    LH-4002  your transaction lost a race: run it again
└── SeatLost               LH-4001  this worker was evicted: stop its runs, join again

Every message says what happened, with values, why, what to do, and whether anything was changed.
"""


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
    code = "LH-1000"


class PayloadInvalid(InvalidInput):
    code = "LH-1001"


class UnknownDefinition(InvalidInput):
    code = "LH-1002"


class InactiveDefinition(InvalidInput):
    code = "LH-1005"


class UnknownTenant(InvalidInput):
    code = "LH-1006"


class SchemaMismatch(LeaseholdError):
    code = "LH-2000"


class Unreachable(LeaseholdError):
    code = "LH-3001"


class CannotListen(LeaseholdError):
    code = "LH-3002"


class EmbeddedError(LeaseholdError):
    code = "LH-3010"


class TransactionConflict(LeaseholdError):
    code = "LH-4002"


class SeatLost(LeaseholdError):
    code = "LH-4001"
