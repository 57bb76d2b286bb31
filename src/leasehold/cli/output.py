"""How commands speak: results to stdout, everything said along the way to stderr, errors as messages or JSON."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import orjson
import typer
from rich.console import Console

from leasehold.errors import InvalidInput, LeaseholdError, SchemaMismatch, Unreachable

FAILED, USAGE, SCHEMA_NOT_CURRENT, UNREACHABLE = 1, 2, 6, 7
_EXIT_CODES = {InvalidInput: USAGE, SchemaMismatch: SCHEMA_NOT_CURRENT, Unreachable: UNREACHABLE}

said = Console(stderr=True, highlight=False, soft_wrap=True)
shown = Console(highlight=False)


@contextmanager
def explained(json: bool) -> Iterator[None]:
    """Errors of ours are messages, not tracebacks; machines get the same as JSON."""
    try:
        yield
    except LeaseholdError as error:
        fail(error, json)


def fail(error: LeaseholdError, json: bool) -> NoReturn:
    if json:
        print_json({"error": {"code": error.code, "message": error.happened, "fix": error.fix}})
    said.print(f"✕ {error}", markup=False)
    code = next((code for kind, code in _EXIT_CODES.items() if isinstance(error, kind)), FAILED)
    raise typer.Exit(code) from error


def print_json(document: object) -> None:
    sys.stdout.write(orjson.dumps(document).decode() + "\n")
