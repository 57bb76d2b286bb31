"""The guard: the process that owns an embedded Postgres and runs as long as clients need it.

The guard makes the cluster if it does not exist, starts postgres as its child, restarts it when it dies, and
stops it when the last client has ended. It does not count clients: every client holds a shared `flock` on
`clients.lock`, which the kernel releases even on kill -9, and the guard tries to take the exclusive one.

    clients.lock   shared: one per client · exclusive: the guard, when no client is left and it stops
    guard.lock     exclusive: the guard, as long as it runs
    start.lock     exclusive: the client that starts the server, until it is ready

This file imports the standard library alone and is run by its path (`python -I -S guard.py HOME`): loading
the package would bring a database driver and more into a process that may sleep for weeks.
"""

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import select
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

TICK = 0.1  # seconds until the guard notices that the last client has ended
READY_IN_LOG = b"ready to accept connections"
LONGEST_PAUSE = 5.0  # between two starts of a postgres that can't start
CHECK_EVERY, CHECKS = 5.0, 3  # so many checks in a row without a vital process: postgres is stuck
# A postmaster that serves or recovers has one of these children at all times.
VITAL = ("walwriter", "startup")
FAST_SHUTDOWN, IMMEDIATE_SHUTDOWN = signal.SIGINT, signal.SIGQUIT  # as postgres interprets them
LOG_LIMIT = 10 * 1024 * 1024


@dataclass(frozen=True)
class Plan:
    """All decisions that are made before postgres starts."""

    home: str
    binaries: str
    version: int
    socket_folder: str
    port: int
    cluster_name: str
    settings: dict[str, str]
    uid: int | None = None  # the account that runs postgres; None: that of the guard
    gid: int | None = None

    @property
    def data(self) -> Path:
        return Path(self.home, "pgdata")

    @property
    def socket_file(self) -> Path:
        return Path(self.socket_folder, f".s.PGSQL.{self.port}")

    def identity(self) -> dict[str, Any]:
        """Returns the arguments of Popen that run a program as the account of postgres."""
        if self.uid is None:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> "Plan":
        return Plan(**json.loads(text))


class CannotServe(Exception):
    """Postgres can't be started; the message is for the caller of start()."""


class UnsafeFile(CannotServe):
    """A file in a home is one that this process must not open."""


# Files of a home. Another user may own the folder, and root may open the files


def open_in_home(path: Path, flags: int, mode: int = 0o600) -> int:
    """Opens a regular file; refuses links, FIFOs and files of other users without changing them.

    Without O_NONBLOCK, opening a FIFO would wait for its other end forever.
    """
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, mode)
    except OSError as problem:
        if problem.errno == errno.ELOOP:
            raise UnsafeFile(f"{path} is a symbolic link, and may lead to a file of another user.") from problem
        if problem.errno in (errno.ENXIO, errno.EISDIR):
            raise UnsafeFile(f"{path} is not a regular file.") from problem
        raise
    try:
        require_own_file(path, os.fstat(descriptor))
        os.set_blocking(descriptor, True)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def require_own_file(path: Path, found: os.stat_result) -> None:
    """Refuses a file unless root, this user, or the owner of the folder owns it.

    A second hard link is refused too: on a system without fs.protected_hardlinks, a user can link any file of the
    same disk into the home.
    """
    if stat.S_ISLNK(found.st_mode):
        raise UnsafeFile(f"{path} is a symbolic link, and may lead to a file of another user.")
    if not stat.S_ISREG(found.st_mode):
        raise UnsafeFile(f"{path} is not a regular file.")
    owners = {0, os.geteuid(), path.parent.stat().st_uid}
    if found.st_uid not in owners:
        raise UnsafeFile(f"{path} belongs to user {found.st_uid}, who is neither the owner of its folder nor root.")
    if found.st_nlink > 1:
        raise UnsafeFile(f"{path} is one of {found.st_nlink} names (hard links) of the same file.")


