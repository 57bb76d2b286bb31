"""`leasehold dev --engine dynamodb`: an emulator of its own, the same events, and no process left behind."""

import re
import sys
from pathlib import Path

import pytest
from tests.cli.dev_process import APP, Dev, ends, enqueue
from tests.cli.terminal import run
from tests.tenant_kit import ACME

from leasehold.engines import engine_for
from leasehold.model.status import Status

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="they look for processes in /proc")


async def test_it_starts_an_emulator_and_runs_jobs(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    dev = Dev(tmp_path, {}, "--engine", "dynamodb", "--json")
    try:
        await dev.is_ready()
        assert (await dev.tells("dev.message", topic="worker"))["text"].endswith("polling")
        said = await dev.tells("dev.message", topic="database")
        found = re.search(r"dynamodb://\S+", said["text"])
        assert found is not None
        store = await engine_for(found[0].rstrip(",")).open()
        try:
            acme = store.tenant(ACME)
            job = await enqueue(acme, payload={"number": 7})
            assert (await ends(acme, job)).status is Status.SUCCEEDED
        finally:
            await store.close()
        await dev.tells("job.ended", job=job)
        await dev.stop()
    finally:
        assert await dev.clear_up() == []


def test_an_engine_beside_a_url_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "app.py").write_text(APP)
    monkeypatch.chdir(tmp_path)
    answer = run(["dev", "app.py", "--engine", "dynamodb", "--url", "postgresql://127.0.0.1:1/nobody", "--json"])
    assert answer.code == 2
    assert "--engine dynamodb asks for a database of this folder" in answer.err


def test_an_unknown_engine_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "app.py").write_text(APP)
    monkeypatch.chdir(tmp_path)
    answer = run(["dev", "app.py", "--engine", "oracle"])
    assert (answer.code, "'oracle' is not an engine" in answer.err) == (2, True)
