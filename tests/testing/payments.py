"""A shop that charges its customers, in more and less careful ways. The bank is a table, or somebody else's."""

import asyncpg

from leasehold import Job, Leasehold, Steps

app = Leasehold()
once_a_minute = Steps(60)


def charge(order: int, idempotency_key: str | None = None) -> str:
    return f"receipt {order}"


async def acharge(order: int) -> str:
    return f"receipt {order}"


def send_mail(order: int) -> None: ...


class Bank:
    def charge(self, order: int) -> str:
        return f"receipt {order}"


bank = Bank()


@app.job(backoff=once_a_minute)
def charge_order(job: Job, order: int) -> str:
    """The planted mistake: a second request charges a second time."""
    return charge(order)


@app.job(backoff=once_a_minute)
def charge_order_once(job: Job, order: int) -> str:
    return charge(order, idempotency_key=job.idempotency_key)


@app.job(backoff=once_a_minute)
async def charge_order_awaiting(job: Job, order: int) -> str:
    return await acharge(order)


@app.job(backoff=once_a_minute)
def charge_by_bank(job: Job, order: int) -> str:
    return bank.charge(order)


@app.job(backoff=once_a_minute)
def charge_and_mail(job: Job, order: int) -> None:
    charge(order, idempotency_key=job.idempotency_key)
    send_mail(order)


@app.job(backoff=once_a_minute)
def charge_stubbornly(job: Job, order: int) -> str:
    try:
        return charge(order)
    except ConnectionError:
        return charge(order)


@app.job(max_attempts=1)
def charge_without_a_second_chance(job: Job, order: int) -> str:
    return charge(order, idempotency_key=job.idempotency_key)


@app.job(backoff=once_a_minute)
async def book(job: Job, order: int) -> None:
    """A row for each run that got so far."""
    await _booked("insert into bookings values ($1, gen_random_uuid()::text)", order)


@app.job(backoff=once_a_minute)
async def book_once(job: Job, order: int) -> None:
    await _booked("insert into bookings values ($1, $2) on conflict do nothing", order, job.idempotency_key)


async def _booked(statement: str, *values: object) -> None:
    assert app.settings.url is not None
    connection = await asyncpg.connect(app.settings.url)
    try:
        async with connection.transaction():
            await connection.execute(statement, *values)
            await last_thought()
    finally:
        await connection.close()


async def last_thought() -> None:
    """Within the transaction, before its commit."""
