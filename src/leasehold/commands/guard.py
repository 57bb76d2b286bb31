"""The guard: a process between the worker and a command, which ends with everything that the command started.

    python -I -S -X utf8 -c "… from guard import main; main()" FOLDER PLAN REPORT

The worker starts one guard for each run of a command, and one for each process of isolated handlers. PLAN and
REPORT are descriptors: a file with the marshaled plan, and the pipe to the worker. On standard input the worker sends
`T` for SIGTERM and, after the grace, SIGKILL; `K` for SIGKILL at once; its end means that the worker is gone.
Standard output and standard error are those of the command.

The plan has `argv`, `env`, `limits`, `grace` and the pid of the `worker`. `folder` is the working folder of a
command; None: the program keeps the folder and the rights of the worker. `lock` is a file to remove at the end. The
guard keeps the descriptors in `held`, and passes those in `passed` on to the program. `lease` is the descriptor of a
file with the moment at which the worker's lease ends, which the worker writes again with each heartbeat; None: the
program may run without a lease.

The guard is a subreaper: a process whose parent ends becomes its child, whatever sessions and groups it made. So when
the guard has no child left, nothing of the command is alive. Other systems than Linux have no subreaper; there the
guard can end the command's process group only.

It reports lines: `started PID`, or `failed ERRNO TEXT` and no other; `ended STATUS STOPPED MEMORY` as soon as the
command itself is reaped; `gone LEFTOVERS CPU` once nothing of it is alive, with the processor time of all of it.

This file imports little of the standard library, and nothing else, because each run pays for it. `_signal` instead of
`signal` saves 5 ms, in which that makes its enumerations; without `typing` it is 4 ms less.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import marshal
import os
import resource
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

LINUX = sys.platform == "linux"
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 36, 38

AFTERWARDS = 1.0  # seconds that leftovers have after SIGTERM, once the command itself has ended
PAUSE = 0.01  # between two rounds of SIGKILL
INFINITE = float("inf")
SHOWN_PROBLEM = 500


class Guard:
    """Waits for the command and for the worker's requests, until nothing of the command is alive."""

    def __init__(self, plan: dict[str, Any], report: int, wakeup: int) -> None:
        self._plan = plan
        self._report = report
        self._wakeup = wakeup
        self._main = 0
        self._main_ended = False
        self._worker_is_there = True
        self._stop_requested = False
        self._lease_is_over = False
        self._ends_by_term = True
        self._kill_at: float | None = None
        self._leftovers = 0

    def run(self) -> None:
        self._main = start(self._plan)
        self.report(f"started {self._main}")
        self._wait_for_all()
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.report(f"gone {self._leftovers} {used.ru_utime + used.ru_stime:.6f}")

    def end_all(self) -> None:
        self._kill_at = 0.0
        self._wait_for_all()

    def _wait_for_all(self) -> None:
        while self._has_children():
            self._act()
            self._wait()

    def _has_children(self) -> bool:
        """Reaps all children that have ended."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._main:
                self._main_ended = True
                if not LINUX:  # the guard can't wait for the rest of its group
                    send_to_group(pid, _signal.SIGKILL)
                stopped = self._stop_requested and not self._ended_by_itself(status)
                self.report(f"ended {status} {stopped:d} {usage.ru_maxrss}")

    def _ended_by_itself(self, status: int) -> bool:
        """Returns whether the command ended on its own after a stop was requested: it was just ending.

        A program without a handler for SIGTERM can't exit because of one. If it has a handler, it may exit with 0
        although its work is not done, so then the stop counts.
        """
        if os.WIFEXITED(status):
            return self._ends_by_term
        return os.WTERMSIG(status) not in (_signal.SIGTERM, _signal.SIGKILL)

    def _act(self) -> None:
        now = time.monotonic()
        if os.getppid() != self._plan["worker"]:
            self._kill_at = 0.0
        if self._main_ended and self._kill_at is None:
            self._leftovers = self._signal_tree(_signal.SIGTERM)
            self._kill_at = now + min(AFTERWARDS, self._plan["grace"])
        elif self._main_ended and self._kill_at is not None:
            self._kill_at = min(self._kill_at, now + AFTERWARDS)
        if self._lease_left() <= 0:
            self._lease_is_over, self._kill_at = True, 0.0
        if self._kill_at is not None and now >= self._kill_at:
            self._stop_requested = self._stop_requested or not self._lease_is_over
            self._signal_tree(_signal.SIGKILL)

    def _wait(self) -> None:
        """Waits until a child has ended, the worker asks for something or is gone, or it is time for SIGKILL."""
        poll = select.poll()
        poll.register(self._wakeup, select.POLLIN)
        if self._worker_is_there:
            poll.register(0, select.POLLIN)
        until_kill = INFINITE if self._kill_at is None else self._kill_at - time.monotonic()
        left = max(PAUSE, min(until_kill, self._lease_left()))
        ready = [descriptor for descriptor, _ in poll.poll(None if left == INFINITE else left * 1000)]
        if self._wakeup in ready:
            os.read(self._wakeup, 1000)
        if 0 in ready:
            self._heed(os.read(0, 100))

    def _lease_left(self) -> float:
        """Returns for how many seconds the worker's lease holds; another worker may have the job afterwards."""
        if self._plan["lease"] is None:
            return INFINITE
        ends: float = marshal.loads(os.pread(self._plan["lease"], 100, 0))
        return ends - time.monotonic()

    def _heed(self, requests: bytes) -> None:
        self._worker_is_there = bool(requests)
        if not requests or b"K" in requests:
            self._kill_at = 0.0
        elif not self._stop_requested and not self._main_ended:
            self._stop_requested = True
            self._ends_by_term = not catches_term(self._main)
            self._kill_at = time.monotonic() + self._plan["grace"]
            self._signal_tree(_signal.SIGTERM)

    def _signal_tree(self, number: int) -> int:
        """Sends the signal to all descendants. Returns how many they were.

        SIGKILL also goes to the group of each child: a process that forks and exits all the time is never met, its
        group is. Only the guard reaps its children, so the number of their group can't belong to others.
        """
        if not LINUX:
            return send_to_group(self._main, number)
        found = descendants()
        if number == _signal.SIGKILL:
            own = os.getpgrp()
            for parent, group in found.values():
                if parent == os.getpid() and group != own:
                    send_to_group(group, number)
        for pid in found:
            send(pid, found, number)
        return len(found)

    def report(self, line: str) -> None:
        try:  # noqa: SIM105
            os.write(self._report, line.encode(errors="replace") + b"\n")
        except OSError:  # the worker is gone
            pass


