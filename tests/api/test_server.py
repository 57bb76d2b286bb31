"""The API over a socket: `leasehold serve`."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from tests.api.conftest import ACME, Client

from leasehold.model.access import Role

APP = """
from leasehold import Job, Leasehold

app = Leasehold()


@app.job
async def report(job: Job, name: str) -> str:
    return name.upper()
"""


@contextmanager
def served(folder: Path, url: str) -> Iterator[str]:
    """Runs the server in a process of its own. Yields its address; it ends by SIGTERM, with code 0."""
    (folder / "app.py").write_text(APP)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("LEASEHOLD_")}
    command = "from leasehold.cli import main; main()"
    server = subprocess.Popen(
        [sys.executable, "-c", command, "serve", "app.py", "--port", "0"],
        cwd=folder,
        env=inherited | {"LEASEHOLD_URL": url},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stderr is not None
    try:
        line = server.stderr.readline()
        assert "✓ api" in line, line + server.stderr.read()
        yield line.split()[-1]
    finally:
        server.send_signal(signal.SIGTERM)
        said = server.communicate(timeout=60)[1]
    assert server.returncode in (0, -signal.SIGTERM), said


async def test_a_served_app_enqueues_and_ticks(client: Client, database_url: str, tmp_path: Path) -> None:
    user, worker = await client.token(), await client.token(Role.WORKER, ACME)
    with served(tmp_path, database_url) as address:
        async with httpx.AsyncClient(timeout=60) as http:
            sent = {"definition_key": "report", "payload": {"name": "june"}}
            headers = {"Authorization": f"Bearer {user}"}
            made = (await http.post(f"{address}/jobs", json=sent, headers=headers)).json()
            tick = address.replace("/v1", "/jobs/tick")
            ticked = await http.post(tick, headers={"Authorization": f"Bearer {worker}"})
            assert (ticked.json()["ok"], ticked.json()["succeeded"]) == (True, 1)
            shown = (await http.get(f"{address}/jobs/{made['id']}", headers=headers)).json()
            assert (shown["status"], shown["result"]) == ("succeeded", "JUNE")
            assert (await http.get(f"{address}/jobs")).status_code == 401
            page = await http.get(address.replace("/api/v1", "/t/acme/jobs"), follow_redirects=True)
            assert (page.url.path, "Sign in" in page.text) == ("/sign-in", True)
