"""The decisions that are made before postgres starts, as client and guard share them."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

GUARD_FOLDER = str(Path(__file__).parent)
"""The program of the guard's process."""


@dataclass(frozen=True)
class Plan:
    """All decisions that are made before postgres starts."""

    home: str
    binaries: str
    version: int
    socket_folder: str
    port: int
    cluster_name: str
    settings: dict[str, str]
    uid: int | None = None  # the account that runs postgres; None: that of the guard
    gid: int | None = None

    @property
    def data(self) -> Path:
        return Path(self.home, "pgdata")

    @property
    def socket_file(self) -> Path:
        return Path(self.socket_folder, f".s.PGSQL.{self.port}")

    def identity(self) -> dict[str, Any]:
        """Returns the arguments of Popen that run a program as the account of postgres."""
        if self.uid is None:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> "Plan":
        return Plan(**json.loads(text))
