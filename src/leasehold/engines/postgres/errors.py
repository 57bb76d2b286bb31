"""Drivers' errors in our words, where a caller would act on them. The others pass as they are."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Protocol

import asyncpg

from leasehold.engine import grants_command, migrate_command
from leasehold.errors import (
    InvalidInput,
    LeaseholdError,
    SchemaMismatch,
    TransactionConflict,
    Unreachable,
    ValueRefused,
)

# It may go better in a moment: away, starting, stopping, failed over, full.
UNREACHABLE = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.InternalClientError,  # asyncpg, when asked between the server's last word and the end of the connection
)
_TOO_SLOW = (TimeoutError, asyncpg.QueryCanceledError, asyncpg.LockNotAvailableError)
# Statements that another client of a pooler has prepared, or that were prepared in another of its sessions.
_ANOTHERS_SESSION = (asyncpg.DuplicatePreparedStatementError, asyncpg.InvalidSQLStatementNameError)
BROKEN = (
    OSError
    | asyncpg.PostgresConnectionError
    | asyncpg.OperatorInterventionError
    | asyncpg.ReadOnlySQLTransactionError
    | asyncpg.InternalClientError
    | asyncpg.DuplicatePreparedStatementError
    | asyncpg.InvalidSQLStatementNameError
)
# It will not go better until somebody changes something.
_REFUSED = (
    asyncpg.ClientConfigurationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.InvalidAuthorizationSpecificationError,
)
# Refused by the server; a value that the driver itself can't write is an InterfaceError and a ValueError.
_NOT_HELD = (
    asyncpg.DataError,
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.ProgramLimitExceededError,
)
_NO_SCHEMA = (
    asyncpg.UndefinedTableError,
    asyncpg.UndefinedFunctionError,
    asyncpg.UndefinedColumnError,
    asyncpg.InvalidSchemaNameError,
)


class _Database(Protocol):
    @property
    def schema(self) -> str: ...

    def note_pooler(self) -> None: ...


class ErrorTranslator:
    """A class, since a generator would cost each enqueue a few µs."""

    def __init__(self, database: _Database) -> None:
        self._database = database

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception) and (told := self._in_our_words(error)) is not None:
            raise told from error

    def _in_our_words(self, error: Exception) -> LeaseholdError | None:
        if isinstance(error, _NO_SCHEMA):
            return SchemaMismatch(
                f'the schema "{self._database.schema}" is missing or of another version ({error}). '
                "Nothing was changed.",
                fix=f"Run: {migrate_command(self._database.schema)}",
            )
        if isinstance(error, asyncpg.SerializationError | asyncpg.DeadlockDetectedError):
            return TransactionConflict(
                f"the transaction lost a race ({error}). It must be rolled back, nothing of it was kept.",
                fix="Run the whole transaction again.",
            )
        if isinstance(error, asyncpg.InsufficientPrivilegeError):
            return InvalidInput(
                f"the role of this connection lacks a right ({error}). Nothing was changed.",
                fix=f"Use a role that has it, or grant it: {grants_command(self._database.schema)} prints the SQL.",
            )
        if isinstance(error, _REFUSED):
            return InvalidInput(
                f"the database refuses ({type(error).__name__}: {error}). Nothing was changed.",
                fix="Check the user, the password and the database that LEASEHOLD_URL stands for.",
            )
        if isinstance(error, _TOO_SLOW):
            return _too_slow(error)
        if isinstance(error, _ANOTHERS_SESSION):
            self._database.note_pooler()
            return _unreachable(error)
        if isinstance(error, _NOT_HELD) or (
            isinstance(error, asyncpg.InterfaceError) and isinstance(error, ValueError)
        ):
            return ValueRefused(
                f"the database can't hold one of the values ({type(error).__name__}: {error!s:.300}). "
                "Nothing was changed.",
                fix="Correct the value.",
            )
        if isinstance(error, UNREACHABLE) or (isinstance(error, asyncpg.InterfaceError) and "closed" in str(error)):
            return _unreachable(error)
        return None


def _unreachable(error: Exception) -> Unreachable:
    return Unreachable(
        f"the database can't be reached ({type(error).__name__}: {error}). "
        "The statement under way took effect wholly or not at all.",
        fix="Check LEASEHOLD_URL and that Postgres runs.",
    )


def connection_was_lost() -> Unreachable:
    """Returns the error for a connection that has broken while it was idle."""
    told = Unreachable(
        "a connection to the database was lost while it was idle. Its last asynchronous commits may be undone.",
        fix="Try again: the next statement opens another connection.",
    )
    told.lost_before = True
    return told


def _too_slow(error: Exception) -> Unreachable:
    why = f"{type(error).__name__}: {error}" if str(error) else "no answer"
    told = Unreachable(
        f"the database did not answer in time ({why}). The statement under way took effect wholly or not at all.",
        fix="Try again. If it happens often, look for locks and load there, or raise LEASEHOLD_STATEMENT_TIMEOUT.",
    )
    told.too_slow = True
    return told


# For connections that are not ours: all drivers have the SQLSTATE, each under its own name.

_LOST_A_RACE_STATES = ("40001", "40P01")
_NO_SCHEMA_STATES = ("3F000", "42883", "42P01")
_NOT_ALLOWED_STATE = "42501"


@contextmanager
def translate_for_caller(schema: str) -> Iterator[None]:
    """Translates errors that a caller would act on; other errors pass as they are."""
    try:
        yield
    except Exception as error:
        state = _sqlstate(error)
        if state in _LOST_A_RACE_STATES:
            raise TransactionConflict(
                f"your transaction lost a race ({_first_line(error)}). Roll back, and nothing of it is kept.",
                fix="Run the whole transaction again.",
            ) from error
        if state in _NO_SCHEMA_STATES:
            raise SchemaMismatch(
                f'the database of your connection has no schema "{schema}" of this version '
                f"({_first_line(error)}). Nothing was enqueued.",
                fix="Pass a connection to the database that LEASEHOLD_URL names, or run there: "
                f"{migrate_command(schema)}",
            ) from error
        if state == _NOT_ALLOWED_STATE:
            raise InvalidInput(
                f"the role of your connection may not enqueue ({_first_line(error)}). Nothing was enqueued.",
                fix=f"Grant it: grant usage on schema {schema} to …; "
                f"grant execute on function {schema}.enqueue_jobs to …. "
                f"All that a producer needs is printed by: {grants_command(schema)}",
            ) from error
        raise


def _sqlstate(error: BaseException | None) -> str | None:
    """Finds the SQLSTATE: drivers name it differently, and wrappers have the driver's error as origin or cause."""
    while error is not None:
        for name in ("sqlstate", "pgcode"):
            state = getattr(error, name, None)
            if isinstance(state, str):
                return state
        error = getattr(error, "orig", None) or error.__cause__
    return None


def _first_line(error: Exception) -> str:
    return str(getattr(error, "orig", None) or error).partition("\n")[0]
