"""How commands speak: results to stdout, everything said along the way to stderr, errors as messages or JSON."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer
from rich.console import Console

from leasehold.cli import documents
from leasehold.cli.words import printable
from leasehold.errors import (
    Conflict,
    EmbeddedError,
    InactiveDefinition,
    InvalidInput,
    JobFailed,
    LeaseholdError,
    ResultTimeout,
    SchemaMismatch,
    UnknownDefinition,
    UnknownJob,
    UnknownTenant,
    Unreachable,
)

OK, FAILED, USAGE, NOT_FOUND, CONFLICT = 0, 1, 2, 3, 4
SCHEMA_NOT_CURRENT, UNREACHABLE, TIMED_OUT, ENDED_BADLY, INTERRUPTED = 6, 7, 8, 9, 130

# The first that fits counts: what is more special stands before what is more general.
_EXIT_CODES: dict[type[LeaseholdError], int] = {
    UnknownJob: NOT_FOUND,
    UnknownDefinition: NOT_FOUND,
    UnknownTenant: NOT_FOUND,
    InactiveDefinition: CONFLICT,
    InvalidInput: USAGE,
    Conflict: CONFLICT,
    JobFailed: ENDED_BADLY,
    ResultTimeout: TIMED_OUT,
    SchemaMismatch: SCHEMA_NOT_CURRENT,
    Unreachable: UNREACHABLE,
    EmbeddedError: UNREACHABLE,
}

said = Console(stderr=True, highlight=False, soft_wrap=True)
shown = Console(highlight=False)


@contextmanager
def explained(json: bool) -> Iterator[None]:
    """Errors of ours are messages, not tracebacks; machines get the same as JSON. Ctrl-C is no error either."""
    try:
        yield
    except LeaseholdError as error:
        fail(error, json)
    except KeyboardInterrupt:
        said.print("interrupted")
        raise typer.Exit(INTERRUPTED) from None


def fail(error: LeaseholdError, json: bool) -> NoReturn:
    if json:
        print_json(documents.error(error))
    say_error(error)
    raise typer.Exit(exit_code(error)) from error


def say_error(error: LeaseholdError) -> None:
    said.print(printable(f"✕ {error}"), markup=False)


def exit_code(error: LeaseholdError) -> int:
    return next((code for kind, code in _EXIT_CODES.items() if isinstance(error, kind)), FAILED)


def print_text(text: str) -> None:
    """Prints as UTF-8 in every locale: under LC_ALL=C, Python would write ? for other characters of a script."""
    _print_bytes(text.encode())


def print_json(document: object) -> None:
    """Prints a document as one line, at once, for a reader at the other end of a pipe."""
    _print_bytes(documents.as_json(document) + b"\n")


def _print_bytes(data: bytes) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
