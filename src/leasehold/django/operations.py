"""Our migrations as Django's: the same SQL, applied by `manage.py migrate` and recorded in both ledgers."""

from typing import Any

from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.operations.base import Operation

from leasehold.django.project_settings import ProjectSettings
from leasehold.engines import DEFAULT_URL, engine_for


class ApplyMigration(Operation):
    """Applies the migration of this number on the alias that holds the jobs; does nothing on all others.

    A migration that `leasehold migrate` has applied before is skipped. It can't be reversed: that would delete jobs.
    """

    reduces_to_sql = True
    reversible = False

    def __init__(self, number: int) -> None:
        self.number = number

    def state_forwards(self, app_label: str, state: Any) -> None:
        """Changes nothing: none of our tables is a model."""

    def database_forwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: Any, to_state: Any
    ) -> None:
        settings = ProjectSettings.read()
        if schema_editor.connection.alias != settings.alias:
            return
        steps = engine_for(DEFAULT_URL, settings.schema).scripts().migration_steps()
        step = next(each for each in steps if each.version == self.number)
        schema_editor.execute(step.lock_limit, params=None)
        schema_editor.execute(step.opening, params=None)
        if schema_editor.collect_sql or not _returns_true(schema_editor, step.applied):
            schema_editor.execute(step.script, params=None)

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        raise NotImplementedError("it would delete all jobs: drop the schema yourself, if that is meant")

    def describe(self) -> str:
        return f"Apply Leasehold's migration {self.number:04d}"

    @property
    def migration_name_fragment(self) -> str:
        return f"leasehold_{self.number:04d}"


def _returns_true(schema_editor: BaseDatabaseSchemaEditor, question: str) -> bool:
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(question)
        return bool(cursor.fetchone()[0])
