"""The server of a benchmark, and the name of its results."""

from pathlib import Path

import pytest
from bench.names import command_for, file_for
from bench.server import EMBEDDED, SYSTEM, default_server, oldest, running, system_binaries
from bench.systems import CannotMeasure

from leasehold.embedded.binaries import Binaries

URL = "postgresql://me:secret@somewhere/x"


def test_results_of_each_version_have_a_name_of_their_own() -> None:
    assert file_for(EMBEDDED, 18, whole=True) == "RESULTS"
    assert file_for(SYSTEM, 15, whole=True) == "RESULTS-15"
    assert file_for(URL, 16, whole=True) == "RESULTS-16"
    assert file_for(SYSTEM, 15, whole=False) == "RESULTS-quick-15"


def test_the_report_names_the_server_and_no_password() -> None:
    assert command_for(False, "", "", 0, EMBEDDED) == "make bench"
    assert command_for(True, "", "", 0, SYSTEM) == "make bench QUICK=1 SERVER=system"
    assert command_for(False, "drain", "", 3, URL) == "python -m bench --only drain --rounds 3 --server URL"


def test_a_variable_names_the_server_if_no_option_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LEASEHOLD_BENCH_URL", raising=False)
    assert default_server() == EMBEDDED
    monkeypatch.setenv("LEASEHOLD_BENCH_URL", URL)
    assert default_server() == URL


def test_of_several_system_servers_the_oldest_is_measured() -> None:
    found = [Binaries(Path("/new"), 17), Binaries(Path("/old"), 14), Binaries(Path("/middle"), 16)]
    assert oldest(iter(found)) == found[1]


def test_a_machine_without_a_system_server_is_told_so() -> None:
    with pytest.raises(CannotMeasure, match="Nothing was measured"):
        oldest(iter(()))


@pytest.mark.faults
async def test_a_system_server_is_started_and_thrown_away() -> None:
    if not (found := list(system_binaries())):
        pytest.skip("no PostgreSQL of the system's packages is installed")
    async with running(SYSTEM) as started:
        home = started.home
        assert started.major == min(each.version for each in found)
        assert await started.admin.fetchval("show fsync") == "on"
    assert home is not None
    assert not home.exists()


def test_no_wheel_counts_as_a_system_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("bench.server.SYSTEM_FOLDER", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert list(system_binaries()) == []
