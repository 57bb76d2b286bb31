"""Which queue a command talks to: a database, or with `--api` a server of the HTTP API."""

import os
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.main

from leasehold.config import Settings
from leasehold.engines import is_server
from leasehold.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """The options of a server, as they stand before or after the command."""

    api: str | None = None
    token_file: Path | None = None
    plain_http: bool = False


_given: ContextVar[ServerOptions] = ContextVar("leasehold_server_options", default=ServerOptions())  # noqa: B039


def begin_command_line(options: ServerOptions) -> None:
    """Forgets the options of a command line before, if this process has run one."""
    _given.set(options)


def given_options() -> ServerOptions:
    return _given.get()


def server_of(url: str | None, schema: str | None) -> str | None:
    """Returns the URL of the server that a command talks to; None if it is a database. Raises InvalidInput.

    An option wins over a variable, and LEASEHOLD_API over LEASEHOLD_URL.
    """
    api = _given.get().api
    if api is not None and url is not None:
        raise InvalidInput("--api and --url name two queues. Nothing was opened.", fix="Leave one of them out.")
    server = api if api is not None else _server_of_environment() if url is None else url if is_server(url) else None
    if server is not None and schema is not None:
        raise InvalidInput(
            f"the schema {schema!r:.80} was asked for, and the server has its own. Nothing was opened.",
            fix="Leave --schema out.",
        )
    return server


def _server_of_environment() -> str | None:
    if api := os.environ.get("LEASEHOLD_API"):
        return api
    url = Settings.from_environment().url
    return url if url and is_server(url) else None


def refuse_server(command: str) -> None:
    """Raises InvalidInput if --api was given to a command that needs the database itself."""
    if _given.get().api is not None:
        raise InvalidInput(
            f"`{command}` has no --api: it needs the database, or runs on this machine. Nothing was done.",
            fix="Leave --api out, and name the database by --url or LEASEHOLD_URL.",
        )


@cache
def server_options() -> Sequence[Any]:
    """Returns the options of a server for a command. They are not listed: `leasehold --help` names --api."""
    carrier = typer.Typer(add_completion=False)
    carrier.command()(_declared)
    options = typer.main.get_command(carrier).params
    for option in options:
        option.expose_value, option.callback = False, _note
    return options


def _declared(
    api: Annotated[str | None, typer.Option("--api", hidden=True)] = None,
    token_file: Annotated[str | None, typer.Option("--token-file", hidden=True)] = None,
    plain_http: Annotated[bool, typer.Option("--plain-http", hidden=True)] = False,
) -> None:
    """Declares the options; typer makes them."""


def _note(_context: Any, option: Any, value: Any) -> Any:
    if value:
        given: dict[str, Any] = {option.name: Path(value) if option.name == "token_file" else value}
        _given.set(replace(_given.get(), **given))
    return value
