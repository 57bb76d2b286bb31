"""A photo lab that prints for three shops: what happens to an order after it was paid for, and sometimes before.

Each kind of job shows one thing that can happen to it.
"""

import asyncio
import random
import time
from datetime import timedelta

from leasehold import ALL, Fail, Job, Leasehold, RetryLater, Snooze, Steps, every

app = Leasehold()


@app.job(backoff=Steps(1, 2), max_attempts=5)
async def charge_card(job: Job, order: int, cents: int) -> str:
    """Retries until it works: the bank does not always answer."""
    await asyncio.sleep(random.uniform(0.1, 0.4))
    if random.random() < 0.4:
        raise TimeoutError("the bank does not answer")
    return f"{cents / 100:.2f} for order {order}, {job.idempotency_key}"  # the bank sees each key once


@app.job(backoff=Steps(1), max_attempts=10)
def print_photos(job: Job, order: int, sheets: int) -> int:
    """Takes long, and says how far it is. When its worker is killed, another one prints it again."""
    job.log(f"order {order}: {sheets} sheets")
    for sheet in range(1, sheets + 1):
        time.sleep(1.2)
        job.progress(sheet / sheets, f"sheet {sheet} of {sheets}")
    return sheets


@app.job
async def send_mail(job: Job, order: int, subject: str) -> None:
    """Does what it should, at once or later."""
    await asyncio.sleep(0.05)


@app.job
async def hand_to_courier(job: Job, order: int) -> None:
    """Snoozes until the courier is there. A snooze uses no try, so this counts runs: `attempt`, not `tries`."""
    if job.attempt < 3:
        raise Snooze(timedelta(seconds=2))
    job.log(f"order {order} is on its way")


@app.job
async def check_paper(job: Job, kind: str) -> None:
    """Fails at once: no retry brings back a discontinued paper."""
    await asyncio.sleep(0.1)
    if kind == "velvet":
        raise Fail("velvet paper is discontinued")


@app.job(max_attempts=3)
async def import_prices(job: Job, supplier: str) -> None:
    """Gives up when its tries are used up, and becomes a dead letter for someone to look at."""
    raise RetryLater(timedelta(seconds=1), f"{supplier} sends prices in a format that nobody knows")


@app.on("album.uploaded", tenant=ALL, payload={"album": "{{event.album}}", "photos": "{{event.photos}}"})
@app.job(backoff=Steps(2, 4, 8), max_attempts=4)
async def sync_album(job: Job, album: str, photos: int = 0) -> int:
    """Runs when a shop uploads an album. The provider of every third album is out of order."""
    job.log(f"{album}: {photos} photos")
    await asyncio.sleep(random.uniform(0.2, 0.8))
    if photos % 3 == 0:
        job.log("\x1b[33mretrying 503 from the provider\x1b[0m")
        raise ConnectionError("GET https://albums.example/v2/export: 503 Service Unavailable")
    return photos


@app.schedule(every("20s"), tenant=ALL, label="Count the paper")
@app.schedule("0 6 * * mon-fri", zone="Europe/Berlin", tenant="alpine", label="Morning count")
@app.job
async def count_paper(job: Job) -> int:
    """Runs by the clock."""
    return random.randrange(200, 900)


@app.job
async def frame_picture(job: Job, order: int) -> None:
    """Waits for a worker with a workshop: none of the demo's workers serves it."""


check_disk = app.command(
    "check-disk",
    argv=["df", "-h", "--", "{folder}"],
    schema={
        "type": "object",
        "properties": {"folder": {"type": "string", "title": "Folder"}},
        "required": ["folder"],
        "additionalProperties": False,
    },
    timeout="1m",
    description="How full the disk is: a program, run as a job.",
)
