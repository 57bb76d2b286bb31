"""`python -m bench`: takes the measures round by round, and writes RESULTS.md, RESULTS.json and the plots.

Results of another server than the embedded one have its version in their names: RESULTS-15.md, plots-15.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path
from signal import SIGTERM
from time import monotonic
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench import plots
from bench.book import Book
from bench.machine import described
from bench.measures import Measure
from bench.measures.api import Api
from bench.measures.drain import Drain, Polling, Processes, Tenants
from bench.measures.dynamodb import DynamoJobs
from bench.measures.enqueue import Bulk, Emit, OneByOne, OneCall
from bench.measures.fires import Fires
from bench.measures.flood import Flood
from bench.measures.growth import Backlog, History, Lanes, Snapshot
from bench.measures.idle import Idle
from bench.measures.isolation import Isolation
from bench.measures.latency import Asleep, Committed, Due, Hundred, Latency, Urgent, WakeToStart
from bench.measures.memory import Memory
from bench.measures.rollup import RollUp
from bench.measures.telemetry import Telemetry
from bench.measures.wakes import Producers
from bench.names import command_for, file_for
from bench.report import Circumstances, added, markdown
from bench.server import EMBEDDED, SYSTEM, Server, default_server, running
from bench.sizes import FULL, QUICK, Sizes
from bench.stage import Stage
from bench.systems import ALL, OURS, CannotMeasure, System, system

HERE = Path(__file__).parent
MEASURES: tuple[Measure, ...] = (
    *(Drain(), Tenants(), Polling(), OneByOne(), Asleep(), Bulk(), Latency(), WakeToStart(), Hundred(), Backlog()),
    *(History(), Lanes(), Snapshot(), Flood(), Urgent(), Due(), Committed(), Producers(), Processes(), OneCall()),
    *(Emit(), Fires(), Isolation(), DynamoJobs(), RollUp(), Telemetry(), Api(), Memory(), Idle()),
)
NAMES = ", ".join(measure.name for measure in MEASURES)
console = Console(stderr=True)


def main(
    quick: Annotated[bool, typer.Option(help="Small sizes, one round: shows that everything works.")] = False,
    only: Annotated[str, typer.Option(help=f"Some measures, with commas: {NAMES}.")] = "",
    systems: Annotated[str, typer.Option(help=f"Some systems, with commas: {', '.join(ALL)}.")] = "",
    rounds: Annotated[int, typer.Option(help="How often each is measured; default 3, quick 1.")] = 0,
    server: Annotated[
        str, typer.Option(help=f"{EMBEDDED}, {SYSTEM} (the oldest PostgreSQL of this machine's packages), or a URL.")
    ] = "",
    add: Annotated[
        bool, typer.Option(help="Put the figures of --only into the whole results, each with this command.")
    ] = False,
    again: Annotated[bool, typer.Option(help="Measure nothing: write the reports again from their figures.")] = False,
) -> None:
    """Measure Leasehold against its bars and its peers, on one Postgres in one run."""
    if again:
        return write_again()
    sizes = QUICK if quick else FULL
    sizes = replace(sizes, rounds=rounds or sizes.rounds)
    measures = [measure for measure in MEASURES if not only or measure.name in _listed(only)]
    if not measures:
        raise typer.BadParameter(f"no such measure; there are {NAMES}")
    if add and (quick or not only):
        raise typer.BadParameter("--add needs --only, and full sizes")
    whole = not (quick or only or systems) and sizes.rounds >= FULL.rounds
    where = server or default_server()
    command = command_for(quick, only, systems, rounds, where)
    try:
        plan = Plan(sizes, measures, _listed(systems) or ALL, where, command, whole=whole, quick=quick, add=add)
        asyncio.run(bench(plan))
    except (KeyboardInterrupt, asyncio.CancelledError):
        console.print("stopped: nothing was written")
        raise typer.Exit(130) from None
    except CannotMeasure as reason:
        console.print(str(reason), highlight=False)
        raise typer.Exit(1) from None


@dataclass(frozen=True)
class Plan:
    sizes: Sizes
    measures: Sequence[Measure]
    systems: Sequence[str]
    server: str
    command: str
    whole: bool
    quick: bool
    add: bool


async def bench(plan: Plan) -> None:
    book, began = Book(), monotonic()
    this = asyncio.current_task()
    assert this is not None
    asyncio.get_running_loop().add_signal_handler(SIGTERM, this.cancel)  # or its processes would go on without it
    found, missing = find(plan.systems)
    async with running(plan.server) as server:
        await take(server, plan.sizes, book, found, plan.measures)
        run = Circumstances(
            command=plan.command,
            day=date.today().isoformat(),
            quick=plan.quick,
            rounds=plan.sizes.rounds,
            minutes=(monotonic() - began) / 60,
            machine=described(),
            postgres=await server.version(),
            settings=await server.settings(),
            systems={name: (found[name].version(), found[name].settings) for name in found},
            missing=missing,
        )
        file = file_for(plan.server, server.major, whole=plan.whole or plan.add)
    if plan.add:
        book, run = added(book, run, HERE / f"{file}.json")
    (HERE / f"{file}.json").write_text(json.dumps({"run": asdict(run), **book.as_json()}, indent=1) + "\n")
    write(book, plan.sizes, run, file)


def write_again() -> None:
    for figures in HERE.glob("RESULTS*.json"):
        if "quick" not in figures.stem:
            read = json.loads(figures.read_text())
            write(Book.of_json(read), FULL, Circumstances(**read["run"]), figures.stem)


def write(book: Book, sizes: Sizes, run: Circumstances, file: str) -> None:
    drawn = plots.draw(book, sizes, HERE / file.replace("RESULTS", "plots"))
    (HERE / f"{file}.md").write_text(markdown(book, sizes, run, drawn))
    console.print(f"written: bench/{file}.md")


async def take(
    server: Server, sizes: Sizes, book: Book, systems: dict[str, System], measures: Sequence[Measure]
) -> None:
    """Round by round, and in each the measures in turn: whatever disturbs the machine, disturbs all alike."""
    steps = [(number, each) for number in range(sizes.rounds) for each in measures if number == 0 or not each.once]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=len(steps))

        def say(what: str) -> None:
            progress.update(task, description=what)
            if not console.is_terminal:
                console.print(what, highlight=False)

        stage = Stage(server, sizes, book, systems, say)
        try:
            for _, measure in steps:
                if OURS in systems or measure.compares:
                    await measure.round(stage)
                progress.advance(task)
        finally:
            await stage.close()


def find(names: Sequence[str]) -> tuple[dict[str, System], dict[str, str]]:
    """The systems that are there, and why the others are not."""
    found: dict[str, System] = {}
    missing: dict[str, str] = {}
    for name in names:
        try:
            found[name] = system(name)
        except CannotMeasure as reason:
            missing[name] = str(reason)
            console.print(f"{name}: {reason}", highlight=False)
    return found, missing


def _listed(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


if __name__ == "__main__":
    typer.run(main)
