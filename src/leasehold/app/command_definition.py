"""The definition that `app.command(…)` makes: its payload fills the slots of an argv, and its jobs run a program."""

import os
import shutil
import socket
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from os.path import abspath, dirname, islink, join, realpath
from typing import Any, ClassVar

from leasehold.app.definition import TypedDefinition
from leasehold.errors import InvalidInput, PayloadInvalid
from leasehold.model.argv import parse_template, render
from leasehold.model.command import Command
from leasehold.model.interpreters import problem_of_links
from leasehold.model.job import NewJob
from leasehold.model.payload import encode
from leasehold.model.secret_fields import unwrap
from leasehold.worker.handlers import Call
from leasehold.worker.job import Job
from leasehold.worker.outcomes import Fail

# Stand for the values that only a job has, where the argv of a payload is tried without one.
NO_TENANT, NO_JOB = "tenant", "00000000-0000-0000-0000-000000000000"
MOST_LINKS = 40


class CommandDefinition(TypedDefinition[..., Any]):
    """A definition whose jobs run a program. It is enqueued with the fields of its schema, by name."""

    reads_json: ClassVar[bool] = False

    def __init__(self, command: Command, place: str) -> None:
        self.definition = command.definition
        self.command = command
        self._place = place
        self._has_secrets = bool(self.definition.secret_fields)
        self.__name__ = command.definition.key
        self.__doc__ = command.definition.description

    @property
    def place(self) -> str:
        return self._place

    def bind(self, *args: Any, **kwargs: Any) -> NewJob:
        if args:
            raise PayloadInvalid(
                f"{self.key}: {len(args)} arguments by position, a command takes its fields by name.",
                fix=f"Nothing was enqueued. It takes: {self._takes()}.",
            )
        return self.of_payload(kwargs)

    def of_payload(self, payload: Mapping[str, Any]) -> NewJob:
        job = NewJob.of(self.key, self._check(payload))
        return self._unsealed(job) if self._has_secrets else job

    def fit(self, job: NewJob) -> NewJob:
        given = unwrap(job.payload) if self._has_secrets else job.payload
        fitting = job.with_fields(job.version, {"payload": self._check(given), "fits": True})
        return self._unsealed(fitting) if self._has_secrets else fitting

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise InvalidInput(
            f"{self.key} is a command, which only a worker runs. Nothing was run.",
            fix="Enqueue it; in a test, leasehold.drain() runs it.",
        )

    def read_result(self, stored: Any) -> Any:
        return stored

    @cached_property
    def call(self) -> Call:
        """Runs the program for a worker."""

        async def run_command(job: Job, payload: Any) -> Any:
            return await self._run(job, payload)

        return run_command

    @property
    def cleanup(self) -> float:
        return self.command.cleanup

    def problem_here(self) -> str | None:
        """Returns why the program can't be run on this machine; None if it can."""
        if self._executable is not None:
            return self._problem_of_links(self._executable)
        program = self.command.program
        checked = "" if program.startswith("/") else f" Checked: {self.command.search_path.replace(':', ', ')}."
        missing = "does not exist or can't be executed" if program.startswith("/") else "is not on its PATH"
        return f'its program "{program}" {missing} (host {socket.gethostname()}).{checked}'

    @property
    def located(self) -> Command:
        """The command with the absolute path of its program, if this machine has it."""
        return replace(self.command, executable=self._executable)

    @cached_property
    def _executable(self) -> str | None:
        found = shutil.which(self.command.program, path=self.command.search_path)
        return None if found is None else abspath(found)

    def _problem_of_links(self, executable: str) -> str | None:
        """Returns why the program is refused, if its file is a link to an interpreter."""
        words = [word for part in parse_template(self.command.template) for word in part.words]
        problem = problem_of_links(words, list(_linked_from(executable)))
        return problem and f'its program "{self.command.program}" is a link: {problem} (host {socket.gethostname()}).'

    @cached_property
    def _run(self) -> Call:
        from leasehold.commands import command_handler  # it needs modules that only POSIX systems have

        if problem := self.problem_here():
            raise Fail(f"{self.key}: {problem}")
        run: Call = command_handler(self.located)
        return run

    def _check(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the payload if it is JSON, fits the schema, and fills an argv that the system accepts."""
        checked = dict(payload)
        encode(checked)
        try:
            render(self.command, checked, tenant=NO_TENANT, job_id=NO_JOB, attempt=1)
        except PayloadInvalid as error:
            raise PayloadInvalid(
                error.happened, fix=f"Nothing was enqueued. Its schema: leasehold definitions show {self.key}"
            ) from error
        return checked

    def _takes(self) -> str:
        fields = (self.definition.schema or {}).get("properties", {})
        return ", ".join(f"{name}=…" for name in fields) or "no fields"


def _linked_from(path: str) -> Iterator[str]:
    """Yields the paths that a link leads to, one after the other; none for a file."""
    if islink(path):
        yield realpath(path)
    for _ in range(MOST_LINKS):
        if not islink(path):
            return
        path = join(dirname(path), os.readlink(path))
        yield path
