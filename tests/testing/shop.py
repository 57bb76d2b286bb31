"""An app as its users have it: a global of a module, with handlers of both colours."""

import os
import threading
from datetime import date, timedelta

from leasehold import Fail, Job, Leasehold, Snooze, Steps

app = Leasehold()
RATE = 2


@app.job
def sync_folder(job: Job, provider_id: str, path: str = "/") -> str:
    job.log(f"syncing {path}")
    return f"{job.tenant}:{provider_id}:{path}"


@app.job(max_attempts=3, backoff=Steps(60, 3600))
async def send_invoice(job: Job, order: int, due: date | None = None) -> date | None:
    return due


@app.job
async def close_month(job: Job, orders: list[int]) -> int:
    for order in orders:
        await app.tenant(job.tenant).aenqueue(send_invoice, order)
    return len(orders)


@app.job
def close_year(job: Job) -> None:
    app.tenant(job.tenant).enqueue(close_month, [1, 2])


@app.job
def wait_for_the_carrier(job: Job) -> None:
    raise Snooze(timedelta(hours=1))


@app.job
def refuse(job: Job) -> None:
    raise Fail("no such order")


@app.job
def give_an_object(job: Job) -> object:
    return object()


@app.job
def hold_on(job: Job) -> None:
    """Its first attempt goes on until somebody stops its worker."""
    if job.attempt == 1:
        threading.Event().wait()


@app.job
def enter_in_the_books(job: Job) -> None:
    with job.transaction(object()):
        raise AssertionError("nobody would finish it")


@app.job(isolation="process")
def convert(job: Job, amount: int) -> int:
    return RATE * amount


@app.job(isolation="process")
def tell_process(job: Job) -> int:
    return os.getpid()
