"""Commands that take `--api` before and after their name, and help that fits a screen.

In help, flags show no type; options for shell completion, those of a server, and --help itself are not listed.
"""

from typing import Any

from typer.core import TyperCommand, TyperGroup

from leasehold.cli.output import explain_errors
from leasehold.cli.server_choice import refuse_server, server_options

_NOT_LISTED = ("install_completion", "show_completion", "help")


class Command(TyperCommand):
    """A command for a database or, with --api, for a server."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        _add_server_options(self)

    def get_params(self, ctx: Any) -> list[Any]:
        return _brief(super().get_params(ctx))


class DatabaseCommand(Command):
    """A command that has no meaning over HTTP; it refuses --api."""

    def invoke(self, ctx: Any) -> Any:
        with explain_errors(bool(ctx.params.get("json"))):
            refuse_server(ctx.command_path)
        return super().invoke(ctx)


class Group(TyperGroup):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        _add_server_options(self)

    def get_params(self, ctx: Any) -> list[Any]:
        return _brief(super().get_params(ctx))


def _add_server_options(command: Any) -> None:
    """Adds the options of a server, except those that the command declares itself."""
    declared = {name for parameter in command.params for name in parameter.opts}
    command.params += [option for option in server_options() if not declared.intersection(option.opts)]


def _brief(parameters: list[Any]) -> list[Any]:
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
            parameter.hidden = parameter.hidden or parameter.name in _NOT_LISTED
    return parameters
