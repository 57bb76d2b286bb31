"""The handler of a command: renders its argv, runs the program, and maps its end to the attempt's outcome."""

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from datetime import timedelta
from math import ceil
from pathlib import Path
from typing import Any, Protocol

from leasehold.commands.folders import WorkingFolder, look_for_leftovers, make_folder
from leasehold.commands.output import Output
from leasehold.commands.process import Limit, NotStarted, Program, run_process
from leasehold.errors import InvalidInput
from leasehold.model.argv import parse_template, render
from leasehold.model.command import Command, Invocation
from leasehold.model.job import Claim, LineKind
from leasehold.model.outcome import Outcome, Raised, Rejected, Snoozed, Succeeded
from leasehold.model.payload import encode_result
from leasehold.model.process import ProcessEnd
from leasehold.model.redaction import Redactor, environment_values

PAYLOAD_FILE = "payload.json"
FENCE = "JOB_FENCE"
CPU_PER_TIMEOUT = 1.2
SHOWN_LINE = 300


class RunningJob(Protocol):
    """The job that a worker hands to a command's handler.

    `_stops_at_once`: a cancel leaves no grace, because another worker may have the job. The attempt records
    `_process`. `_lease` returns the descriptor of a `LeaseFile`, if the job has a lease.
    """

    _claim: Claim
    _redactor: Redactor
    _stops_at_once: bool
    _process: ProcessEnd | None
    _lease: Callable[[], int] | None

    _append_line: Callable[[Claim, str, LineKind, float | None], bool]
    _drop_lines: Callable[[Claim, int], None]


def command_handler(command: Command) -> Callable[[RunningJob, Any], Coroutine[Any, Any, Outcome]]:
    """Returns a coroutine function that runs the command's program for a job, and returns the outcome.

    It ends only when nothing of the program's process tree is alive. If it is canceled, it stops the program first,
    which may take up to `command.cleanup` seconds.
    """

    async def run_command(job: RunningJob, payload: Any) -> Outcome:
        return await CommandRun(command, job, payload).run()

    return run_command


class CommandRun:
    """One run of a command. Takes the lines of its output for the job's log."""

    def __init__(self, command: Command, job: RunningJob, payload: Any) -> None:
        self._command = command
        self._job = job
        self._payload = payload

    async def run(self) -> Outcome:
        try:
            invocation = self._render()
        except InvalidInput as error:
            return Rejected("payload_invalid", self._job._redactor.text(error.happened))
        self._job._redactor = self._job._redactor.with_values(*environment_values(invocation.env))
        look_for_leftovers()
        try:
            end = await self._run_program(invocation)
        except NotStarted as problem:
            return Raised("not_started", problem.why, final=problem.final)
        except OSError as problem:
            return Raised("not_started", f"the working folder of the command can't be made: {problem}")
        self._job._process = replace(end, argv=tuple(map(self._job._redactor.text, end.argv)))
        if end.stopped:
            raise asyncio.CancelledError
        return outcome_of_end(self._command, end)

    def _render(self) -> Invocation:
        claim = self._job._claim
        fields = {name for part in parse_template(self._command.template) for name in part.fields}
        if shown := sorted(claim.definition.secret_fields & fields):
            raise InvalidInput(
                f"{shown[0]} was enqueued as a secret, and the argv of this worker would show it.",
                fix="Nothing was run. Take its slot out of the argv.",
            )
        return render(self._command, self._payload, tenant=claim.tenant, job_id=claim.job, attempt=claim.attempt)

    async def _run_program(self, invocation: Invocation) -> ProcessEnd:
        mark = f"{FENCE}={self._job._claim.fence}".encode()
        folder = make_folder(mark)
        try:
            program = Program(
                invocation.argv,
                self._environment(folder, invocation),
                limits_of(self._command, self._job._claim.definition.timeout),
                self._command.grace.total_seconds(),
                mark=mark,
                lease=None if self._job._lease is None else self._job._lease(),
            )
        except BaseException:  # the disk is full, for example
            folder.remove()
            folder.release()
            raise
        return await run_process(
            program,
            folder,
            self._output(LineKind.STDOUT),
            self._output(LineKind.STDERR),
            at_once=lambda: self._job._stops_at_once,
            on_long_run=self._note_pid,
        )

    def _note_pid(self, pid: int) -> None:
        """Logs the pid of a program that runs for long: only the end of the attempt records it otherwise."""
        self.append(f"runs as process {pid}", LineKind.LOG, None)

    def _environment(self, folder: WorkingFolder, invocation: Invocation) -> dict[str, str]:
        env = environment(self._command, invocation.env, self._job._claim, folder.path, os.environ)
        if self._command.payload_file and invocation.payload_file is not None:
            env[self._command.payload_file] = str(folder.write(PAYLOAD_FILE, invocation.payload_file))
        return env

    def _output(self, kind: LineKind) -> Output:
        return Output(self, kind, self._job._redactor.stream(), progress=self._command.progress)

    # ------------------------------------------------------------------------------------------ the log of its lines

    def append(self, text: str, kind: LineKind, progress: float | None) -> bool:
        return self._job._append_line(self._job._claim, text, kind, progress)

    def drop(self, count: int) -> None:
        self._job._drop_lines(self._job._claim, count)


