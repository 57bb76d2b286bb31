"""The commands of deploy/ as their supervisors start, probe and stop them, and the tools that check the files."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest
import yaml
from tests.conftest import eventually
from tests.deploy.manifests import DEPLOY, PROGRAM, UNITS, Place, places
from tests.worker.shop import Process

ROOT = DEPLOY.parent
MAIN = "from leasehold.cli import main; main()"
LASTING = [place for place in places() if place.words[0] in ("worker", "serve", "scheduler")]
ENDING = [place for place in places() if place not in LASTING]
Start = Callable[[Sequence[str]], Process]


@pytest.fixture
async def start(tmp_path: Path, database_url: str) -> AsyncIterator[Start]:
    """Starts `leasehold` in a folder with the demo's app. A process that it leaves behind fails the test."""
    shutil.copy(ROOT / "examples/demo/app.py", tmp_path)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LEASEHOLD_")}
    running: list[Process] = []

    def begin(words: Sequence[str]) -> Process:
        environment = kept | {"LEASEHOLD_URL": database_url, "LEASEHOLD_EMBEDDED": "off"}
        command = [sys.executable, "-c", MAIN, *words]
        running.append(Process(command, environment, tmp_path / f"log-{len(running)}", tmp_path))
        return running[-1]

    yield begin
    left = [pid for process in running for pid in await process.clear_up()]
    assert left == [], f"processes were left behind: {left}"


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def status_of(url: str) -> int | None:
    """Returns the HTTP status; None without an answer."""
    try:
        with urlopen(url, timeout=10) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code
    except (URLError, OSError):
        return None


def answers(url: str, process: Process) -> Callable[[], Awaitable[bool]]:
    async def is_ok() -> bool:
        assert not process.ended, process.said
        return status_of(url) == 200

    return is_ok


@pytest.mark.parametrize("place", LASTING, ids=lambda place: place.name)
async def test_a_service_becomes_ready_and_drains_on_sigterm(place: Place, start: Start) -> None:
    ports = {port: free_port() for port in (place.option("--port"), place.option("--metrics-port")) if port}
    process = start([str(ports.get(word, word)) if word in ports else word for word in place.words])
    probes = {(path, str(port)) for path, port in place.probes}
    if metrics := place.option("--metrics-port"):
        probes |= {("/health", metrics), ("/ready", metrics), ("/metrics", metrics)}
    for path, port in sorted(probes):
        await eventually(answers(f"http://127.0.0.1:{ports[port]}{path}", process), what=f"{path} answers 200")
    if not probes:
        await process.says("✓")
    process.send(signal.SIGTERM)
    # The HTTP server shuts down, and then ends by the signal that it got; supervisors take that for a clean end.
    clean = {-signal.SIGTERM} if place.words[0] == "serve" else {0}
    assert await process.code() in clean, process.said


@pytest.mark.parametrize("place", ENDING, ids=lambda place: place.name)
async def test_a_command_that_ends_succeeds(place: Place, start: Start) -> None:
    process = start(place.words)
    assert await process.code() == 0, process.said


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_accepts_the_unit(unit: Path, tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("leasehold")
    copy = tmp_path / unit.name
    copy.write_text(unit.read_text().replace(PROGRAM, str(program)))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(copy)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kubectl_builds_the_kustomization() -> None:
    done = subprocess.run(
        ["kubectl", "kustomize", str(DEPLOY / "kubernetes")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    kinds = [document["kind"] for document in yaml.safe_load_all(done.stdout)]
    assert sorted(set(kinds)) == ["Deployment", "Job", "PodDisruptionBudget", "Service"]


def test_the_instruction_of_the_dockerfile_is_the_first_line_of_each_stage() -> None:
    """Without an engine no image can be built here; each line at least begins with an instruction that exists."""
    text = re.sub(r"\\\n", " ", (DEPLOY / "Dockerfile").read_text())
    words = [line.split()[0] for line in text.splitlines() if line.strip() and not line.startswith("#")]
    known = {"FROM", "WORKDIR", "COPY", "RUN", "USER", "ENV", "STOPSIGNAL", "ENTRYPOINT", "CMD"}
    assert set(words) <= known
    assert words[0] == "FROM"
