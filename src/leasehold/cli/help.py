"""Help that fits a screen: flags show no type; options for shell completion, and --help itself, are not listed."""

from typing import Any

from typer.core import TyperCommand, TyperGroup

_NOT_LISTED = ("install_completion", "show_completion", "help")


class Command(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        return _brief(super().get_params(ctx))


class Group(TyperGroup):
    def get_params(self, ctx: Any) -> list[Any]:
        return _brief(super().get_params(ctx))


def _brief(parameters: list[Any]) -> list[Any]:
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
            parameter.hidden = parameter.hidden or parameter.name in _NOT_LISTED
    return parameters
