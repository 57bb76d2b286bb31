"""Settings: one frozen object, from the environment unless said otherwise."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Settings:
    """Each can be set by an environment variable of its name: LEASEHOLD_URL, LEASEHOLD_SCHEMA, LEASEHOLD_HOME.

    Without a `url` the embedded Postgres is used, with its data in `home`.
    """

    url: str | None = None
    schema: str = "leasehold"
    home: Path = Path(".leasehold")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Settings":
        url, schema, home = (environment.get(f"LEASEHOLD_{name}") for name in ("URL", "SCHEMA", "HOME"))
        return cls(url=url or None, schema=schema or "leasehold", home=Path(home or ".leasehold"))
