"""The commands of deploy/: read from units, manifests and the Dockerfile."""

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import yaml

from leasehold.model.duration import read_duration

DEPLOY = Path(__file__).parents[2] / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
KUBERNETES = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
PROGRAM = "/srv/app/.venv/bin/leasehold"


@dataclass(frozen=True)
class Place:
    """A command of a file, the time that its supervisor waits after SIGTERM, and its probes (path and port)."""

    file: str
    words: Sequence[str]
    patience: timedelta | None = None
    probes: frozenset[tuple[str, int]] = frozenset()

    @property
    def name(self) -> str:
        return f"{self.file}: {' '.join(self.words)}"

    def option(self, name: str) -> str | None:
        return self.words[self.words.index(name) + 1] if name in self.words else None

    @property
    def grace(self) -> timedelta:
        return read_duration(self.option("--grace") or "0s")


def places() -> list[Place]:
    return [*_units(), *_compose(), *_kubernetes(), *_dockerfile()]


def documents(file: Path) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(file.read_text()) if document]


def _units() -> Iterator[Place]:
    for unit in UNITS:
        settings = dict(re.findall(r"^(\w+)=(.*)$", unit.read_text(), re.MULTILINE))
        program, *words = shlex.split(settings["ExecStart"].replace("%i", "1"))
        assert program == PROGRAM, unit
        patience = settings.get("TimeoutStopSec")
        yield Place(unit.name, words, None if patience is None else timedelta(seconds=int(patience)))


def _compose() -> Iterator[Place]:
    for name, service in COMPOSE["services"].items():
        if service["image"] == "leasehold-app":
            patience = service.get("stop_grace_period")
            yield Place(f"compose {name}", service["command"], None if patience is None else read_duration(patience))


def _kubernetes() -> Iterator[Place]:
    for document in (document for file in KUBERNETES for document in documents(file)):
        pod = document.get("spec", {}).get("template", {}).get("spec", {})
        for container in pod.get("containers", ()):
            patience = pod.get("terminationGracePeriodSeconds")
            yield Place(
                f"kubernetes {container['name']}",
                container["args"],
                None if patience is None else timedelta(seconds=patience),
                frozenset(_probes(container)),
            )


def _probes(container: dict[str, Any]) -> Iterator[tuple[str, int]]:
    ports = {port["name"]: port["containerPort"] for port in container.get("ports", ())}
    for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
        if kind in container:
            asked = container[kind]["httpGet"]
            yield asked["path"], ports[asked["port"]]


def _dockerfile() -> Iterator[Place]:
    (command,) = re.findall(r"^CMD (\[.*\])$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    yield Place("Dockerfile", json.loads(command))
