"""Commands for tests: a template, and a schema of the given fields."""

from collections.abc import Mapping
from typing import Any

from leasehold.model.argv import render
from leasehold.model.command import Command, Token
from leasehold.model.definition import Definition

UUID = "0b9c0a5e-5f0e-4c8e-9d7c-3a1f5d2b7e60"
JOB = "018f3c4e-0000-7000-8000-000000000000"
TEXT = {"type": "string"}


def schema_of(fields: Mapping[str, Any], required: bool = True) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(fields),
        "required": list(fields) if required else [],
        "additionalProperties": False,
    }


def make(*arguments: Token, fields: Mapping[str, Any] | None = None, required: bool = True, **more: Any) -> Command:
    """Makes a command of the program `sync` with these arguments."""
    return Command(Definition("sync", schema=schema_of(fields or {}, required)), ("sync", *arguments), **more)


def argv_of(command: Command, tenant: str = "acme", **payload: Any) -> list[str]:
    """Returns the arguments after the program."""
    return list(render(command, payload, tenant=tenant, job_id=JOB, attempt=2).argv[1:])