def read_in_home(path: Path, owner: int | None = None) -> str:
    """Reads a small file. With `owner`, refuses a file of any other user."""
    with open(open_in_home(path, os.O_RDONLY), "rb") as file:
        found = os.fstat(file.fileno()).st_uid
        if owner is not None and found != owner:
            raise UnsafeFile(f"{path} belongs to user {found}, but only a file of user {owner} is trusted.")
        return os.fsdecode(file.read(1_000_000))


def write_in_home(path: Path, text: str) -> None:
    """Writes a new file and replaces the old one by it."""
    unfinished = path.with_name(f"{path.name}.new")
    unfinished.unlink(missing_ok=True)
    with open(unfinished, "x") as file:  # x: never follows a link that another user made
        os.fchmod(file.fileno(), 0o644)
        file.write(text)
    unfinished.replace(path)


def make_folder(
    folder: Path, mode: int, owner: tuple[int, int] | None = None, files: Mapping[str, str] | None = None
) -> None:
    """Makes a folder with mode, owner and content, by its descriptor: another user may replace its name by a link."""
    folder.mkdir(mode=0o700)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(descriptor).st_uid != os.geteuid():
            raise UnsafeFile(f"{folder} was replaced by another user just now.")
        os.fchmod(descriptor, mode)
        for name, text in (files or {}).items():
            with open(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=descriptor), "w") as file:
                file.write(text)
        if owner is not None:
            os.fchown(descriptor, *owner)
    finally:
        os.close(descriptor)


# Checks that clients and the guard share


def try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


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


# The guard


