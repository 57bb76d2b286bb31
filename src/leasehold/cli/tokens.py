"""`leasehold token create`, `list`, `rotate` and `revoke`."""

from typing import Annotated

import typer

from leasehold.cli.format import at
from leasehold.cli.help import Command, Group
from leasehold.cli.options import ForTenant, Json, Schema, Url, ask, read_tenant
from leasehold.cli.output import explain_errors, print_json, stderr, stdout
from leasehold.cli.tables import show_table
from leasehold.errors import NoTenant
from leasehold.model.access import Role, read_permissions, read_role
from leasehold.model.duration import read_duration
from leasehold.model.token import TokenRecord, token_id
from leasehold.operations import tokens
from leasehold.operations.views import format_count, printable, visible

commands = typer.Typer(cls=Group, no_args_is_help=True)

TheToken = Annotated[str, typer.Argument(metavar="ID", help="The public id, as `leasehold token list` shows it.")]
Life = Annotated[str, typer.Option("--for", help="How long it is valid, at most 366d.")]


@commands.callback()
def token() -> None:
    """Create, list, rotate and revoke tokens of the API.

    All commands take --json.
    """


@commands.command(cls=Command)
def create(
    name: Annotated[str, typer.Argument(help="Its bearer, for people; `created_by` of everything it creates.")],
    role: Annotated[str, typer.Option(help="viewer, operator, tenant_admin, super_admin or worker.")],
    tenant: ForTenant = None,
    all_tenants: Annotated[bool, typer.Option("--all-tenants", help="Bind it to no tenant.")] = False,
    permission: Annotated[
        list[str] | None, typer.Option(help="Only these, as in jobs:read. Default: those of the role.")
    ] = None,
    definition: Annotated[
        list[str] | None, typer.Option(help="Only these definitions, for a worker. Default: all.")
    ] = None,
    lasting: Life = "90d",
    url: Url = None,
    schema: Schema = None,
    json: Json = False,
) -> None:
    """Make a token. Its text is shown once, on stdout.

    The database has only a hash of it. A viewer reads no payloads and no logs, unless --permission names them.
    """
    with explain_errors(json):
        chosen, owner = read_role(role), None if all_tenants else read_tenant(tenant)
        if owner is None and not all_tenants and chosen is not Role.SUPER_ADMIN:
            raise NoTenant(
                "a token is bound to a tenant. Nothing was saved.",
                fix="Write --tenant acme; or --all-tenants for a token of all of them.",
            )
        permissions = None if permission is None else read_permissions(chosen, permission)
        record, text = ask(
            url,
            schema,
            lambda control: control.tokens.create(
                name,
                chosen,
                tenant=owner,
                permissions=permissions,
                definitions=tuple(definition) if definition else None,
                life=read_duration(lasting),
            ),
        )
        _show(record, text, json)


@commands.command("list", cls=Command)
def list_(
    tenant: ForTenant = None,
    limit: Annotated[int, typer.Option("--limit", "-n", help="At most so many.", min=1, max=10_000)] = 1000,
    url: Url = None,
    schema: Schema = None,
    json: Json = False,
) -> None:
    """List tokens: of a tenant, or all."""
    with explain_errors(json):
        owner = read_tenant(tenant)
        found = ask(url, schema, lambda control: control.tokens.list(limit, owner))
        if json:
            print_json([tokens.as_document(record) for record in found])
        elif found:
            show_table(stdout, ["ID", "NAME", "ROLE", "TENANT", "STATE", "EXPIRES"], [_row(each) for each in found])
        stderr.print(format_count(len(found), "token"))


@commands.command(cls=Command)
def rotate(
    token: TheToken,
    lasting: Life = "90d",
    overlap: Annotated[str, typer.Option(help="How long the secret before stays valid.")] = "1d",
    url: Url = None,
    schema: Schema = None,
    json: Json = False,
) -> None:
    """Give a token a new secret, shown once, on stdout."""
    with explain_errors(json):
        public, life, both = token_id(token), read_duration(lasting), read_duration(overlap)
        record, text = ask(url, schema, lambda control: control.tokens.rotate(public, life=life, overlap=both))
        _show(record, text, json)


@commands.command(cls=Command)
def revoke(token: TheToken, url: Url = None, schema: Schema = None, json: Json = False) -> None:
    """End a token. Every server refuses it after 5 s at the latest."""
    with explain_errors(json):
        public = token_id(token)
        record = ask(url, schema, lambda control: control.tokens.revoke(public))
        if json:
            print_json(tokens.as_document(record))
        else:
            stderr.print(printable(f"✓ token {record.id} ({visible(record.name)}) is revoked"), markup=False)


def _show(record: TokenRecord, text: str, json: bool) -> None:
    """Prints the text on stdout, alone, so that it can be piped into a vault."""
    if json:
        print_json({**tokens.as_document(record), "token": text})
        return
    stdout.print(text, markup=False, highlight=False, soft_wrap=True)
    whose = "all tenants" if record.tenant is None else visible(record.tenant)
    stderr.print(
        printable(f"✓ token {record.id}: {record.role.value} of {whose}, until {at(record.expires_at)}"), markup=False
    )
    if record.overlap_until is not None:
        stderr.print(f"  the secret before is valid until {at(record.overlap_until)}", markup=False)


def _row(record: TokenRecord) -> list[str]:
    tenant = "all" if record.tenant is None else visible(record.tenant)
    return [record.id, visible(record.name), record.role.value, tenant, record.state, at(record.expires_at)]
