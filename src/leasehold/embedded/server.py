"""The client's side: finds the server of a home or starts a guard for it, and holds a reference to it."""

import contextlib
import fcntl
import json
import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

from leasehold.embedded.account import account_for
from leasehold.embedded.binaries import choose, copy_for
from leasehold.embedded.guard.files import UnsafeFile, read_in_home
from leasehold.embedded.guard.log import end_of_log, open_log
from leasehold.embedded.guard.plan import GUARD_FOLDER, Plan
from leasehold.embedded.guard.postmaster import ready_postmaster
from leasehold.embedded.locks import START_LIMIT, is_locked, only_starter, take_reference
from leasehold.embedded.places import folder_for_copies, make_socket_folder, mark_of, prepare_home
from leasehold.errors import EmbeddedError

STOP_LIMIT = 30.0
OUR_SETTINGS = ("cluster_name", "config_file", "data_directory", "external_pid_file", "unix_socket_directories")


class Server:
    """A reference to the running Postgres of one home. The server runs while any process holds a reference."""

    def __init__(self, plan: Plan, reference: int, home: Path) -> None:
        self._plan = plan
        self._reference: int | None = reference
        self._folders = {folder: folder.stat() for folder in (home, Path(plan.home), plan.data)}

    @property
    def url(self) -> str:
        """The superuser's URL, over the unix socket. It does not change when postgres is restarted."""
        return self.url_for("postgres")

    def url_for(self, database: str) -> str:
        place = quote(self._plan.socket_folder, safe="/")
        return f"postgresql://leasehold@/{quote(database, safe='')}?host={place}&port={self._plan.port}"

    @property
    def data(self) -> Path:
        return self._plan.data

    @property
    def version(self) -> int:
        return self._plan.version

    @property
    def binaries(self) -> Path:
        return Path(self._plan.binaries)

    def postmaster_pid(self) -> int:
        """Returns the pid of the postmaster; waits while the guard restarts it."""
        home = Path(self._plan.home)
        with readable_refusals(home):
            running = wait_until_ready(home)
        if running:
            return running[1]
        raise EmbeddedError(
            f"The embedded Postgres in {home} is not running: its guard is gone (see {home / 'guard.log'}).",
            fix="Call start() again. Nothing was changed.",
        )

    def was_taken_away(self) -> bool:
        """Returns whether the home or the data was deleted or moved: then the server ends, and its URL is dead."""
        try:
            return not all(os.path.samestat(folder.stat(), then) for folder, then in self._folders.items())
        except FileNotFoundError:
            return True

    def stop(self) -> None:
        """Releases the reference; a second call does nothing.

        If it was the last reference, waits until the server has stopped. Processes that were forked while this
        process held the reference hold it too.
        """
        if self._reference is None:
            return
        os.close(self._reference)  # not LOCK_UN: that would take it from forked children as well
        self._reference = None
        with readable_refusals(Path(self._plan.home)):
            wait_for_the_end_if_we_were_last(Path(self._plan.home))


def start_server(home: Path, settings: Mapping[str, str]) -> Server:
    """Joins the running server of the home, or starts a guard for it."""
    settings = check_settings(settings)
    with readable_refusals(home):
        place = prepare_home(home)
        with only_starter(place):
            reference = take_reference(place)
            try:
                return Server(join_or_launch(place, settings), reference, home.expanduser().absolute())
            except BaseException:
                os.close(reference)
                raise


def check_settings(settings: Mapping[str, str]) -> dict[str, str]:
    for name, value in settings.items():
        is_name = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.]*", name)
        if not is_name or name.lower() in OUR_SETTINGS or (name.lower() == "port" and not value.isdecimal()):
            raise EmbeddedError(
                f"The embedded Postgres does not take the setting {name!r} with value {value!r}.",
                fix=f"Names are those of postgresql.conf; we set {', '.join(OUR_SETTINGS)} ourselves; a port is a"
                " number. Nothing was changed.",
            )
    return {name.lower(): value for name, value in settings.items()}


