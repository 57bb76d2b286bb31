"""Declares commands: allow-listed programs whose arguments come from payloads."""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from leasehold.app.command_definition import CommandDefinition
from leasehold.app.definition import TypedDefinition
from leasehold.app.registry import Registry, definition_of
from leasehold.errors import InvalidInput
from leasehold.model.backoff import COMMAND, Backoff, Preset
from leasehold.model.command import GRACE, Command, ResourceLimits, Token
from leasehold.model.command_rules import require_usable
from leasehold.model.definition import DEFAULT_PRIORITY, Retention
from leasehold.model.duration import Duration, as_duration

Argument: TypeAlias = str | os.PathLike[str] | Sequence[str]
"""One argument, or a group of arguments that are left out together."""


class CommandVerbs:
    """The part of an app that declares commands."""

    _registry: Registry

    def command(
        self,
        key: str,
        *,
        argv: Sequence[Argument],
        schema: Mapping[str, Any] | None = None,
        timeout: Duration = "1h",
        max_attempts: int | None = None,
        backoff: Backoff | Preset = COMMAND,
        priority: int = DEFAULT_PRIORITY,
        retention: Retention | None = None,
        on_exhausted: Literal["dead_letter", "failed"] = "dead_letter",
        description: str = "",
        payload_file: str | None = None,
        env: Mapping[str, str] | None = None,
        pass_env: Iterable[str] = (),
        fail_on: Iterable[int] = (),
        snooze_on: Mapping[int, Duration] | None = None,
        grace: Duration = "5s",
        limits: ResourceLimits | None = None,
        progress: bool = True,
    ) -> TypedDefinition[..., Any]:
        """Makes a program a job: `argv` has slots that the payload fills, and no shell reads it.

            sync_dropbox = app.command(
                "sync-dropbox",
                argv=["zoltag", "sync-dropbox", "--tenant-id", "{tenant}", "--provider-id", "{provider_id}"],
                schema={
                    "type": "object",
                    "properties": {"provider_id": {"type": "string", "format": "uuid"}},
                    "required": ["provider_id"],
                    "additionalProperties": False,
                },
            )
            app.tenant("acme").enqueue(sync_dropbox, provider_id="0b9c0a5e-…")

        timeout       how long one try may take, as in "10m"; default 1 hour
        max_attempts  how many tries a job has, the first included; default 3
        payload_file  the environment variable that gets the path of a file with the fields that have no slot
        env           environment variables; the program gets PATH, LANG, TZ and JOB_* besides, and no others. A
                      value "{field}" is filled by the payload
        pass_env      names of variables that are passed on from the worker
        fail_on       exit codes that end the job as failed at once; other codes but 0 are retried
        snooze_on     exit codes after which the job runs again after so long, without using a try
        grace         how long the program has between SIGTERM and SIGKILL
        limits        memory, processor time, open files and file size of its processes
        progress      whether lines like `::progress 0.4 text` on its stdout are progress

        Other options are those of `job`. A worker that lacks the program says so and does not run its jobs.
        """
        given: dict[str, Any] = {
            "timeout": timeout,
            "backoff": backoff,
            "priority": priority,
            "retention": retention,
            "on_exhausted": on_exhausted,
            "description": description,
            "max_attempts": max_attempts,
            "payload_file": payload_file,
            "env": env,
            "pass_env": pass_env,
            "fail_on": fail_on,
            "snooze_on": snooze_on,
            "grace": grace,
            "limits": limits,
            "progress": progress,
        }
        frame = sys._getframe(1)
        return self.declare_command(key, argv, schema, given, f"{frame.f_code.co_filename}:{frame.f_lineno}")

    def declare_command(
        self, key: str, argv: object, schema: Any, options: Mapping[str, Any], place: str
    ) -> TypedDefinition[..., Any]:
        """Registers a command that stands at `place`. Options that are None have their defaults."""
        given = {name: value for name, value in options.items() if value is not None}
        definition = CommandDefinition(make_command(key, argv, schema, given), place)
        self._registry.add(definition, lambda call: call)
        return definition


OF_COMMANDS = ("payload_file", "env", "pass_env", "fail_on", "snooze_on", "grace", "limits", "progress")
NO_FIELDS = {"type": "object", "properties": {}, "additionalProperties": False}


def make_command(key: str, argv: object, schema: Any, options: Mapping[str, Any]) -> Command:
    """Makes a command and checks it. Raises InvalidInput with all that is wrong."""
    of_definition = {name: value for name, value in options.items() if name not in OF_COMMANDS}
    # The effects of a program can't be undone: its claim is on disk before it starts.
    tries = {} if isinstance(of_definition.get("backoff"), Preset) else {"max_attempts": COMMAND.max_attempts}
    chosen = {"backoff": COMMAND, **tries, **of_definition, "durable_claims": True}
    definition = replace(definition_of(key, chosen), schema=NO_FIELDS if schema is None else schema)
    definition.check_registrable()
    snoozes = _mapping(key, "snooze_on", options.get("snooze_on", {}))
    limits = options.get("limits", ResourceLimits())
    if not isinstance(limits, ResourceLimits):
        raise _misfit(key, f"limits={limits!r:.80} is not ResourceLimits(…)")
    command = Command(
        definition,
        _template(key, argv),
        payload_file=options.get("payload_file"),
        env=dict(_mapping(key, "env", options.get("env", {}))),
        pass_env=_items(key, "pass_env", options.get("pass_env", ())),
        fail_on=frozenset(_items(key, "fail_on", options.get("fail_on", ()))),
        snooze_on={code: as_duration(delay) for code, delay in snoozes.items()},
        grace=as_duration(options.get("grace", GRACE)),
        limits=limits,
        progress=options.get("progress", True),
    )
    require_usable(command)
    return command


def _template(key: str, argv: object) -> tuple[Token, ...]:
    if not isinstance(argv, Sequence) or isinstance(argv, str):
        raise _misfit(key, f"argv={argv!r:.80} is not a list of arguments; no shell would split it")
    return tuple(_token(each) for each in argv)


def _token(item: Any) -> Any:
    if isinstance(item, os.PathLike):
        return os.fspath(item)
    return tuple(item) if isinstance(item, list | tuple) else item


def _items(key: str, option: str, value: Any) -> tuple[Any, ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise _misfit(key, f"{option}={value!r:.80} is not a list")
    return tuple(value)


def _mapping(key: str, option: str, value: Any) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise _misfit(key, f"{option}={value!r:.80} is not a dict")
    return value


def _misfit(key: str, why: str) -> InvalidInput:
    return InvalidInput(
        f"The command {key!r:.120} can't be used: {why}.", fix="Nothing was registered. Correct the command."
    )
