"""Shows the argv that a command would run for a payload, without running it."""

import shlex

import orjson

from leasehold.app import Leasehold
from leasehold.app.command_definition import CommandDefinition
from leasehold.cli.output import print_json, stderr, stdout
from leasehold.cli.payload import read_document
from leasehold.cli.tables import show_line
from leasehold.errors import InvalidInput
from leasehold.model.argv import render
from leasehold.model.command_env import env_slots
from leasehold.model.definition import no_such_definition
from leasehold.model.job import tenant_id
from leasehold.model.secret_fields import SHOWN
from leasehold.operations.views import printable


def show_argv(app: Leasehold, key: str, payload: str, tenant: str | None, json: bool) -> None:
    """Prints the argv, quoted as in a shell, the variables that the payload fills, and the payload file.

    A reserved slot without a value stays as it is. Secret fields are not shown.
    """
    definition = app.definition(key)
    if definition is None:
        raise no_such_definition(key, app.handlers.keys)
    if not isinstance(definition, CommandDefinition):
        raise InvalidInput(
            f"{key} is a handler, which has no argv. Nothing was run.", fix="Leave --payload out, or name a command."
        )
    owner = "{tenant}" if tenant is None else tenant_id(tenant)
    command = definition.located
    shown = render(command, read_document(payload), tenant=owner, job_id="{job_id}", attempt=1)
    content = None if shown.payload_file is None else orjson.loads(shown.payload_file)
    env = {name: field for name, field in env_slots(command.env).items() if name in shown.env}
    secret = command.definition.secret_fields
    content = content and {name: SHOWN if name in secret else value for name, value in content.items()}
    filled = {name: SHOWN if field in secret else shown.env[name] for name, field in env.items()}
    if json:
        found = command.executable is not None
        print_json({"argv": shown.argv, "env": filled, "payload_file": content, "program_found": found})
    else:
        show_line(stdout, shlex.join(shown.argv))
        for name, value in filled.items():
            show_line(stdout, f"{name}: {value}")
        if content is not None:
            show_line(stdout, f"{command.payload_file}: {orjson.dumps(content).decode()}")
    if problem := definition.problem_here():
        stderr.print(printable(f"! {problem}"), markup=False)
