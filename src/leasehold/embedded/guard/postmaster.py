"""Makes the cluster, starts postgres, and checks whether it is ready."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from .files import CannotServe, UnsafeFile, make_folder, read_in_home
from .log import note, open_log
from .plan import Plan

FAST_SHUTDOWN, IMMEDIATE_SHUTDOWN = signal.SIGINT, signal.SIGQUIT  # as postgres interprets them


def make_cluster(plan: Plan) -> None:
    """Runs initdb beside the final folder, then renames it, so that an incomplete cluster is never visible."""
    unfinished = plan.data.with_name("pgdata.new")
    remove_folder(unfinished)
    owner = None if plan.uid is None or plan.gid is None else (plan.uid, plan.gid)
    make_folder(unfinished, 0o700, owner)
    done = subprocess.run(
        [str(Path(plan.binaries, "initdb")), "-D", str(unfinished), *initdb_options(plan)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd="/",
        env=environment(),
        preexec_fn=dies_with_the_guard(signal.SIGKILL),
        **plan.identity(),
    )
    if done.returncode:
        remove_folder(unfinished)
        said = "\n".join(done.stdout.decode(errors="replace").splitlines()[-10:])
        raise CannotServe(f"initdb of {plan.binaries} ended with status {done.returncode}:\n{said}\n")
    unfinished.rename(plan.data)
    note(f"made a cluster of Postgres {plan.version} in {plan.data}")


def remove_folder(folder: Path) -> None:
    """Removes a folder; repeats it for a while, because a program of a killed initdb may still write there."""
    if folder.is_symlink():
        raise UnsafeFile(f"{folder} is a symbolic link, and may lead to a folder of another user.")
    deadline = time.monotonic() + 5
    while folder.exists():
        shutil.rmtree(folder, ignore_errors=time.monotonic() < deadline)


def initdb_options(plan: Plan) -> list[str]:
    options = ["--username=leasehold", "--encoding=UTF8", "--auth-local=trust", "--auth-host=scram-sha-256"]
    if plan.version >= 17:  # the same sort order on every system and C library
        options += ["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    else:
        options += ["--locale=C" if sys.platform == "darwin" else "--locale=C.UTF-8"]
    if plan.settings.get("fsync", "on").lower() in ("off", "false", "no", "0"):
        options += ["--no-sync"]
    return options


def launch_postgres(plan: Plan) -> subprocess.Popen[bytes]:
    command = [str(Path(plan.binaries, "postgres")), "-D", str(plan.data)]
    for name, value in server_settings(plan).items():
        command += ["-c", f"{name}={value}"]
    log = open_log(Path(plan.home, "postgres.log"))
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env=environment(),
            preexec_fn=dies_with_the_guard(IMMEDIATE_SHUTDOWN),
            **plan.identity(),
        )
    finally:
        os.close(log)


def server_settings(plan: Plan) -> dict[str, str]:
    ours = {
        "listen_addresses": "",
        "lc_messages": "C",  # READY_IN_LOG is English
        "unix_socket_directories": plan.socket_folder,
        "port": str(plan.port),
        # The title of every child contains it, so that a child without its postmaster is still recognized as ours.
        "cluster_name": plan.cluster_name,
    }
    if plan.version >= 14:
        # A busy backend does not check its postmaster. If client, guard and postmaster are killed together, only
        # this setting ends its query.
        ours["client_connection_check_interval"] = "2s"
    return ours | plan.settings


def environment() -> dict[str, str]:
    """Returns our environment without PG*: a PGDATA or PGPORT of another server must not reach this one."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PG")}


def dies_with_the_guard(request: signal.Signals) -> Any:
    """Returns a function that makes Linux end the child when the guard dies. Elsewhere the next start ends it.

    The function runs after subprocess has changed the user, because that change clears the request. The library is
    loaded here, before the fork, because that user may not be able to read it.
    """
    import ctypes  # not needed by a client of the server, which imports this module to find it

    guard = os.getpid()
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None

    def in_the_child() -> None:
        if libc is not None:
            libc.prctl(1, int(request))  # PR_SET_PDEATHSIG
        if os.getppid() != guard:
            os._exit(1)  # the guard died before the request

    return in_the_child


def ready_postmaster(plan: Plan) -> int | None:
    """Returns the pid of a postmaster that accepts connections.

    Line 8 of the pid file alone is not enough, because it survives kill -9. The socket alone is not enough, because
    it accepts while recovery still refuses every client. The file is read again after the socket: otherwise the file
    of a dead postmaster and the socket of its successor would look like one that is ready.
    """
    pid = pid_if_ready(plan)
    if pid is not None and accepts(plan.socket_file) and pid_if_ready(plan) == pid:
        return pid
    return None


def pid_if_ready(plan: Plan) -> int | None:
    try:
        lines = read_in_home(plan.data / "postmaster.pid").splitlines()
    except OSError:
        return None
    return int(lines[0]) if len(lines) >= 8 and lines[7].strip() == "ready" else None


def accepts(socket_file: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(str(socket_file))
        except OSError:
            return False
    return True
