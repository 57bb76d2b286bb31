"""`make test-oldest` uses the oldest Postgres that is available, or prints why none is."""

import os
import subprocess
from pathlib import Path

import pytest
from tests import oldest_postgres


def have(monkeypatch: pytest.MonkeyPatch, offered: set[int], installed: set[int]) -> None:
    monkeypatch.setattr(oldest_postgres, "offered_versions", lambda: offered)
    monkeypatch.setattr(oldest_postgres, "installed_versions", lambda: installed)


def test_the_oldest_installed_version_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    have(monkeypatch, offered={15}, installed={15, 17})

    assert oldest_postgres.oldest_postgres() == Path("/usr/lib/postgresql/15/bin")


def test_versions_before_14_are_not_taken() -> None:
    assert oldest_postgres.supported(iter(["9.6", "13", "14", "common", "18"])) == {14, 18}


def test_a_machine_without_packages_skips_and_says_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    have(monkeypatch, offered=set(), installed=set())

    assert oldest_postgres.main([]) == 0
    assert "Skipped the tests on the oldest Postgres: no package" in capsys.readouterr().out


def test_a_user_who_may_not_install_is_told_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    have(monkeypatch, offered={15}, installed=set())
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    assert oldest_postgres.main([]) == 0
    assert "apt-get install postgresql-15" in capsys.readouterr().out


def test_an_installation_that_fails_says_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    have(monkeypatch, offered={15}, installed=set())
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(oldest_postgres, "SYSTEM_FOLDER", tmp_path)
    failed = subprocess.CompletedProcess[str]([], 100, "", "E: no network")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)

    assert oldest_postgres.main([]) == 0
    assert "apt-get install postgresql-15 failed: E: no network" in capsys.readouterr().out
