"""Scripts that create roles with few rights, one for each way to use the database."""

import re
from importlib.resources import files

from leasehold.engine import RoleNames
from leasehold.engines.postgres.statements import render, schema_name
from leasehold.errors import InvalidInput

LONGEST_NAME = 63  # bytes; the server cuts off the rest, and the grants would go to another role

# As psql writes them: :"name" becomes an identifier, :'name' a literal.
_PLACEHOLDER = re.compile(r""":(["'])([a-z]+)\1""")


def grants_script(schema: str, roles: RoleNames) -> str:
    """Grants what working, producing and reading need. The owner of the schema runs it."""
    return _script("grants.sql", schema, roles)


def create_roles_script(schema: str, roles: RoleNames) -> str:
    """Creates the roles, and the schema for the migrating one. A superuser runs it."""
    return _script("create_roles.sql", schema, roles)


def _script(file: str, schema: str, roles: RoleNames) -> str:
    names = {part: role_name(name) for part, name in roles.by_part().items()} | {"schema": schema_name(schema)}

    def quote(match: re.Match[str]) -> str:
        name = names[match[2]]
        return quote_identifier(name) if match[1] == '"' else quote_literal(name)

    return _PLACEHOLDER.sub(quote, render((files(__package__) / file).read_text("utf-8"), schema))


def role_name(text: str) -> str:
    """Refuses names that would not reach exactly one role; even in quotes, `public` means every role."""
    if not text or len(text.encode()) > LONGEST_NAME or not text.isprintable() or text in ("public", "none"):
        raise InvalidInput(
            f"{text[:100]!r} can't be used as a role's name: 1 to {LONGEST_NAME} bytes of printable characters, "
            "and neither public, which means every role, nor none.",
            fix="Nothing was printed. Name a role of its own.",
        )
    return text


def quote_identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def quote_literal(text: str) -> str:
    """Quotes for every setting of standard_conforming_strings."""
    doubled = text.replace("'", "''")
    return "E'" + doubled.replace("\\", "\\\\") + "'" if "\\" in text else f"'{doubled}'"
