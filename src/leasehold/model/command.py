"""Commands: programs that workers run as jobs. A payload fills typed slots of an argv, and never becomes a shell."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeAlias

from leasehold.model.definition import Definition
from leasehold.model.duration import Duration, as_duration

Token: TypeAlias = str | tuple[str, ...]
"""One argument of a template, or a group of arguments that are left out together."""

SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""PATH of every command, unless its `env` sets another: the worker's own PATH differs from machine to machine."""
GRACE = timedelta(seconds=5)
CLEANUP = 5.0
"""Seconds that a stopped command has in addition to its grace, before its attempt ends without it."""


@dataclass(frozen=True, slots=True, init=False)
class ResourceLimits:
    """Limits of a command's processes; None: as the worker has them."""

    memory: int | None = None
    """Bytes of address space of each process."""
    cpu: timedelta | None = None
    """Processor time of each process. Default: 1.2 times the timeout."""
    open_files: int = 1024
    file_size: int | None = None

    def __init__(
        self,
        memory: int | None = None,
        cpu: Duration | None = None,
        open_files: int = 1024,
        file_size: int | None = None,
    ) -> None:
        given = {"memory": memory, "cpu": as_duration(cpu), "open_files": open_files, "file_size": file_size}
        for name, value in given.items():
            object.__setattr__(self, name, value)


@dataclass(frozen=True, slots=True)
class Invocation:
    """A command with the values of one job: its exact argv, the content of its payload file, its own variables."""

    argv: tuple[str, ...]
    payload_file: bytes | None = None
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Command:
    """A definition whose jobs run a program. It is declared where workers run, and never stored in a database.

    template      the program and its arguments, with slots such as `{provider_id}` and `--flag={x}`; a tuple is a
                  group that is left out if its fields are missing
    executable    the absolute path of the program on this machine; None before a worker has looked for it
    payload_file  an environment name that gets the path of a 0600 file with the payload fields that have no slot
    env           environment values, in addition to PATH, LANG, TZ and JOB_*; `{field}` is filled by the payload
    pass_env      names that are passed on from the worker's environment
    fail_on       exit codes that end the job at once
    snooze_on     exit codes after which it runs again later, without using a try
    grace         how long its processes have after SIGTERM, before SIGKILL
    progress      whether lines such as `::progress 0.4 1204 of 3010` move the progress bar
    """

    definition: Definition
    template: tuple[Token, ...]
    payload_file: str | None = None
    env: Mapping[str, str] = field(default_factory=dict, hash=False)
    pass_env: tuple[str, ...] = ()
    fail_on: frozenset[int] = frozenset()
    snooze_on: Mapping[int, timedelta] = field(default_factory=dict, hash=False)
    grace: timedelta = GRACE
    limits: ResourceLimits = ResourceLimits()
    progress: bool = True
    executable: str | None = None

    @property
    def program(self) -> str:
        """The program as it was declared: a name, or an absolute path."""
        first = self.template[0]
        assert isinstance(first, str)
        return first

    @property
    def search_path(self) -> str:
        return self.env.get("PATH", SEARCH_PATH)

    @property
    def cleanup(self) -> float:
        """How many seconds a run may take to end after it was stopped."""
        return self.grace.total_seconds() + CLEANUP
