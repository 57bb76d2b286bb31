"""All processes that name the same home share one server, which runs as long as the last of them."""

import os
import stat
import subprocess
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from tests.embedded.processes import (
    QUICK,
    client,
    client_on_its_way,
    eventually,
    guard_of,
    keep,
    kept,
    no_process_of,
    processes_of,
    query,
)

from leasehold import embedded
from leasehold.embedded import places
from leasehold.errors import EmbeddedError


def test_a_new_home_yields_a_url_that_takes_connections(new_home: Path) -> None:
    with embedded.postgres(new_home, settings=QUICK) as server:
        assert query(server.url, "select current_user || ' ' || current_database()") == "leasehold postgres"
        assert query(server.url, "show data_directory") == str(server.data)
        assert query(server.url, "show server_encoding") == "UTF8"
        assert (server.binaries / "postgres").is_file()


def test_git_sees_nothing_of_a_home(new_home: Path) -> None:
    with embedded.postgres(new_home, settings=QUICK):
        subprocess.run(["git", "init", "--quiet", new_home.parent], check=True)
        seen = subprocess.run(
            ["git", "-C", new_home.parent, "status", "--short"], check=True, capture_output=True, text=True
        )
        assert seen.stdout == ""


def test_a_home_that_git_saw_is_hidden_at_its_next_start(home: Path) -> None:
    (home / ".gitignore").unlink(missing_ok=True)
    with embedded.postgres(home, settings=QUICK):
        assert (home / ".gitignore").read_text() == "*\n"


def test_a_folder_with_other_files_is_not_hidden_from_git(folder: Path) -> None:
    (folder / "notes.txt").write_text("mine")
    places.hide_from_git(folder)
    assert not (folder / ".gitignore").exists()


def test_url_for_names_another_database(home: Path) -> None:
    with embedded.postgres(home, settings=QUICK) as server:
        query(server.url, 'create database "päper & ink"')
        assert query(server.url_for("päper & ink"), "select current_database()") == "päper & ink"


def test_eight_first_starts_at_once_make_one_server(new_home: Path) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(client_on_its_way(new_home)) for _ in range(8)]
        for each in clients:
            each.wait_for_server()
            assert query(each.url, "select 1") == 1
        assert len({each.url for each in clients}) == 1
        assert len({each.postmaster for each in clients}) == 1
        for each in clients:
            each.leave()
    eventually(lambda: no_process_of(new_home))


def test_the_last_one_out_stops_it_and_waits_for_the_end(home: Path) -> None:
    first = embedded.start(home, settings=QUICK)
    second = embedded.start(home, settings=QUICK)
    assert second.postmaster_pid() == first.postmaster_pid()
    first.stop()
    first.stop()
    assert query(second.url, "select 1") == 1
    second.stop()
    assert no_process_of(home)


def test_data_is_there_on_the_next_start(home: Path) -> None:
    with embedded.postgres(home, settings=QUICK) as server:
        keep(server.url, "word")
    with embedded.postgres(home, settings=QUICK) as server:
        assert kept(server.url) == "word"


def test_an_exception_inside_stops_it_too(home: Path) -> None:
    with pytest.raises(ZeroDivisionError), embedded.postgres(home, settings=QUICK):
        raise ZeroDivisionError
    assert no_process_of(home)


def test_settings_are_those_of_the_call_that_starts_it(home: Path) -> None:
    with embedded.postgres(home, settings=QUICK | {"work_mem": "5MB"}) as server:
        assert query(server.url, "show work_mem") == "5MB"
        with embedded.postgres(home, settings={"work_mem": "6MB"}) as joined:
            assert query(joined.url, "show work_mem") == "5MB"
    with embedded.postgres(home, settings=QUICK | {"work_mem": "6MB"}) as server:
        assert query(server.url, "show work_mem") == "6MB"


@pytest.mark.parametrize("name", ["data_directory", "Cluster_Name", "work mem", "x\ny"])
def test_settings_that_would_break_it_are_refused(new_home: Path, name: str) -> None:
    with pytest.raises(EmbeddedError, match="Nothing was changed"):
        embedded.start(new_home, settings={name: "x"})
    assert not new_home.exists()


def test_a_setting_postgres_refuses_is_reported_with_its_own_words(home: Path) -> None:
    with pytest.raises(EmbeddedError, match='parameter "work_mem"'):
        embedded.start(home, settings=QUICK | {"work_mem": "much"})
    eventually(lambda: no_process_of(home))
    with embedded.postgres(home, settings=QUICK) as server:
        assert query(server.url, "select 1") == 1


def test_only_the_owner_enters_the_socket_folder_and_no_port_is_open(home: Path) -> None:
    with embedded.postgres(home, settings=QUICK) as server:
        folder = Path(unquote(urlsplit(server.url).query.split("host=")[1].split("&")[0]))
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert folder.stat().st_uid == server.data.stat().st_uid
        assert query(server.url, "show listen_addresses") == ""
        network = "select string_agg(distinct auth_method, ' ') from pg_hba_file_rules where type = 'host'"
        assert query(server.url, network) == "scram-sha-256"


def test_a_home_with_a_long_and_strange_path_gets_a_short_socket(new_home: Path) -> None:
    strange = new_home / "a, b & ü" / ("long" * 20)
    with embedded.postgres(strange, settings=QUICK) as server:
        assert query(server.url, "show data_directory") == str(server.data)
        folder = Path(query(server.url, "show unix_socket_directories"))
        assert len(os.fsencode(folder)) <= 86
    assert no_process_of(strange)
    assert not folder.exists()


def test_other_clients_keep_the_server_if_the_first_is_killed(home: Path) -> None:
    with client(home) as first, client(home) as second:
        first.kill()
        assert query(second.url, "select 1") == 1
        second.kill()
        eventually(lambda: no_process_of(home))


def test_the_guard_is_out_of_the_terminals_reach(home: Path) -> None:
    with embedded.postgres(home, settings=QUICK):
        assert os.getsid(guard_of(home)) != os.getsid(0)


def test_a_home_taken_away_ends_its_server_and_can_be_reused(home: Path) -> None:
    lost = embedded.start(home, settings=QUICK)
    keep(lost.url, "word")
    home.rename(home.with_name("elsewhere"))
    with embedded.postgres(home, settings=QUICK) as server:
        assert query(server.url, "select to_regclass('kept')") is None
        eventually(lambda: sum("embedded/guard" in command for command in processes_of(home).values()) == 1)
        assert query(server.url, "select 1") == 1
    lost.stop()
    assert no_process_of(home)
    with embedded.postgres(home.with_name("elsewhere"), settings=QUICK) as moved:
        assert kept(moved.url) == "word"
