"""`leasehold grants`, which prints SQL and opens no database."""

import pytest
from tests.cli.terminal import NOWHERE, run


def test_the_roles_are_named_after_the_schema() -> None:
    printed = run(["grants"])
    assert printed.code == 0
    named = ", ".join(f'"leasehold_{part}"' for part in ("worker", "server", "producer", "reader", "tenant"))
    assert f'grant usage on schema "leasehold" to {named};' in printed.out
    assert 'grant usage on schema "house" to "house_worker"' in run(["grants", "--schema", "house"]).out


def test_a_role_can_be_named_and_is_quoted() -> None:
    printed = run(["grants", "--worker", 'a "b"; drop'])
    assert 'grant insert, update, delete on "leasehold".jobs to "a ""b""; drop", "leasehold_server";' in printed.out


def test_the_roles_and_their_schema_are_created_by_another_script() -> None:
    printed = run(["grants", "--create-roles", "--schema", "house", "--migrator", "it's"])
    assert "set local leasehold_roles.migrator = 'it''s';" in printed.out
    assert "'create schema %I authorization %I', 'house'" in printed.out


def test_json_has_the_names_of_the_roles_and_the_script() -> None:
    printed = run(["grants", "--reader", "looker", "--json", "--url", NOWHERE])
    assert printed.document["roles"] == {
        "migrator": "leasehold_migrator",
        "worker": "leasehold_worker",
        "server": "leasehold_server",
        "producer": "leasehold_producer",
        "tenant": "leasehold_tenant",
        "reader": "looker",
    }
    assert (printed.document["schema"], printed.document["sql"][-8:]) == ("leasehold", "commit;\n")


@pytest.mark.parametrize("name", ["public", "none", "a\nb", "é" * 32], ids=["everybody", "none", "lines", "long"])
def test_a_name_that_reaches_another_role_is_refused(name: str) -> None:
    refused = run(["grants", "--reader", name])
    assert refused.code == 2
    assert "can't be used as a role's name" in refused.err
    assert refused.out == ""
