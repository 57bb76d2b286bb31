"""Runs the photo lab on this machine, with orders coming in and workers being killed, until Ctrl-C.

    python examples/demo/demo.py [--seconds N]

`leasehold dev` prints a link to the console at once. At the end the demo asks the database what became of every job
that it enqueued.
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
from datetime import timedelta
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from app import (
    app,
    charge_card,
    check_disk,
    check_paper,
    frame_picture,
    hand_to_courier,
    import_prices,
    print_photos,
    send_mail,
)
from leasehold import Enqueued, JobRecord, LeaseholdError, Scope, ScopeKind, Tenant, UnknownJob
from leasehold.model.audit import Actor
from leasehold.operations import admin
from leasehold.operations import jobs as operations
from leasehold.store import Subscription, WorkerFacts

ROOT = Path(__file__).resolve().parents[2]
LEASEHOLD = Path(sys.executable).with_name("leasehold")
SHOPS = ("alpine", "harbor", "meadow")
SECONDS_BETWEEN_ORDERS = (0.4, 2.4)
# A worker on another machine that hangs, as far as the database can tell: it keeps its jobs until its lease is over.
LEASE_OF_THE_HUNG = timedelta(seconds=45)

Jobs = list[Enqueued[Any]]
ORDERS: list[tuple[int, Callable[[Tenant, int], Awaitable[Enqueued[Any]]]]] = [
    (4, lambda shop, order: shop.aenqueue(charge_card, order, cents=random.randrange(500, 9000))),
    (4, lambda shop, order: shop.aenqueue(print_photos, order, sheets=random.randint(2, 4))),
    (2, lambda shop, order: shop.aenqueue(send_mail, order, "We have your photos")),
    (2, lambda shop, order: shop.options(delay="5s").aenqueue(send_mail, order, "Did you like them?")),
    (2, lambda shop, order: shop.aenqueue(hand_to_courier, order)),
    (2, lambda shop, order: shop.aenqueue(check_paper, random.choice(["matte", "velvet"]))),
    (2, lambda shop, order: shop.aenqueue(import_prices, "Paper & Sons")),
    (1, lambda shop, order: shop.aenqueue(check_disk, folder=".")),
]


async def main(seconds: float | None) -> int:
    over = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, over.set)
    # Its stdin ends when we do, however that comes about, and it ends with that.
    dev = await asyncio.create_subprocess_exec(
        *(LEASEHOLD, "dev", "examples/demo/app.py", "--chaos", "--except", "frame_picture", "--until-stdin-ends"),
        stdin=asyncio.subprocess.PIPE,
    )
    ended = asyncio.create_task(dev.wait())
    ended.add_done_callback(lambda _: over.set())
    async with app.open():
        jobs = await open_shops()
        beside = [asyncio.create_task(work(over)) for work in (upload_albums, hang_now_and_then)]
        jobs += await take_orders(over, seconds, len(jobs))
        await asyncio.gather(*beside)
        with suppress(ProcessLookupError):
            dev.send_signal(signal.SIGTERM)  # a SIGINT would be a second Ctrl-C, if the terminal has sent one
        code = await ended
        return await sum_up(jobs) or code


async def open_shops() -> Jobs:
    """Begins with orders of every shop: some for later, one canceled, one that fails, one that waits for a workshop.

    One shop may have two jobs running at most, so that others of its jobs are held.
    """
    await admin.limit(app.store, Scope(ScopeKind.TENANT, "meadow"), 2, Actor("demo"))
    jobs: Jobs = []
    for shop in map(app.tenant, SHOPS):
        for _, place in ORDERS:
            jobs.append(await place(shop, 1000 + len(jobs)))
        jobs += [await shop.aenqueue(print_photos, 1000 + len(jobs) + n, sheets=3) for n in range(3)]
        jobs.append(await shop.options(delay="2h").aenqueue(send_mail, 1000 + len(jobs), "Your calendar is ready"))
        jobs.append(await shop.aenqueue(frame_picture, 1000 + len(jobs)))
        jobs.append(await shop.aenqueue(check_paper, "velvet"))
        canceled = await shop.options(delay="1h").aenqueue(send_mail, 1000 + len(jobs), "We miss you")
        await operations.cancel(app.store, canceled.tenant, canceled.id, Actor("demo"))
        jobs.append(canceled)
    return jobs


async def upload_albums(over: asyncio.Event) -> None:
    """Emits an event now and then, which starts a job of its shop."""
    number = 0
    while not over.is_set():
        number += 1
        album = {"album": f"summer-{number}", "photos": 3 * random.randrange(7, 30) + number % 3}
        with suppress(LeaseholdError):
            await app.tenant(random.choice(SHOPS)).aemit("album.uploaded", album)
        await pause(over, random.uniform(2, 5))


async def hang_now_and_then(over: asyncio.Event) -> None:
    """Registers a worker that takes two jobs and is never heard of again, once its lease is over another one.

    Other workers try its jobs again, as they do for a machine that has lost its network.
    """
    while not over.is_set():
        with suppress(LeaseholdError):
            facts = WorkerFacts("printer-3", 4711, version="0.0.9", slots=2)
            hung = await app.store.join(Subscription((print_photos.key,)), facts, LEASE_OF_THE_HUNG)
            await app.store.claim(hung, 2)
        await pause(over, LEASE_OF_THE_HUNG.total_seconds() * 1.25)


async def take_orders(over: asyncio.Event, seconds: float | None, before: int) -> Jobs:
    """One now and then, once both workers are there."""
    while not over.is_set() and await workers() < 2:
        await pause(over, 0.2)
    if seconds is not None:
        asyncio.get_running_loop().call_later(seconds, over.set)
    jobs: Jobs = []
    weights, orders = zip(*ORDERS, strict=True)
    while not over.is_set():
        (place,) = random.choices(orders, weights)
        jobs.append(await place(app.tenant(random.choice(SHOPS)), 1000 + before + len(jobs)))
        await pause(over, random.uniform(*SECONDS_BETWEEN_ORDERS))
    return jobs


async def workers() -> int:
    """Returns how many of the demo's own workers are there."""
    return sum(len(each.serves.definitions) > 1 for each in await app.store.workers())


async def pause(over: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(over.wait(), seconds)


async def sum_up(jobs: Jobs) -> int:
    """Prints what became of them, as the database has it. 1 if it has lost one."""
    columns = ("enqueued", "succeeded", "waiting", "failed", "canceled", "dead letter", "lost", "crashes")
    counts = {shop: Counter[str]() for shop in SHOPS}
    for job in jobs:
        counts[job.tenant]["enqueued"] += 1
        counts[job.tenant][await fate(job)] += 1
        attempts = await app.tenant(job.tenant).jobs.aattempts(job.id)
        counts[job.tenant]["crashes"] += sum(attempt.status == "crashed" for attempt in attempts)
    total = sum(counts.values(), Counter[str]())

    table = Table("shop", box=None, padding=(0, 1, 0, 0), show_footer=True)
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
