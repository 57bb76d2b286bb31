"""Describes the app of a target, read in a process of its own: in this one its modules would stay loaded."""

import asyncio
import os
import sys
from dataclasses import asdict, dataclass

import orjson

from leasehold.cli.target import end_of_import, load_app
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


async def describe_app(target: str) -> App:
    process = await asyncio.create_subprocess_exec(
        *(
            sys.executable,
            "-c",
            "import sys; from leasehold.cli.app_description import describe; describe(sys.argv[1])",
            target,
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
        raise end_of_import(target, code)
    told = orjson.loads(answer)
    if error := told.get("error"):
        raise CannotLoad(error["message"], fix=error["fix"], code=error["code"])
    return App(**told)


def describe(target: str) -> None:
    """Prints an App as JSON, or an error. Output of the target itself goes to stderr."""
    end_with_stdin()
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        app = load_app(target)
        settings = app.settings
        told = asdict(App(list(app.handlers.keys), settings.url, settings.schema, str(settings.home)))
    except LeaseholdError as error:
        told = views.error(error)
    answer.write(orjson.dumps(told))
    answer.close()
