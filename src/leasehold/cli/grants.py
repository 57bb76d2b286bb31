"""`leasehold grants`."""

from typing import Annotated

import typer

from leasehold.cli.options import Json, Schema, Url
from leasehold.cli.output import explain_errors, print_json, print_text
from leasehold.config import Settings
from leasehold.engine import RoleNames
from leasehold.engines import DEFAULT_URL, engine_for

Role = Annotated[str | None, typer.Option(metavar="ROLE", help="Default: the schema's name and this word.")]


def grants(
    create_roles: Annotated[
        bool, typer.Option("--create-roles", help="Print SQL that creates the roles and the schema instead.")
    ] = False,
    migrator: Role = None,
    worker: Role = None,
    server: Role = None,
    producer: Role = None,
    reader: Role = None,
    tenant: Role = None,
    url: Url = None,
    schema: Schema = None,
    json: Json = False,
) -> None:
    """Print SQL that gives each role only the rights it needs.

    Opens no database. The owner of the schema runs the SQL after each migration.
    """
    with explain_errors(json):
        settings = Settings.from_environment()
        engine = engine_for(url or settings.url or DEFAULT_URL, schema or settings.schema)
        roles = RoleNames.of(
            engine.schema,
            migrator=migrator,
            worker=worker,
            server=server,
            producer=producer,
            reader=reader,
            tenant=tenant,
        )
        scripts = engine.scripts()
        sql = scripts.create_roles(roles) if create_roles else scripts.grants(roles)
        if json:
            print_json({"schema": engine.schema, "roles": roles.by_part(), "sql": sql})
        else:
            print_text(sql)
