"""Describes the app of a target, read in a process of its own: in this one its modules would stay loaded."""

import asyncio
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

from leasehold.cli.target import end_of_import, load_target
from leasehold.errors import CannotLoad, LeaseholdError
from leasehold.operations import views
from leasehold.runtime.process import end_with_stdin


@dataclass(frozen=True, slots=True)
class App:
    """The definitions of the target, and the database that its code names."""

    definitions: list[str]
    url: str | None
    schema: str
    home: str


async def describe_app(target: str | None, commands: Path | None = None) -> App:
    process = await asyncio.create_subprocess_exec(
        *(
            sys.executable,
            "-c",
            "import sys; from leasehold.cli.app_description import describe; describe(*sys.argv[1:])",
            target or "",
            str(commands or ""),
        ),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        answer = await process.stdout.read()
        code = await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if not answer:
        raise end_of_import(str(target or commands), code)
    told = orjson.loads(answer)
    if error := told.get("error"):
        raise CannotLoad(error["message"], fix=error["fix"], code=error["code"])
    return App(**told)


def describe(target: str, commands: str) -> None:
    """Prints an App as JSON, or an error. Output of the target itself goes to stderr. Empty text: not given."""
    end_with_stdin()
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        app = load_target(target or None, Path(commands) if commands else None)
        settings = app.settings
        told = asdict(App(list(app.handlers.keys), settings.url, settings.schema, str(settings.home)))
    except LeaseholdError as error:
        told = views.error(error)
    answer.write(orjson.dumps(told))
    answer.close()
