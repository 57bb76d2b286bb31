"""`leasehold views list`, `save` and `delete`."""

from collections.abc import Mapping
from enum import StrEnum
from shlex import quote
from typing import Annotated, Any
from urllib.parse import parse_qsl, urlencode

import typer

from leasehold.cli.help import Command, Group
from leasehold.cli.options import ForTenant, Json, Schema, Url, ask, read_tenant
from leasehold.cli.output import explain_errors, print_json, stderr, stdout
from leasehold.cli.tables import show_table
from leasehold.operations.views import format_count, printable, visible

commands = typer.Typer(cls=Group, no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Its name, of up to 60 characters.")]
Shared = Annotated[bool, typer.Option("--shared", help="One that all people of the tenant share.")]


class Size(StrEnum):
    """How many jobs a page of the console shows."""

    SMALL = "25"
    USUAL = "50"
    LARGE = "100"
    LARGEST = "200"


@commands.callback()
def views() -> None:
    """Save searches for jobs under a name, as the console shows them.

    Without --tenant they are those of the list of all tenants. All commands take --json.
    """


@commands.command("list", cls=Command)
def list_(tenant: ForTenant = None, url: Url = None, schema: Schema = None, json: Json = False) -> None:
    """List saved views: your own, and those that are shared.

    Yours are those of your token, and without --api those of your account on this machine.
    """
    with explain_errors(json):
        owner = read_tenant(tenant)
        found = ask(url, schema, lambda control: control.views.list(owner))
        if json:
            print_json(found)
        elif found:
            show_table(stdout, ["NAME", "FOR", "SAVED BY", "SEARCH"], [_row(each) for each in found])
        stderr.print(format_count(len(found), "view"))


@commands.command(cls=Command)
def save(
    name: Name,
    search: Annotated[
        str, typer.Argument(help="The words of the console's search box: 'status:failed created:<2h'.")
    ],
    column: Annotated[
        list[str] | None, typer.Option(help="A column to show; several times. Default: as usual.")
    ] = None,
    limit: Annotated[Size | None, typer.Option(help="Jobs on a page. Default: 50.")] = None,
    shared: Shared = False,
    tenant: ForTenant = None,
    url: Url = None,
    schema: Schema = None,
    json: Json = False,
) -> None:
    """Save a search, in the place of one with the same name."""
    with explain_errors(json):
        owner = read_tenant(tenant)
        chosen = {"q": search.strip(), "column": column or [], "limit": limit or ""}
        query = urlencode({part: value for part, value in chosen.items() if value}, doseq=True)
        saved = ask(url, schema, lambda control: control.views.save(owner, name, query, shared=shared))
        _confirm(saved, json, "is saved")


@commands.command(cls=Command)
def delete(
    name: Name,
    shared: Shared = False,
    tenant: ForTenant = None,
    url: Url = None,
    schema: Schema = None,
    json: Json = False,
) -> None:
    """Delete a saved view; jobs are not touched."""
    with explain_errors(json):
        owner = read_tenant(tenant)
        ask(url, schema, lambda control: control.views.delete(owner, name, shared=shared))
        _confirm({"name": name, "shared": shared}, json, "is deleted")


def _confirm(view: Mapping[str, Any], json: bool, state: str) -> None:
    if json:
        print_json(view)
    else:
        whose = "shared view" if view["shared"] else "view"
        stderr.print(printable(f"✓ {whose} {visible(view['name'])} {state}"), markup=False)


def _row(view: Mapping[str, Any]) -> list[str]:
    """Returns a row whose search can be copied into `leasehold views save`."""
    parts = parse_qsl(view["query"])
    search = next((value for part, value in parts if part == "q"), "")
    words = [quote(search), *(f"--{part} {quote(value)}" for part, value in parts if part != "q")]
    return [view["name"], "all" if view["shared"] else "you", view["created_by"] or "–", " ".join(words)]
