"""Output of commands: results go to stdout, messages to stderr, errors to stderr and with --json also to stdout."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer
from rich.console import Console

from leasehold.config import process_redactor
from leasehold.errors import LeaseholdError
from leasehold.operations import views
from leasehold.operations.statuses import INTERRUPTED, exit_code
from leasehold.operations.views import printable

stderr = Console(stderr=True, highlight=False, soft_wrap=True)
stdout = Console(highlight=False)


@contextmanager
def explain_errors(json: bool) -> Iterator[None]:
    """Shows our errors as messages instead of tracebacks, with --json also as a document. Ctrl-C exits with 130."""
    try:
        yield
    except LeaseholdError as error:
        fail(error, json)
    except KeyboardInterrupt:
        stderr.print("interrupted")
        raise typer.Exit(INTERRUPTED) from None


def fail(error: LeaseholdError, json: bool) -> NoReturn:
    if json:
        print_json(views.error(error))
    say_error(error)
    raise typer.Exit(exit_code(error)) from error


def say_error(error: LeaseholdError) -> None:
    stderr.print(printable(process_redactor().text(f"✕ {error}")), markup=False)


def print_text(text: str) -> None:
    """Prints as UTF-8 in every locale: under LC_ALL=C, Python would write ? for other characters of a script."""
    _print_bytes(text.encode())


def print_json(document: object) -> None:
    """Prints a document as one line, at once, for a reader at the other end of a pipe."""
    _print_bytes(views.as_json(document) + b"\n")


def _print_bytes(data: bytes) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
