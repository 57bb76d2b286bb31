"""Systems that are written for Node: their parts are in bench/node."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "node"


@dataclass(frozen=True)
class NodeSystem:
    name: str
    settings: str
    unfinished: str

    def why_not(self) -> str | None:
        if not shutil.which("node"):
            return "not installed: needs Node"
        if not (FOLDER / "node_modules" / self.name).exists():
            return "not installed: npm install --prefix bench/node"
        return None

    def version(self) -> str:
        package = json.loads((FOLDER / "node_modules" / self.name / "package.json").read_text())
        return str(package["version"])

    def command(self, part: str, url: str, *arguments: str) -> Sequence[str]:
        return ["node", str(FOLDER / f"{self.name}.mjs"), part, url, *arguments]