# ---------------------------------------------------------------------------------------------------- the processes


def descendants() -> dict[int, tuple[int, int]]:
    """Returns the parent and the group of each process below this one.

    Reads all of /proc: not every kernel has /proc/…/children. A run whose command leaves nothing behind never asks.
    """
    children: dict[int, list[tuple[int, int]]] = {}
    for name in os.listdir("/proc"):
        if name.isdecimal() and (found := parent_and_group(int(name))):
            children.setdefault(found[0], []).append((int(name), found[1]))
    tree: dict[int, tuple[int, int]] = {}
    to_see = [os.getpid()]
    while to_see:
        parent = to_see.pop()
        for pid, group in children.get(parent, ()):
            tree[pid] = parent, group
            to_see.append(pid)
    return tree


def parent_and_group(pid: int) -> tuple[int, int] | None:
    """Returns None if the process does not exist. A zombie counts: other threads may go on without its first one."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            _, parent, group, *_ = file.read().rpartition(b")")[2].split()
    except (OSError, ValueError):
        return None
    return int(parent), int(group)


def send(pid: int, tree: dict[int, tuple[int, int]], number: int) -> None:
    """Sends a signal by a pidfd, if the process behind it is still one of the tree: pids are used again."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return
    try:
        found = parent_and_group(pid)
        if found and (found[0] == os.getpid() or found[0] in tree):
            _signal.pidfd_send_signal(descriptor, number)
    except OSError:
        pass
    finally:
        os.close(descriptor)


def send_to_group(group: int, number: int) -> int:
    try:
        os.killpg(group, number)
    except OSError:
        return 0
    return 1


def catches_term(pid: int) -> bool:
    """Returns whether the program has a handler for SIGTERM; True where that can't be seen."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            line = next(line for line in file if line.startswith(b"SigCgt:"))
    except (OSError, StopIteration):
        return True
    return bool(int(line.split()[1], 16) >> (_signal.SIGTERM - 1) & 1)


# -------------------------------------------------------------------------------------------------------- the start


def start(plan: dict[str, Any]) -> int:
    """Starts the command. Raises OSError if it can't be executed."""
    problems, problem = os.pipe()
    pid = os.fork()
    if pid == 0:
        execute(plan, problem)
    for descriptor in (problem, *plan["passed"]):
        os.close(descriptor)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 1)  # or the guard would keep the pipes open
    os.dup2(nothing, 2)
    os.close(nothing)
    with open(problems, "rb") as pipe:
        said = pipe.read()
    if said:
        os.waitpid(pid, 0)
        number, _, text = said.decode().partition(" ")
        raise OSError(int(number), text)
    return pid


