"""Runs the photo lab on this machine, with orders coming in and workers being killed, until Ctrl-C.

    python examples/demo/demo.py [--seconds N]

At the end it asks the database what became of every job that it enqueued.
"""

import argparse
import asyncio
import logging
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from app import app, charge_card, check_paper, hand_to_courier, import_prices, print_photos, send_mail
from leasehold import Enqueued, JobRecord, Tenant, UnknownJob

ROOT = Path(__file__).resolve().parents[2]
LEASEHOLD = Path(sys.executable).with_name("leasehold")
SHOPS = ("alpine", "harbor", "meadow")
SECONDS_BETWEEN_ORDERS = (0.4, 2.4)

Jobs = list[Enqueued[Any]]
ORDERS: list[tuple[int, Callable[[Tenant, int], Awaitable[Enqueued[Any]]]]] = [
    (4, lambda shop, order: shop.aenqueue(charge_card, order, cents=random.randrange(500, 9000))),
    (4, lambda shop, order: shop.aenqueue(print_photos, order, sheets=random.randint(2, 4))),
    (2, lambda shop, order: shop.aenqueue(send_mail, order, "We have your photos")),
    (2, lambda shop, order: shop.options(delay="5s").aenqueue(send_mail, order, "Did you like them?")),
    (2, lambda shop, order: shop.aenqueue(hand_to_courier, order)),
    (2, lambda shop, order: shop.aenqueue(check_paper, random.choice(["matte", "velvet"]))),
    (2, lambda shop, order: shop.aenqueue(import_prices, "Paper & Sons")),
]


async def main(seconds: float | None) -> int:
    over = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, over.set)
    # Its stdin ends when we do, however that comes about, and it ends with that.
    dev = await asyncio.create_subprocess_exec(
        *(LEASEHOLD, "dev", "examples/demo/app.py", "--chaos", "--until-stdin-ends"), stdin=asyncio.subprocess.PIPE
    )
    ended = asyncio.create_task(dev.wait())
    ended.add_done_callback(lambda _: over.set())
    async with app.open():
        jobs = await take_orders(over, seconds)
        with suppress(ProcessLookupError):
            dev.send_signal(signal.SIGTERM)  # a SIGINT would be a second Ctrl-C, if the terminal has sent one
        code = await ended
        return await sum_up(jobs) or code


async def take_orders(over: asyncio.Event, seconds: float | None) -> Jobs:
    """One now and then, once both workers are there."""
    while not over.is_set() and len(await app.store.workers()) < 2:
        await pause(over, 0.2)
    if seconds is not None:
        asyncio.get_running_loop().call_later(seconds, over.set)
    jobs: Jobs = []
    weights, orders = zip(*ORDERS, strict=True)
    while not over.is_set():
        (place,) = random.choices(orders, weights)
        jobs.append(await place(app.tenant(random.choice(SHOPS)), 1000 + len(jobs)))
        await pause(over, random.uniform(*SECONDS_BETWEEN_ORDERS))
    return jobs


async def pause(over: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(over.wait(), seconds)


async def sum_up(jobs: Jobs) -> int:
    """Prints what became of them, as the database has it. 1 if it has lost one."""
    columns = ("enqueued", "succeeded", "waiting", "failed", "dead letter", "lost", "crashes")
    counts = {shop: Counter[str]() for shop in SHOPS}
    for job in jobs:
        counts[job.tenant]["enqueued"] += 1
        counts[job.tenant][await fate(job)] += 1
        attempts = await app.tenant(job.tenant).jobs.aattempts(job.id)
        counts[job.tenant]["crashes"] += sum(attempt.status == "crashed" for attempt in attempts)
    total = sum(counts.values(), Counter[str]())

    table = Table("shop", box=None, padding=(0, 2, 0, 0), show_footer=True)
    table.columns[0].footer = "all"
    for column in columns:
        table.add_column(column, justify="right", footer=str(total[column]))
    for shop, count in counts.items():
        table.add_row(shop, *(str(count[column]) for column in columns))
    console = Console(highlight=False)
    console.print("", table, "", sep="\n")
    console.print(
        f"Each job that was enqueued has ended, or waits for its turn. Lost: {total['lost']}.", style="bold"
    )
    return 1 if total["lost"] else 0


async def fate(job: Enqueued[Any]) -> str:
    try:
        record: JobRecord = await app.tenant(job.tenant).aget(job.id)
    except UnknownJob:
        return "lost"
    return record.display if record.status.final else "waiting"


def forget_settings() -> None:
    """An exported LEASEHOLD_URL may name a shared database; the demo uses its own, always."""
    for name in list(os.environ):
        if name.startswith("LEASEHOLD_") and name != "LEASEHOLD_HOME":
            del os.environ[name]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, help="end by itself after so long")
    arguments = parser.parse_args()
    forget_settings()
    logging.getLogger("leasehold").setLevel(logging.ERROR)  # a new database is what `dev` tells about
    os.chdir(ROOT)  # the data is in .leasehold/ there
    sys.exit(asyncio.run(main(arguments.seconds)))