@contextlib.contextmanager
def readable_refusals(home: Path) -> Iterator[None]:
    try:
        yield
    except UnsafeFile as problem:
        raise EmbeddedError(
            f"The embedded Postgres of {home} was not started: {problem}",
            fix="Another user may have put it there. Check it and remove it, or choose a home in a folder of"
            " yours. Nothing was changed.",
        ) from problem
    except OSError as problem:
        raise EmbeddedError(
            f"The embedded Postgres of {home} can't be started: {problem}.",
            fix="Choose a home that this user can write to, or run as its owner. No data was changed.",
        ) from problem


def join_or_launch(home: Path, settings: dict[str, str]) -> Plan:
    for _ in range(3):  # a guard may stop, or be killed, during the check
        if not is_locked(home, "guard.lock"):
            launch_guard(make_plan(home, settings))
        if running := wait_until_ready(home):
            return running[0]
    raise EmbeddedError(
        f"The guard of {home} ended three times while starting (see {home / 'guard.log'}).",
        fix="Find what ends it, then call start() again. Your data was not changed.",
    )


def wait_for_the_end_if_we_were_last(home: Path) -> None:
    deadline = time.monotonic() + STOP_LIMIT
    while time.monotonic() < deadline and is_locked(home, "guard.lock"):
        stopping = is_locked(home, "clients.lock", against=fcntl.LOCK_SH)
        if not stopping and is_locked(home, "clients.lock", against=fcntl.LOCK_EX):
            return  # others still hold references
        time.sleep(0.02)


# Starting a guard


def make_plan(home: Path, settings: Mapping[str, str]) -> Plan:
    data = home / "pgdata"
    account = account_for(data)
    chosen = choose(data)
    if account and not account.can_run([str(chosen.folder / "postgres"), "--version"]):
        chosen = copy_for(account.name, chosen, folder_for_copies())
    port = int(settings.get("port", "5432"))
    return Plan(
        home=str(home),
        binaries=str(chosen.folder),
        version=chosen.version,
        socket_folder=str(make_socket_folder(home, account, port)),
        port=port,
        cluster_name=f"leasehold-{mark_of(home)}",
        settings=dict(settings),
        uid=account.uid if account else None,
        gid=account.gid if account else None,
    )


def launch_guard(plan: Plan) -> None:
    """Starts a guard; returns when postgres is ready, or when another guard already runs."""
    log = open_log(Path(plan.home, "guard.log"))
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", GUARD_FOLDER, plan.home],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    finally:
        os.close(log)
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(plan.to_json().encode())
        process.stdin.close()
        process.wait()  # the guard has detached itself from this process
        answer = first_line(process.stdout.fileno(), START_LIMIT)
    if answer.get("state") == "failed":
        raise EmbeddedError(answer["happened"], fix="Fix the cause, then start again. Your data was not changed.")
    if not answer:
        raise EmbeddedError(
            f"The guard of {plan.home} died, or had no server ready within {START_LIMIT:.0f} s."
            f" {end_of_log(Path(plan.home, 'guard.log'))}",
            fix="See postgres.log too. A long recovery from a crash may just need another start. Your data was"
            " not changed.",
        )


def first_line(descriptor: int, limit: float) -> dict[str, str]:
    """Reads the guard's answer; empty if none arrives in time or the guard closed the pipe."""
    said = b""
    deadline = time.monotonic() + limit
    while not said.endswith(b"\n"):
        if not select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
            return {}
        piece = os.read(descriptor, 65536)
        if not piece:
            return {}
        said += piece
    answer: dict[str, str] = json.loads(said)
    return answer


def wait_until_ready(home: Path) -> tuple[Plan, int] | None:
    """Waits for the server of this home; returns its plan and its pid, or None if no guard runs."""
    deadline = time.monotonic() + START_LIMIT
    while is_locked(home, "guard.lock"):
        with contextlib.suppress(FileNotFoundError):  # a new guard has not written it yet
            plan = Plan.from_json(read_in_home(home / "server.json"))
            if pid := ready_postmaster(plan):
                return plan, pid
        if time.monotonic() > deadline:
            raise EmbeddedError(
                f"The Postgres in {home} did not get ready within {START_LIMIT:.0f} s."
                f" {end_of_log(home / 'guard.log')}",
                fix=f"See guard.log and postgres.log in {home}: it may still recover from a crash, or run in a"
                " container that is not visible here. Nothing was changed.",
            )
        time.sleep(0.02)
    return None