class Guard:
    def __init__(self, plan: Plan, lock: int, starter: int) -> None:
        self.plan = plan
        self.lock = lock
        self.starter: int | None = starter  # the pipe to the client that waits for the first start
        self.clients = open_in_home(Path(plan.home, "clients.lock"), os.O_RDWR)
        self.wakeup = wake_on_signals()
        self.stop_requested = False
        self.failed_starts = 0
        self.next_start = 0.0  # by time.monotonic(), while postgres does not run
        self.obstacle = ""  # why the last start failed, as written to guard.log
        self.log_began = 0
        self.postgres: subprocess.Popen[bytes] | None = None
        self.ready = False
        self.vital: int | None = None  # the process that the last check found
        self.next_check = 0.0
        self.failed_checks = 0

    def run(self) -> None:
        if not self.plan.data.exists():
            make_cluster(self.plan)
        self.start_postgres()
        while True:
            self.wait_a_little()
            if self.stop_requested or self.home_was_replaced() or self.last_client_left():
                return
            if self.postgres is None:
                self.start_again_if_due()
            elif self.postgres.poll() is not None:
                self.note_the_end(self.postgres.returncode)
            elif not self.ready and self.is_ready():
                self.welcome_clients()
            elif self.is_stuck():
                note("postgres neither serves nor recovers: its WAL writer and startup process are gone. Ending it")
                self.end_postgres(IMMEDIATE_SHUTDOWN, signal.SIGKILL)

    def start_postgres(self) -> None:
        end_leftovers(self.plan)
        remove_foreign_pid_files(self.plan)
        self.ready, self.vital, self.failed_checks = False, None, 0
        self.log_began = size_of(Path(self.plan.home, "postgres.log"))
        self.postgres = launch_postgres(self.plan)

    def home_was_replaced(self) -> bool:
        """Returns whether the home was deleted, and perhaps made again by another guard with its own server."""
        try:
            return not os.path.samestat(os.fstat(self.lock), os.stat(Path(self.plan.home, "guard.lock")))
        except FileNotFoundError:
            return True

    def last_client_left(self) -> bool:
        # Never released: a client that starts now waits until this guard has ended, and starts the next one.
        return try_lock(self.clients, fcntl.LOCK_EX)

    def wait_a_little(self) -> None:
        """Sleeps one tick, or less if a child ends or a signal requests a stop."""
        select.select([self.wakeup], [], [], TICK if self.ready else TICK / 5)
        with contextlib.suppress(BlockingIOError):
            received = os.read(self.wakeup, 100)
            self.stop_requested |= signal.SIGTERM in received or signal.SIGINT in received

    def is_ready(self) -> bool:
        return self.postgres is not None and ready_postmaster(self.plan) == self.postgres.pid

    def welcome_clients(self) -> None:
        tries = f" after {self.failed_starts} failed start(s)" if self.failed_starts else ""
        self.ready, self.failed_starts, self.obstacle = True, 0, ""
        note(f"postgres {self.plan.version} is ready{tries}, pid {self.postgres and self.postgres.pid}")
        if self.starter is not None:
            answer(self.starter, state="ready")
            self.starter = None

    def note_the_end(self, status: int) -> None:
        """Reports to the client that waits for the first start; otherwise schedules the next start.

        The number of starts is not limited: a full disk may prevent a start for hours, and clients that hold
        references need this server on the same URL when the disk has space again.
        """
        log = Path(self.plan.home, "postgres.log")
        if self.ready or self.was_ready_between_two_ticks():
            self.failed_starts = 0
            self.postgres, self.ready = None, False
            self.next_start = time.monotonic() + TICK
            note(f"postgres ended with status {status} while clients need it: starting it again in {TICK:.1f} s")
            return
        if self.starter is not None:
            raise CannotServe(f"Postgres ended with status {status} while starting. {end_of_log(log)}")
        self.postgres = None
        why = last_error(read_from(log, self.log_began)) or f"see {log}"
        self.schedule_next_start(f"postgres ended with status {status} while starting", why)

    def schedule_next_start(self, happened: str, why: str) -> None:
        self.failed_starts += 1
        pause = min(LONGEST_PAUSE, TICK * 2 ** min(self.failed_starts, 10))
        self.next_start = time.monotonic() + pause
        if why != self.obstacle:  # not at every start: a disk may be full for days
            self.obstacle = why
            note(
                f"{happened}; waiting until this is mended: {why}. Trying again, with pauses of up to"
                f" {LONGEST_PAUSE:.0f} s, as long as clients need the server"
            )

    def start_again_if_due(self) -> None:
        write_late_notes()
        if time.monotonic() < self.next_start:
            return
        try:
            self.start_postgres()
        except (CannotServe, OSError) as problem:  # no space for a log file, or no process can be created
            self.schedule_next_start("postgres can't be started", str(problem))

    def was_ready_between_two_ticks(self) -> bool:
        """Returns whether postgres was ready since the last tick: a client may have used and killed it meanwhile.

        After kill -9 its pid file still shows that; after SIGQUIT postgres removes the file, and only its log does.
        """
        assert self.postgres is not None
        said = read_from(Path(self.plan.home, "postgres.log"), self.log_began)
        return pid_if_ready(self.plan) == self.postgres.pid or READY_IN_LOG in said

    def is_stuck(self) -> bool:
        """Returns whether postgres runs but can never serve again.

        If the recovery of PostgreSQL 18 fails because the disk is full, its I/O workers prevent the end of the
        postmaster in one of three runs, and it refuses every connection. The guard counts checks, not seconds,
        because the guard itself may have been stopped for a while.
        """
        if time.monotonic() < self.next_check:
            return False
        self.next_check = time.monotonic() + CHECK_EVERY
        if self.vital is None or not is_vital(title_of(self.vital), self.plan):
            self.vital = vital_process(self.plan)
        self.failed_checks = 0 if self.vital is not None else self.failed_checks + 1
        return self.failed_checks >= CHECKS

    def end_postgres(self, *requests: signal.Signals) -> None:
        """Sends the signals one after the other until postgres has ended."""
        assert self.postgres is not None
        for request in requests:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.postgres.send_signal(request)
                self.postgres.wait(30 if request is FAST_SHUTDOWN else 10)
                return

    def stop_postgres(self) -> None:
        """Stops postgres by fast shutdown, then by stronger signals; returns when no process is left."""
        if self.postgres is None:
            return
        self.end_postgres(FAST_SHUTDOWN, IMMEDIATE_SHUTDOWN, signal.SIGKILL)
        if not self.home_was_replaced():
            end_leftovers(self.plan)
            with contextlib.suppress(OSError):
                os.rmdir(self.plan.socket_folder)
        note("postgres has been stopped")


def wake_on_signals() -> int:
    """Returns a descriptor that becomes readable when a child ends or a signal requests a stop."""
    readable, writable = os.pipe()
    os.set_blocking(readable, False)
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable)
    handled = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT)
    for number in handled:
        signal.signal(number, lambda _number, _frame: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, handled)  # the guard inherits signals that the client blocked
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return readable


