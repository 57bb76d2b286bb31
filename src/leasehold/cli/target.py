"""Checks the app that a command line names."""

from pathlib import Path

import typer

from leasehold.app import Leasehold
from leasehold.app.command_file import load_commands
from leasehold.app.load import end_of_import, load_app
from leasehold.errors import InvalidInput

__all__ = ["end_of_import", "load_app", "load_target", "require_jobs", "require_target"]


def require_target(target: str | None, commands: Path | None) -> None:
    if target is None and commands is None:
        raise typer.BadParameter("name an app, as in app.py, or a file with --commands", param_hint="TARGET")


def load_target(target: str | None, commands: Path | None) -> Leasehold:
    """Returns the app of a target with the commands of a file; without a target, an app with these alone."""
    require_target(target, commands)
    app = Leasehold() if target is None else load_app(target)
    if commands is not None:
        load_commands(app, commands)
    return app


def require_jobs(app: Leasehold, target: str | None) -> None:
    """Refuses an app without jobs. An app that was loaded twice, under two names, has its jobs in the other copy."""
    if not app.handlers.keys:
        raise InvalidInput(
            f"{target} has no jobs, so there is nothing to run. Nothing was started.",
            fix="Write @app.job above a function, and import the modules that do so where the app is. If they import "
            "the app as package.module, name it so here too, or put an __init__.py beside the file.",
        )
    served, problems = app.handlers.of_this_machine()
    if not served.keys:
        why = " ".join(f"{key}: {problem}" for key, problem in problems.items())
        raise InvalidInput(
            f"this machine can't run any of the jobs. {why} Nothing was started.",
            fix="Install the programs, or set PATH in the env of the commands.",
        )
