"""LEASEHOLD of a Django project's settings: which of its databases holds the jobs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import connections

from leasehold.engine import Login
from leasehold.engines import DEFAULT_URL, engine_for
from leasehold.errors import InvalidInput

SETTINGS = {"ALIAS", "SCHEMA", "TENANT", "URL"}


@dataclass(frozen=True, slots=True)
class ProjectSettings:
    """LEASEHOLD of the project's settings: {"ALIAS": "default", "SCHEMA": "leasehold", "TENANT": None, "URL": None}.

    ALIAS   which of DATABASES holds the jobs; enqueues are part of its current transaction
    SCHEMA  the schema in it
    TENANT  for a project with one tenant: `app.enqueue(…)` needs no tenant handle then
    URL     where workers connect, if that is not where the alias does, as behind PgBouncer; while the alias stands
            for a test database, that of the same name there
    """

    alias: str = "default"
    schema: str = "leasehold"
    tenant: str | None = None
    given_url: str | None = None

    @classmethod
    def read(cls) -> "ProjectSettings":
        given: Mapping[str, Any] = getattr(settings, "LEASEHOLD", {})
        if unknown := given.keys() - SETTINGS:
            raise InvalidInput(
                f"LEASEHOLD in the project's settings has {', '.join(sorted(unknown))}, which is not a setting.",
                fix=f"Nothing was changed. It may have {', '.join(sorted(SETTINGS))}.",
            )
        names = {"ALIAS": "alias", "SCHEMA": "schema", "TENANT": "tenant", "URL": "given_url"}
        return cls(**{names[name]: value for name, value in given.items() if value is not None})

    @property
    def url(self) -> str:
        """The URL of the alias, read at each call: while tests run, the alias stands for another database."""
        database = connections[self.alias].settings_dict
        if self.given_url is None:
            return url_of(self.alias, database)
        is_replaced = database["NAME"] != _names_at_start.get(self.alias, database["NAME"])
        return engine_for(self.given_url).url_of(str(database["NAME"])) if is_replaced else self.given_url


def remember_names() -> None:
    """Records the names at the start: in tests, Django writes the name of the test database over the real one."""
    _names_at_start.update({alias: database["NAME"] for alias, database in connections.settings.items()})


_names_at_start: dict[str, Any] = {}


def url_of(alias: str, database: Mapping[str, Any]) -> str:
    if not str(database["ENGINE"]).endswith(("postgresql", "postgis")):
        raise InvalidInput(
            f"DATABASES[{alias!r}] has the engine {database['ENGINE']}, which can't hold jobs. Nothing was changed.",
            fix='Name an alias of Postgres: LEASEHOLD = {"ALIAS": "…"}; or a database of its own: {"URL": "…"}.',
        )
    user, password, host, port = (str(database.get(name) or "") for name in ("USER", "PASSWORD", "HOST", "PORT"))
    login = Login(user, password, host, port, database.get("OPTIONS", {}))
    return engine_for(DEFAULT_URL).url_of(str(database["NAME"]), login)
