"""The pip commands of the Dockerfile, run in a folder: without a container engine no image can be built here."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.deploy.manifests import DEPLOY

ROOT = DEPLOY.parent
DOCKERFILE = re.sub(r"\\\n", " ", (DEPLOY / "Dockerfile").read_text())
PATIENCE = 200


def copy_sources(folder: Path) -> None:
    """Copies what the first stage of the image copies, and no more."""
    folder.mkdir()
    for words in re.findall(r"^COPY (.+)$", DOCKERFILE[: DOCKERFILE.index("RUN")], re.MULTILINE):
        *names, target = words.split()
        for name in names:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, folder / target)


def run(command: str, folder: Path, environment: Mapping[str, str]) -> None:
    done = subprocess.run(
        ["sh", "-c", command.replace("/wheels", str(folder.with_name("wheels")))],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}"


@pytest.mark.timeout(2 * PATIENCE)
def test_the_image_installs_from_its_own_wheels(tmp_path: Path) -> None:
    """Without settings of pip, which may name further places of wheels on this machine."""
    wheel, install = re.findall(r"pip (?:wheel|install) [^&\n]+", DOCKERFILE)
    folder, programs = tmp_path / "build", tmp_path / "venv/bin"
    copy_sources(folder)
    subprocess.run([sys.executable, "-m", "venv", programs.parent], check=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LEASEHOLD_", "PYTHON"))}
    machine = kept | {"PATH": f"{programs}:{kept['PATH']}"}
    image = {name: value for name, value in machine.items() if not name.startswith("PIP_")}
    image |= {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_COMPILE": "1"}
    run(wheel, folder, machine)
    run(install, folder, image)
    run(f"{programs}/leasehold --help", folder, image)
