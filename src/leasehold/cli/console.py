"""`leasehold console link`."""

from typing import Annotated

import typer

from leasehold.app import Leasehold
from leasehold.cli.actor import cli_actor
from leasehold.cli.help import DatabaseCommand, Group
from leasehold.cli.options import ForTenant, Json, Schema, Url, ask_database, read_tenant
from leasehold.cli.output import explain_errors, print_json, stderr, stdout
from leasehold.model.access import Role, read_role
from leasehold.model.duration import read_duration, span
from leasehold.model.session import LINK_LIFE
from leasehold.model.token import TokenId
from leasehold.operations import sessions, tokens
from leasehold.operations.views import printable, visible

commands = typer.Typer(cls=Group, no_args_is_help=True)


@commands.callback()
def console() -> None:
    """Open the console of `leasehold serve` or `leasehold dev`.

    All commands take --json.
    """


@commands.command(cls=DatabaseCommand)
def link(
    tenant: ForTenant = None,
    role: Annotated[
        str | None,
        typer.Option(
            help="viewer, operator, tenant_admin or super_admin. Default: the last; with --tenant, its admin."
        ),
    ] = None,
    lasting: Annotated[str, typer.Option("--for", help="How long it may be used, at most 366d.")] = "12h",
    at: Annotated[str, typer.Option(help="Where the console is served.")] = "http://127.0.0.1:8000",
    url: Url = None,
    schema: Schema = None,
    json: Json = False,
) -> None:
    """Print a link that signs one browser in, once, within 15 minutes.

    It makes a token that lasts as long as --for says; leasehold token revoke ends it, and the session with it.
    """
    with explain_errors(json):
        owner = read_tenant(tenant)
        chosen = read_role(role) if role else Role.SUPER_ADMIN if owner is None else Role.TENANT_ADMIN
        actor, life = cli_actor(), read_duration(lasting)

        async def make(app: Leasehold) -> tuple[TokenId, str]:
            record, _ = await tokens.create(
                *(app.store, f"console link of {actor.name}", chosen),
                tenant=owner,
                life=life,
                created_by=actor.name,
                actor=actor,
            )
            return record.id, await sessions.make_link(app.store, record.id)

        token, secret = ask_database(url, schema, make)
        address = f"{at.rstrip('/')}/sign-in?link={secret}"
        if json:
            print_json({"url": address, "token": token, "role": chosen.value, "tenant": owner})
            return
        stdout.print(address, markup=False, highlight=False, soft_wrap=True)
        whose = "all tenants" if owner is None else visible(owner)
        text = f"✓ {chosen.value} of {whose}, usable once, within {span(LINK_LIFE)}; its token is {token}"
        stderr.print(printable(text), markup=False)
