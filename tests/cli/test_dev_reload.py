"""`leasehold dev` runs changed code, and shows broken code."""

import sys
from pathlib import Path

import pytest
from tests.cli.dev_process import APP, Start, ends, enqueue
from tests.conftest import eventually

from leasehold.model.status import Status
from leasehold.store import TenantJobs

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="they look for processes in /proc")

# Root may read every folder, unless it gives up two capabilities before it starts the program in its arguments.
WITHOUT_PRIVILEGE = """
import ctypes, os, sys
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 24, 1, 2
for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
    ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


async def test_changed_code_is_run_without_a_restart_by_hand(
    started: Start, acme: TenantJobs, tmp_path: Path
) -> None:
    dev = started("--json")
    await dev.is_ready()
    assert (await ends(acme, await enqueue(acme))).result == "first"
    (tmp_path / "app.py").write_text(APP.replace('"first"', '"second"'))
    assert "app.py changed" in (await dev.tells("dev.message", topic="changed"))["text"]
    await dev.tells("dev.message", topic="ready")
    assert (await ends(acme, await enqueue(acme))).result == "second"
    await dev.stop()


async def test_a_job_that_runs_while_the_code_changes_may_end(
    started: Start, acme: TenantJobs, tmp_path: Path
) -> None:
    dev = started("--json")
    await dev.is_ready()
    job = await enqueue(acme, "wait")
    await dev.tells("job.started", job=job)
    (tmp_path / "app.py").write_text(APP + "\n")
    await dev.tells("dev.message", topic="changed")
    (tmp_path / "go").touch()
    await dev.tells("dev.message", topic="ready")
    assert (await ends(acme, job)).attempt == 1
    await dev.stop()


async def test_a_folder_that_may_not_be_read_is_named_and_reload_goes_on(started: Start, tmp_path: Path) -> None:
    for name in ("closed", "later"):
        (tmp_path / name).mkdir()
    (tmp_path / "closed").chmod(0)
    (tmp_path / "app.py").write_text("def broken(:")
    try:
        dev = started("--json", started_by=(sys.executable, "-ISc", WITHOUT_PRIVILEGE))
        await dev.tells("dev.message", topic="broken")
        assert str(tmp_path / "closed") in (await dev.tells("dev.message", topic="unreadable"))["text"]
        (tmp_path / "later" / "fresh.py").write_text("")
        assert "fresh.py changed" in (await dev.tells("dev.message", topic="changed"))["text"]

        async def is_broken_again() -> bool:
            return len(dev.told("dev.message", topic="broken")) == 2

        # Python shows a traceback of its own if it is interrupted while it still starts.
        await eventually(is_broken_again, what="the end of the reload")
        await dev.stop()
    finally:
        (tmp_path / "closed").chmod(0o700)
    assert len(dev.told("dev.message", topic="unreadable")) == 1
    assert "Traceback" not in dev.said


async def test_broken_code_is_shown_with_its_line_until_it_is_mended(
    started: Start, acme: TenantJobs, tmp_path: Path
) -> None:
    dev = started("--json")
    await dev.is_ready()
    (tmp_path / "app.py").write_text("import no_such_module\n" + APP)
    broken = (await dev.tells("dev.message", topic="broken"))["text"]
    assert "No module named 'no_such_module'" in broken
    assert "app.py:1" in broken
    (tmp_path / "app.py").write_text(APP)
    await dev.tells("dev.message", topic="ready")
    assert (await ends(acme, await enqueue(acme))).status is Status.SUCCEEDED
    await dev.stop()


async def test_code_that_is_broken_from_the_start_is_waited_for(
    started: Start, acme: TenantJobs, tmp_path: Path
) -> None:
    (tmp_path / "app.py").write_text("def broken(:")
    dev = started("--json")
    assert "line 1" in (await dev.tells("dev.message", topic="broken"))["text"]
    (tmp_path / "app.py").write_text(APP)
    await dev.is_ready()
    assert (await ends(acme, await enqueue(acme))).status is Status.SUCCEEDED
    await dev.stop()


async def test_code_that_ends_its_process_when_imported_is_told_of(started: Start, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("raise SystemExit(3)")
    dev = started("--json")
    assert "ended its process with 3" in (await dev.tells("dev.message", topic="broken"))["text"]
    await dev.stop()


async def test_without_reload_broken_code_is_an_error(started: Start, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("def broken(:")
    dev = started("--json", "--no-reload")
    assert await dev.code() == 2
    assert dev.news[-1]["error"]["code"] == "LH-5001"


async def test_without_watchfiles_it_says_so_and_goes_on(started: Start, acme: TenantJobs) -> None:
    dev = started("--json", prelude="import sys; sys.modules['watchfiles'] = None; ")
    assert "pip install 'leasehold[dev]'" in (await dev.tells("dev.message", topic="watching"))["text"]
    assert (await ends(acme, await enqueue(acme))).status is Status.SUCCEEDED
    await dev.stop()
