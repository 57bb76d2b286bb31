"""`manage.py migrate` creates and upgrades our tables, beside `leasehold migrate`."""

from pathlib import Path

from tests.cli.test_migrate import leasehold as leasehold_command
from tests.django.conftest import Shop

import leasehold.django.migrations
from leasehold.engines import engine_for
from leasehold.engines.postgres.migrate import migrations


def test_each_of_our_migrations_is_one_of_djangos() -> None:
    files = Path(leasehold.django.migrations.__file__ or "").parent.glob("0*.py")
    assert sorted(file.stem for file in files) == [migration.title for migration in migrations("leasehold")]


async def test_migrate_makes_the_schema_that_this_code_needs(empty: Shop) -> None:
    said = empty.must("migrate")
    assert "Applying leasehold.0001_foundation... OK" in said
    assert "Applying leasehold.0003_triggers... OK" in said
    assert (await engine_for(empty.url).schema_status()).current


def test_what_was_migrated_before_is_left_as_it_is(empty: Shop) -> None:
    assert leasehold_command("migrate", url=empty.url).code == 0
    assert "Applying leasehold.0001_foundation... OK" in empty.must("migrate")


def test_migrating_by_either_way_leaves_nothing_for_the_other(shop: Shop) -> None:
    assert "up to date" in leasehold_command("migrate", url=shop.url).err


def test_django_finds_no_change_that_lacks_a_migration(shop: Shop) -> None:
    assert "No changes detected" in shop.must("makemigrations", "--check", "--dry-run")


def test_sqlmigrate_shows_what_will_be_done(empty: Shop) -> None:
    assert "create table" in empty.must("sqlmigrate", "leasehold", "0001")


def test_there_is_no_way_back_that_would_delete_jobs(shop: Shop) -> None:
    done = shop.manage("migrate", "leasehold", "zero")
    assert done.returncode != 0
    assert "irreversible" in done.stderr.lower()
    assert (shop.manage("migrate", "--check")).returncode == 0