# Making a cluster


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


# Starting postgres


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
    guard = os.getpid()
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None

    def in_the_child() -> None:
        if libc is not None:
            libc.prctl(1, int(request))  # PR_SET_PDEATHSIG
        if os.getppid() != guard:
            os._exit(1)  # the guard died before the request

    return in_the_child


# Leftovers of an earlier server


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


# Logs


late_notes: deque[bytes] = deque(maxlen=100)


def note(message: str) -> None:
    """Writes a line to standard error, which is guard.log; if the disk is full, as soon as it has space again."""
    late_notes.append(f"{time.strftime('%Y-%m-%d %H:%M:%S')} [{os.getpid()}] {message}\n".encode(errors="replace"))
    write_late_notes()


def write_late_notes() -> None:
    with contextlib.suppress(OSError):
        while late_notes:
            written = os.write(2, late_notes[0])
            if rest := late_notes[0][written:]:
                late_notes[0] = rest
            else:
                late_notes.popleft()


def answer(starter: int, **message: str) -> None:
    with contextlib.suppress(OSError):  # the waiting client may have ended
        os.write(starter, json.dumps(message).encode() + b"\n")
    os.close(starter)


def open_log(path: Path) -> int:
    """Opens a log for appending; truncates it first if it is larger than 10 MB."""
    log = open_in_home(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    if os.fstat(log).st_size > LOG_LIMIT:
        os.ftruncate(log, 0)
    return log


def size_of(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def read_from(path: Path, place: int) -> bytes:
    """Reads the text after `place`, or all of it if the log was truncated."""
    try:
        with open(open_in_home(path, os.O_RDONLY), "rb") as log:
            log.seek(place if os.fstat(log.fileno()).st_size >= place else 0)
            return log.read()
    except OSError:
        return b""


def end_of_log(path: Path) -> str:
    try:
        with open(open_in_home(path, os.O_RDONLY), "rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - 4096))
            lines = log.read().decode(errors="replace").splitlines()
    except OSError as problem:
        return f"{path} can't be read: {problem}."
    return f"{path} ends with:\n" + "\n".join(lines[-6:]) + "\n"


def last_error(log: bytes) -> str:
    """Returns why postgres ended, without the time and the process at the start, which differ every time."""
    lines = log.decode(errors="replace").splitlines()
    for line in reversed(lines):
        for level in ("PANIC:  ", "FATAL:  "):
            if level in line:
                return line[line.index(level) :].replace(":  ", ": ", 1)
    return lines[-1] if lines else ""


def main() -> None:
    """Reads the plan from standard input, detaches, and guards; answers once on standard output."""
    plan = Plan.from_json(sys.stdin.read())
    detach()
    starter = os.dup(1)
    os.dup2(2, 1)
    guard = None
    try:
        lock = open_in_home(Path(plan.home, "guard.lock"), os.O_RDWR | os.O_CREAT)
        if not became_the_guard(lock):
            answer(starter, state="another guard")
            return
        publish(plan)
        guard = Guard(plan, lock, starter)
        guard.run()
    except (CannotServe, OSError) as refusal:
        note(f"giving up: {refusal}")
        if guard is None or guard.starter is not None:
            answer(starter, state="failed", happened=str(refusal))
    finally:
        if guard is not None:
            guard.stop_postgres()


def detach() -> None:
    """Detaches from the terminal, so that Ctrl-C does not end the guard, and from the client process."""
    if os.fork():
        os._exit(0)
    os.setsid()
    os.chdir("/")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)


def became_the_guard(lock: int) -> bool:
    """Takes the guard's lock; repeats it for a while, because a client that checks for a guard holds it briefly."""
    deadline = time.monotonic() + 2
    while not try_lock(lock, fcntl.LOCK_EX):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def publish(plan: Plan) -> None:
    """Writes the plan for later clients, which trust it only while guard.lock is held."""
    write_in_home(Path(plan.home, "server.json"), plan.to_json())


if __name__ == "__main__":
    main()