def outcome_of_end(command: Command, end: ProcessEnd) -> Outcome:
    """Returns the outcome for a program that ended by itself."""
    if end.exit_code == 0:
        sizes = {"stdout_bytes": end.stdout.size, "stderr_bytes": end.stderr.size}
        return Succeeded(encode_result({"exit_code": 0, **sizes}))
    if end.exit_code is None:
        return _outcome_of_signal(end.signal or "")
    if end.exit_code in command.snooze_on:
        return Snoozed(command.snooze_on[end.exit_code])
    message = f"exited with {end.exit_code}{_last_line(end)}"
    return Raised(f"exit_{end.exit_code}", message, final=end.exit_code in command.fail_on)


def _outcome_of_signal(name: str) -> Raised:
    match name:
        case "SIGKILL":
            return Raised("killed", "killed by SIGKILL, not by the worker: possibly out of memory")
        case "SIGXCPU":
            return Raised("cpu_limit", "used more processor time than its limit allows (SIGXCPU)")
        case "SIGXFSZ":
            return Raised("file_size_limit", "wrote a file that is larger than its limit allows (SIGXFSZ)")
    return Raised(name, f"ended by {name}, which the worker did not send")


def _last_line(end: ProcessEnd) -> str:
    """Returns the last line of the error output: most programs explain themselves there."""
    lines = end.stderr.tail.strip().splitlines()
    return f": {lines[-1].strip()[:SHOWN_LINE]}" if lines else ""


def environment(
    command: Command, declared: Mapping[str, str], claim: Claim, folder: Path, own: Mapping[str, str]
) -> dict[str, str]:
    """Returns the program's environment: nothing of the worker's own but LANG, TZ and the names in `pass_env`."""
    env = {"PATH": command.search_path, "LANG": own.get("LANG", "C.UTF-8"), "TMPDIR": str(folder)}
    if "TZ" in own:
        env["TZ"] = own["TZ"]
    env |= {name: own[name] for name in command.pass_env if name in own}
    env |= declared
    return env | {
        "JOB_ID": claim.job,
        "JOB_TENANT": claim.tenant,
        "JOB_ATTEMPT": str(claim.attempt),
        FENCE: claim.fence,
    }


def limits_of(command: Command, timeout: timedelta) -> list[Limit]:
    """Returns the resource limits of a job with this timeout. That of memory comes last: others may need some.

    The kernel adds up the time of all threads of a process, so the default counts the processors.
    """
    given, processors = command.limits, os.cpu_count() or 1
    by_default = CPU_PER_TIMEOUT * timeout.total_seconds() * processors
    cpu = ceil(given.cpu.total_seconds() if given.cpu else by_default) or 1
    limits = [
        ("RLIMIT_CORE", 0, 0),
        # SIGXCPU at the first one; SIGKILL at the second one, if the program ignores that.
        ("RLIMIT_CPU", cpu, cpu + 5),
        ("RLIMIT_NOFILE", given.open_files, given.open_files),
    ]
    if given.file_size is not None:
        limits.append(("RLIMIT_FSIZE", given.file_size, given.file_size))
    if given.memory is not None:
        limits.append(("RLIMIT_AS", given.memory, given.memory))
    return [(name, min(soft, sys.maxsize), min(hard, sys.maxsize)) for name, soft, hard in limits]
