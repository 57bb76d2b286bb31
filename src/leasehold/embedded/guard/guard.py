"""The guard's loop, and the start of its process."""

import contextlib
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

from .files import CannotServe, open_in_home, try_lock, write_in_home
from .log import end_of_log, last_error, note, read_from, size_of, write_late_notes
from .plan import Plan
from .postmaster import (
    FAST_SHUTDOWN,
    IMMEDIATE_SHUTDOWN,
    launch_postgres,
    make_cluster,
    pid_if_ready,
    ready_postmaster,
)
from .processes import end_leftovers, is_vital, remove_foreign_pid_files, title_of, vital_process

TICK = 0.1  # seconds until the guard notices that the last client has ended
READY_IN_LOG = b"ready to accept connections"
LONGEST_PAUSE = 5.0  # between two starts of a postgres that can't start
CHECK_EVERY, CHECKS = 5.0, 3  # so many checks in a row without a vital process: postgres is stuck


class StartSchedule:
    """When postgres is started next, and why its last start failed. The number of starts is not limited."""

    def __init__(self) -> None:
        self.failed = 0
        self.next = 0.0  # by time.monotonic(), while postgres does not run
        self.obstacle = ""  # as written to guard.log

    def reset(self) -> None:
        self.failed, self.obstacle = 0, ""

    def begin_again(self) -> None:
        """Makes postgres start in a moment: it was ready, and has ended."""
        self.failed = 0
        self.next = time.monotonic() + TICK

    def put_off(self, happened: str, why: str) -> None:
        """Makes postgres start after a pause, which grows with each start that fails."""
        self.failed += 1
        pause = min(LONGEST_PAUSE, TICK * 2 ** min(self.failed, 10))
        self.next = time.monotonic() + pause
        if why != self.obstacle:  # not at every start: a disk may be full for days
            self.obstacle = why
            note(
                f"{happened}; waiting until this is mended: {why}. Trying again, with pauses of up to"
                f" {LONGEST_PAUSE:.0f} s, as long as clients need the server"
            )

    def is_due(self) -> bool:
        return time.monotonic() >= self.next


class StuckCheck:
    """Looks now and then whether postgres runs but can never serve again.

    If the recovery of PostgreSQL 18 fails because the disk is full, its I/O workers prevent the end of the postmaster
    in one of three runs, and it refuses every connection. Counts checks, not seconds, because the guard itself may
    have been stopped for a while.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._vital: int | None = None  # the process that the last check found
        self._next = 0.0
        self._failed = 0

    def begin(self) -> None:
        """Forgets the postgres that ran before."""
        self._vital, self._failed = None, 0

    def finds_it_stuck(self) -> bool:
        if time.monotonic() < self._next:
            return False
        self._next = time.monotonic() + CHECK_EVERY
        if self._vital is None or not is_vital(title_of(self._vital), self._plan):
            self._vital = vital_process(self._plan)
        self._failed = 0 if self._vital is not None else self._failed + 1
        return self._failed >= CHECKS


class Guard:
    def __init__(self, plan: Plan, lock: int, starter: int) -> None:
        self.plan = plan
        self.lock = lock
        self.starter: int | None = starter  # the pipe to the client that waits for the first start
        self.clients = open_in_home(Path(plan.home, "clients.lock"), os.O_RDWR)
        self.wakeup = wake_on_signals()
        self.stop_requested = False
        self.starts = StartSchedule()
        self.log_began = 0
        self.postgres: subprocess.Popen[bytes] | None = None
        self.ready = False
        self.check = StuckCheck(plan)

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
            elif self.check.finds_it_stuck():
                note("postgres neither serves nor recovers: its WAL writer and startup process are gone. Ending it")
                self.end_postgres(IMMEDIATE_SHUTDOWN, signal.SIGKILL)

    def start_postgres(self) -> None:
        end_leftovers(self.plan)
        remove_foreign_pid_files(self.plan)
        self.ready = False
        self.check.begin()
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
        tries = f" after {self.starts.failed} failed start(s)" if self.starts.failed else ""
        self.ready = True
        self.starts.reset()
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
            self.postgres, self.ready = None, False
            self.starts.begin_again()
            note(f"postgres ended with status {status} while clients need it: starting it again in {TICK:.1f} s")
            return
        if self.starter is not None:
            raise CannotServe(f"Postgres ended with status {status} while starting. {end_of_log(log)}")
        self.postgres = None
        why = last_error(read_from(log, self.log_began)) or f"see {log}"
        self.starts.put_off(f"postgres ended with status {status} while starting", why)

    def start_again_if_due(self) -> None:
        write_late_notes()
        if not self.starts.is_due():
            return
        try:
            self.start_postgres()
        except (CannotServe, OSError) as problem:  # no space for a log file, or no process can be created
            self.starts.put_off("postgres can't be started", str(problem))

    def was_ready_between_two_ticks(self) -> bool:
        """Returns whether postgres was ready since the last tick: a client may have used and killed it meanwhile.

        After kill -9 its pid file still shows that; after SIGQUIT postgres removes the file, and only its log does.
        """
        assert self.postgres is not None
        said = read_from(Path(self.plan.home, "postgres.log"), self.log_began)
        return pid_if_ready(self.plan) == self.postgres.pid or READY_IN_LOG in said

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


def answer(starter: int, **message: str) -> None:
    with contextlib.suppress(OSError):  # the waiting client may have ended
        os.write(starter, json.dumps(message).encode() + b"\n")
    os.close(starter)


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
