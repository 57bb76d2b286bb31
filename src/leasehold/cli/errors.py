"""`leasehold errors`."""

from datetime import datetime
from typing import Annotated

import typer

from leasehold.cli.format import ago, utc_now
from leasehold.cli.options import ForTenant, Json, Schema, Url, ask, read_tenant, require_tenant
from leasehold.cli.output import explain_errors, print_json, stderr, stdout
from leasehold.cli.tables import show_line, show_table
from leasehold.control import Control
from leasehold.control.protocol import Document
from leasehold.errors import NoTenant
from leasehold.operations.views import error_of, first_line, format_count, printable, visible

NO_TENANT = NoTenant("A group is shown for one tenant. Nothing was read.", fix="Write --tenant acme.")


def errors(
    group: Annotated[str | None, typer.Argument(help="Show this group, and the fields of its payloads.")] = None,
    tenant: ForTenant = None,
    url: Url = None,
    schema: Schema = None,
    json: Json = False,
) -> None:
    """List failed and dead jobs by their error.

    Jobs of one definition whose errors differ only in numbers, names in quotes, paths and addresses are a group.
    """
    with explain_errors(json):
        if group is None:
            owner = read_tenant(tenant)
            found = ask(url, schema, lambda control: control.error_groups(owner))
            print_json(found) if json else _show(found, of_all=owner is None)
        else:
            named, wanted = require_tenant(url, tenant, NO_TENANT), group

            async def read(control: Control) -> Document:
                return await control.error_group(await control.tenant(named, NO_TENANT), wanted)

            shown = ask(url, schema, read)
            print_json(shown) if json else _show_one(shown)


def _show(found: Document, *, of_all: bool) -> None:
    now = utc_now()
    columns = ["GROUP", *(["TENANT"] if of_all else []), "DEFINITION", "JOBS", "24 H", "FIRST", "LAST", "ERROR"]
    rows = [
        [
            each["id"],
            *([each["tenant_id"]] if of_all else []),
            each["definition_key"],
            _count(each),
            str(each["recent"]),
            ago(datetime.fromisoformat(each["first_at"]), now),
            ago(datetime.fromisoformat(each["last_at"]), now),
            first_line(error_of(each["code"], each["error"])),
        ]
        for each in found["groups"]
    ]
    if rows:
        show_table(stdout, columns, rows)
    stderr.print(format_count(len(rows), "group") + ("" if found["is_whole"] else "; there are more"))


def _show_one(group: Document) -> None:
    show_line(stdout, f"{group['id']}  {visible(group['definition_key'])}: {_count(group)} failed or dead jobs")
    show_line(stdout, printable(first_line(error_of(group["code"], group["error"]))))
    for field in group["fields"]:
        values = ", ".join(f"{each['value']} × {each['jobs']}" for each in field["values"])
        others = f", {field['others']} others" if field["others"] else ""
        show_line(stdout, f"  {visible(field['name'])}: {values}{others}")
    stderr.print(
        f"retry them: leasehold retry --error {group['id']} --tenant {visible(group['tenant_id'])} --plan",
        markup=False,
    )


def _count(group: Document) -> str:
    return f"{group['jobs']:,}{'+' if group['is_cap'] else ''}"
