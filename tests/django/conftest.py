"""A real Django project, the shop under examples/, run by its own manage.py on a database of each test's own."""

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import asyncpg
import pytest
from tests.database_server import DatabaseServer

SHOP = Path(__file__).parents[2] / "examples" / "django_shop"


@dataclass(frozen=True)
class Shop:
    url: str

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LEASEHOLD_")}
        return {**kept, "DATABASE_URL": self.url}

    def manage(self, *arguments: str, **more: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=SHOP,
            env={**self.environment, **more},
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )

    def must(self, *arguments: str, **more: str) -> str:
        done = self.manage(*arguments, **more)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def python(self, code: str) -> str:
        """Runs it as `manage.py shell` does."""
        return self.must("shell", "--verbosity", "0", "--command", code)


@pytest.fixture
async def empty(database_server: DatabaseServer) -> AsyncIterator[Shop]:
    """A shop whose database has no tables yet."""
    name = f"leasehold_test_{database_server.run}_{uuid4().hex[:12]}"
    admin = await asyncpg.connect(database_server.url_for("postgres"))
    try:
        await admin.execute(f'create database "{name}"')
    finally:
        await admin.close()
    yield Shop(database_server.url_for(name))
    await database_server.drop(name)


@pytest.fixture
async def shop(empty: Shop) -> Shop:
    """A shop whose database is migrated."""
    empty.must("migrate", "--verbosity", "0")
    return empty
