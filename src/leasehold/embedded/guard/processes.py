"""Finds the processes of a server, and ends the leftovers of an earlier one."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from .files import CannotServe, read_in_home
from .log import note
from .plan import Plan
from .postmaster import FAST_SHUTDOWN, IMMEDIATE_SHUTDOWN

# A postmaster that serves or recovers has one of these children at all times.
VITAL = ("walwriter", "startup")


def end_leftovers(plan: Plan) -> None:
    """Ends processes that run on our data without a guard: a dying server, or backends without a postmaster."""
    leftovers = {pid for pid, is_postmaster in processes_of(plan) if is_postmaster}
    if leftovers:
        send(leftovers, FAST_SHUTDOWN)
        wait_for_end(plan, 10)
    for request, patience in ((IMMEDIATE_SHUTDOWN, 5), (signal.SIGKILL, 10)):
        leftovers = {pid for pid, _ in processes_of(plan)}
        if not leftovers:
            return
        note(f"ending processes of an earlier server: {sorted(leftovers)}, {request.name}")
        send(leftovers, request)
        wait_for_end(plan, patience)
    if still := [pid for pid, _ in processes_of(plan)]:
        raise CannotServe(f"Processes {still} still run on {plan.data} and do not end, not even by SIGKILL.")


def send(pids: set[int], request: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, request)


def wait_for_end(plan: Plan, patience: float) -> None:
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline and any(processes_of(plan)):
        time.sleep(0.02)


def processes_of(plan: Plan) -> Iterator[tuple[int, bool]]:
    """Yields (pid, is postmaster) of every postgres process on this data.

    The command line is checked first: in a container root often lacks CAP_SYS_PTRACE and can't see the working
    directory of another user's process.
    """
    owner = os.geteuid() if plan.uid is None else plan.uid
    for pid, uid, command in postgres_processes():
        ours = f" -D {plan.data} " in command or command.startswith(f"postgres: {plan.cluster_name}: ")
        if uid == owner and (ours or works_in(pid, plan.data)):
            yield pid, not command.startswith("postgres: ")


def postgres_processes() -> Iterator[tuple[int, int, str]]:
    """Yields (pid, uid, command line with spaces) of every visible postmaster and its children."""
    for pid, uid, program, command in every_process():
        if program.startswith("postgres: ") or program.endswith(("/postgres", "/postmaster")):
            yield pid, uid, command


def every_process() -> Iterator[tuple[int, int, str, str]]:
    """Yields (pid, uid, program, command line) of every process; a child of postgres has a title instead."""
    if sys.platform != "linux":
        listed = subprocess.run(["ps", "-axww", "-o", "pid=,uid=,command="], capture_output=True, text=True)
        for line in listed.stdout.splitlines():
            pid, uid, command = line.split(None, 2)
            yield int(pid), int(uid), command.partition(" -D ")[0], f"{command} "
        return
    for entry in os.listdir("/proc"):
        if not entry.isdecimal():
            continue
        with contextlib.suppress(OSError, StopIteration):
            words = os.fsdecode(Path("/proc", entry, "cmdline").read_bytes()).split("\0")
            status = Path("/proc", entry, "status").read_text(errors="replace").splitlines()
            uid_line = next(line for line in status if line.startswith("Uid:"))
            yield int(entry), int(uid_line.split()[1]), words[0], " ".join(words)


def vital_process(plan: Plan) -> int | None:
    return next((pid for pid, _, title in postgres_processes() if is_vital(title, plan)), None)


def is_vital(title: str, plan: Plan) -> bool:
    return title.startswith(tuple(f"postgres: {plan.cluster_name}: {name}" for name in VITAL))


def title_of(pid: int) -> str:
    """Reads the title that a child of postgres has instead of a command line; empty if there is none."""
    if sys.platform != "linux":
        return subprocess.run(["ps", "-ww", "-o", "command=", "-p", str(pid)], capture_output=True, text=True).stdout
    try:
        return os.fsdecode(Path("/proc", str(pid), "cmdline").read_bytes())
    except OSError:
        return ""


def works_in(pid: int, folder: Path) -> bool:
    try:
        return os.path.samefile(f"/proc/{pid}/cwd", folder)
    except OSError:
        return False


def remove_foreign_pid_files(plan: Plan) -> None:
    """Removes a pid file whose number now belongs to another program: postgres would take it for a rival server.

    Called when no process of ours is left. A file that names no running process stays: with it postgres itself checks
    that the shared memory of the old server is not in use. A file that names a postgres which we can't inspect stays
    too, because it might use this data. An empty file, as a full disk leaves it, is removed: postgres takes it for a
    server that is just starting, at every start.
    """
    for pid_file in (plan.data / "postmaster.pid", Path(f"{plan.socket_file}.lock")):
        try:
            said = read_in_home(pid_file)
            if not said.strip():
                note(f"{pid_file} is empty, and no server of ours runs: removing the file")
                pid_file.unlink(missing_ok=True)
            pid = int(said.splitlines()[0])
        except (OSError, ValueError, IndexError):
            continue
        unclear = any(pid == other for other, _, _ in postgres_processes()) and not can_inspect(pid)
        if lives(pid) and not unclear:
            note(f"{pid_file} names process {pid}, which is not our postgres: removing the file")
            pid_file.unlink(missing_ok=True)


def can_inspect(pid: int) -> bool:
    try:
        os.stat(f"/proc/{pid}/cwd")
    except OSError:
        return False
    return True


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
