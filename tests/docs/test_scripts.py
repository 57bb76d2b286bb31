"""Runs the SQL and shell blocks of the docs as they stand, in the order of their page."""

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import asyncpg
import pytest
from tests.docs.test_docs import LEASEHOLD, PATIENCE, README, ROOT, blocks, without_settings

from leasehold import embedded
from leasehold.engines import engine_for
from leasehold.model.definition import Definition

OBJECT = {"type": "object", "additionalProperties": False}
SYNC_FOLDER = {**OBJECT, "properties": {"folder": {"type": "integer"}, "path": {"type": "string"}}}
SHIP = {**OBJECT, "properties": {"order": {"type": "integer"}}}
SQL_PAGE, ROLES_PAGE = ROOT / "docs/reference/sql.md", ROOT / "docs/how-to/roles.md"
MIGRATOR_URL = "postgresql://leasehold_migrator@db.example/app"


async def test_the_statements_of_the_sql_page_run_in_their_order(database_url: str) -> None:
    store = await engine_for(database_url).open()
    await store.sync_definitions([Definition("sync_folder", schema=SYNC_FOLDER), Definition("ship", schema=SHIP)])
    await store.close()
    connection = await asyncpg.connect(database_url)
    try:
        transaction = connection.transaction()  # rolled back: a role belongs to the whole server
        await transaction.start()
        await connection.execute("create role app; create table orders (tenant text, number integer, uuid uuid)")
        for statements in blocks(SQL_PAGE, "sql"):
            await connection.execute(statements)
        await connection.execute("insert into orders values ('acme', 7, gen_random_uuid())")
        found = await connection.fetch("select definition, payload::text from leasehold.jobs order by seq")
        await transaction.rollback()
    finally:
        await connection.close()
    assert [row["definition"] for row in found] == [*["sync_folder"] * 4, "ship"]
    assert found[-1]["payload"] == '{"order": 7}'


def test_the_scripts_of_the_roles_page_run_in_their_order(tmp_path: Path, prepared_home: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    command = programs / "leasehold"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{LEASEHOLD}" "$@"\n')
    command.chmod(0o755)
    (programs / "psql").symlink_to(embedded.psql())
    with embedded.postgres(prepared_home) as server:
        of_migrator = server.url.replace("leasehold@", "leasehold_migrator@")
        environment = without_settings() | {"SUPERUSER_URL": server.url, "PATH": f"{programs}:{os.environ['PATH']}"}
        create_roles, migrate_and_grant, serve, confine = blocks(ROLES_PAGE, "sh")
        assert MIGRATOR_URL in migrate_and_grant
        run_shell(create_roles, tmp_path, environment)
        log_in = "".join(blocks(ROLES_PAGE, "sql"))
        log_in += "alter role leasehold_tenant login;\n"
        run_shell(f'psql --set ON_ERROR_STOP=1 "$SUPERUSER_URL" <<"END"\n{log_in}END\n', tmp_path, environment)
        done = run_shell(migrate_and_grant.replace(MIGRATOR_URL, f"'{of_migrator}'"), tmp_path, environment)
        assert "GRANT" in done.stdout
        for script, role in ((serve, "leasehold_server"), (confine, "leasehold_tenant")):
            written = f'"postgresql://{role}@db.example/app?tenant_role=leasehold_tenant"'
            assert written in script
            url = server.url.replace("leasehold@", f"{role}@")
            url += ("&" if "?" in url else "?") + "tenant_role=leasehold_tenant"
            script = script.replace(written, f"'{url}'")
            counted = run_shell(f"{script}leasehold counts --tenant acme --json\n", tmp_path, environment)
            assert json.loads(counted.stdout)["queued"] == 0


@pytest.mark.timeout(6 * PATIENCE)
def test_install_commands_of_the_readme_install_a_wheel(tmp_path: Path) -> None:
    """pip finds the dependencies installed already: looking them up in an index took 15 of 21 seconds."""
    (commands,) = blocks(README, "bash")
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        if name.startswith("src/") or "/" not in name:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    environment = without_settings() | {"PYTHONPATH": str(installed_dependencies(tmp_path / "dependencies"))}
    done = run_shell(commands, tmp_path, environment, patience=5 * PATIENCE)
    assert done.stdout.splitlines()[-1].startswith("leasehold 0.1.0")
    assert list(tmp_path.glob(".venv/lib/python*/site-packages/leasehold/py.typed"))


def installed_dependencies(folder: Path) -> Path:
    """Makes a folder with every installed package except Leasehold and pip."""
    folder.mkdir()
    for package in Path(sysconfig.get_path("purelib")).iterdir():
        if not package.name.lower().startswith(("leasehold", "_leasehold", "__editable__", "pip")):
            (folder / package.name).symlink_to(package)
    return folder


def run_shell(
    script: str, folder: Path, environment: dict[str, str], patience: int = PATIENCE
) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run(
        ["sh", "-e", "-c", script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=patience,
        check=False,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
    return done
