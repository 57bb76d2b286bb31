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
from leasehold.model.definition import no_such_definition
from leasehold.model.job import tenant_id
from leasehold.operations.views import printable


def show_argv(app: Leasehold, key: str, payload: str, tenant: str | None, json: bool) -> None:
    """Prints the argv, quoted as in a shell, and the payload file. A reserved slot without a value stays as it is."""
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
    if json:
        print_json({"argv": shown.argv, "payload_file": content, "program_found": command.executable is not None})
    else:
        show_line(stdout, shlex.join(shown.argv))
        if content is not None:
            show_line(stdout, f"{command.payload_file}: {orjson.dumps(content).decode()}")
    if problem := definition.problem_here():
        stderr.print(printable(f"! {problem}"), markup=False)