def execute(plan: dict[str, Any], problem: int) -> NoReturn:
    """Becomes the command: in a session of its own, in its folder, with its limits and nothing of the worker's."""
    where = "prepare the process"
    try:
        guard = os.getppid()
        os.setsid()
        reset_signals()
        if LINUX:
            set_option(PR_SET_PDEATHSIG, _signal.SIGKILL)
            if os.getppid() != guard:
                os._exit(127)
            prefer_for_oom_kill()
        if plan["folder"] is not None:
            where = f"enter {plan['folder']}"
            confine(plan["folder"])
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        where = f"execute {plan['argv'][0]}"
        for name, soft, hard in plan["limits"]:
            limit(name, soft, hard)
        os.execvpe(plan["argv"][0], plan["argv"], plan["env"])
    except (OSError, ValueError, MemoryError) as error:
        number = (error.errno if isinstance(error, OSError) else None) or 0
        text = os.strerror(number) if number else str(error)
        os.write(problem, f"{number} can't {where}: {text}".encode(errors="replace"))
    finally:
        os._exit(127)


def confine(folder: str) -> None:
    """Enters the working folder, with files for this user alone."""
    if LINUX:  # with more rights, as sudo has them, the guard could not end it
        set_option(PR_SET_NO_NEW_PRIVS, 1)
    os.umask(0o077)
    os.chdir(folder)


def prefer_for_oom_kill() -> None:
    """Makes the kernel end the command before the worker, if memory runs out."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        pass  # /proc is read-only


def limit(name: str, soft: int, hard: int) -> None:
    """Sets a limit, or the system's own if that is lower."""
    number = getattr(resource, name)
    most = resource.getrlimit(number)[1]
    if most != resource.RLIM_INFINITY:
        soft, hard = min(soft, most), min(hard, most)
    resource.setrlimit(number, (soft, hard))


def reset_signals() -> None:
    """Undoes what the worker and Python ignore or block; a program inherits both."""
    _signal.set_wakeup_fd(-1)
    for number in range(1, _signal.NSIG):
        try:
            _signal.signal(number, _signal.SIG_DFL)
        except (OSError, ValueError):
            continue
    _signal.pthread_sigmask(_signal.SIG_SETMASK, [])


def set_option(option: int, value: int) -> None:
    import ctypes  # not needed by a worker, which imports this module to remove folders

    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0):
        raise OSError(ctypes.get_errno(), f"prctl({option}) is refused")


# ---------------------------------------------------------------------------------------------------------- its life


def wake_on_signals() -> int:
    """Returns a descriptor that becomes readable when a child or the worker ends; ignores requests to stop.

    A service manager may send those to all processes of a service. The worker decides about its commands.
    """
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    _signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    for number in (_signal.SIGCHLD, _signal.SIGUSR1):
        _signal.signal(number, lambda _number, _frame: None)
    for number in (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP, _signal.SIGPIPE):
        _signal.signal(number, _signal.SIG_IGN)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, [])
    return readable


def main() -> NoReturn:
    """Runs as a process. Imported from its folder and not run by its path, so that Python need not compile it."""
    from folder_removal import remove_folder  # type: ignore[import-not-found]

    plan_file, report = map(int, sys.argv[1:3])
    with open(plan_file, "rb") as file:
        plan = marshal.loads(file.read())
    for descriptor in (report, *plan["held"]):
        os.set_inheritable(descriptor, False)
    guard = Guard(plan, report, wake_on_signals())
    try:
        if LINUX:
            set_option(PR_SET_CHILD_SUBREAPER, 1)
            # The end of standard input is not enough: a process that a handler forked may hold the other end.
            set_option(PR_SET_PDEATHSIG, _signal.SIGUSR1)
        guard.run()
    except OSError as error:
        guard.report(f"failed {error.errno or 0} {(error.strerror or str(error))[:SHOWN_PROBLEM]}")
    except BaseException as error:
        guard.report(f"failed 0 {f'{type(error).__name__}: {error}'[:SHOWN_PROBLEM]}")
        guard.end_all()
    try:
        if plan["folder"] is not None:
            remove_folder(plan["folder"])
        if plan["lock"] is not None:
            os.unlink(plan["lock"])
    except OSError:
        pass  # a later worker on this host tries again
    os._exit(0)
