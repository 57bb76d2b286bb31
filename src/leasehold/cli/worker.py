"""`leasehold worker`."""

import asyncio
import logging
import sys
from contextlib import suppress
from functools import partial
from typing import Annotated

import typer

from leasehold import __version__
from leasehold.cli.options import Schema, Url, database
from leasehold.cli.output import explained, said
from leasehold.cli.target import load_handlers
from leasehold.config import Settings, read_duration
from leasehold.engines import open_store
from leasehold.engines.postgres import migrate as migrations
from leasehold.errors import Unreachable
from leasehold.worker import Worker, WorkerSettings
from leasehold.worker.heartbeat import Leases
from leasehold.worker.process import Parent, leave, serve

_CHILD = "from leasehold.cli import main; main()"


def worker(
    handlers: Annotated[
        str, typer.Argument(help="Where the handlers are: file.py or package.module, or either:name.")
    ],
    slots: Annotated[int, typer.Option(help="How many jobs run at once, in each process.", min=1)] = 10,
    processes: Annotated[int, typer.Option(help="How many worker processes; a parent keeps them alive.", min=1)] = 1,
    grace: Annotated[str, typer.Option(help="How long running jobs may go on after a stop, as in 30s.")] = "30s",
    lease: Annotated[str, typer.Option(help="How long a claim holds without a heartbeat, as in 60s.")] = "60s",
    url: Url = None,
    schema: Schema = None,
) -> None:
    """Run jobs until stopped. SIGTERM drains: running jobs end within the grace, the rest is given back."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    with explained(json=False):
        settings = Settings.from_environment()
        if processes > 1:
            leave(Parent([sys.executable, "-c", _CHILD, *_without_processes(sys.argv[1:])], processes).run())
        leases = Leases(busy=read_duration(lease), idle=3 * read_duration(lease))
        options = WorkerSettings(
            slots=slots,
            leases=leases,
            notify=settings.notify,
            fallback=settings.fallback,
            grace=read_duration(grace),
            version=__version__,
        )
        found = load_handlers(handlers)
        schema = schema or settings.schema
        with database(url, settings) as where:
            with suppress(Unreachable):  # a database that is away is waited for
                asyncio.run(migrations.standing(where, schema)).require_usable()
            said.print(f"✓ worker    {slots} slots for {', '.join(found.keys)}", markup=False)
            leave(serve(lambda: Worker(partial(open_store, where, schema), found, options)))


def _without_processes(arguments: list[str]) -> list[str]:
    """The same command line, for a single process."""
    kept = [word for word in arguments if not word.startswith("--processes=")]
    if "--processes" in kept:
        place = kept.index("--processes")
        del kept[place : place + 2]
    return kept
