"""Commands: programs that workers run as jobs. A payload fills typed slots of an argv, and never becomes a shell."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from leasehold.model.definition import Definition


@dataclass(frozen=True, slots=True)
class ResourceLimits:
    """Limits of a command's processes; None: as the worker has them."""

    memory: int | None = None
    """Bytes of address space of each process."""
    cpu: timedelta | None = None
    """Processor time of each process. Default: 1.2 times the timeout."""
    open_files: int = 1024
    file_size: int | None = None


@dataclass(frozen=True, slots=True)
class Invocation:
    """A command with the values of one job: its exact argv, and the content of its payload file."""

    argv: tuple[str, ...]
    payload_file: bytes | None = None


@dataclass(frozen=True, slots=True)
class Command:
    """A definition whose jobs run a program. It is declared where workers run, and never stored in a database.

    template      the program and its arguments, with slots such as `{provider_id}` and `--flag={x}`
    payload_file  an environment name that gets the path of a 0600 file with the payload fields that have no slot
    env           environment values, in addition to PATH, LANG, TZ and JOB_*
    pass_env      names that are passed on from the worker's environment
    fail_on       exit codes that end the job at once
    snooze_on     exit codes after which it runs again later, without using a try
    grace         how long its processes have after SIGTERM, before SIGKILL
    progress      whether lines such as `::progress 0.4 1204 of 3010` move the progress bar
    """

    definition: Definition
    template: tuple[str, ...]
    payload_file: str | None = None
    env: Mapping[str, str] = field(default_factory=dict, hash=False)
    pass_env: tuple[str, ...] = ()
    fail_on: frozenset[int] = frozenset()
    snooze_on: Mapping[int, timedelta] = field(default_factory=dict, hash=False)
    grace: timedelta = timedelta(seconds=5)
    limits: ResourceLimits = ResourceLimits()
    progress: bool = True
