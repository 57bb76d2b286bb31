"""A photo lab that prints for three shops: what happens to an order after it was paid for, and sometimes before.

Each kind of job shows one thing that can happen to it.
"""

import asyncio
import random
import time
from datetime import timedelta

from leasehold import Fail, Job, Leasehold, RetryLater, Snooze, Steps

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
