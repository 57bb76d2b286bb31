"""An order and the job it needs, in one transaction, with asyncpg: `python shop.py acme lamp`."""

import asyncio
import sys

import asyncpg

from leasehold import Job, Leasehold

app = Leasehold()

ORDERS = "create table if not exists orders (id bigint generated always as identity, shop text, item text)"
INSERT = "insert into orders (shop, item) values ($1, $2) returning id"


@app.job
async def send_receipt(job: Job, order: int) -> str:
    job.log(f"sending the receipt for order {order} of {job.tenant}")
    return f"receipt {order}"


async def place_order(connection: asyncpg.Connection, shop: str, item: str) -> int:
    async with connection.transaction():
        order = await connection.fetchval(INSERT, shop, item)
        await app.tenant(shop).within(connection).aenqueue(send_receipt, order=order)
    return order


async def main(shop: str, item: str) -> None:
    with app.database() as url:
        connection = await asyncpg.connect(url)
        try:
            await connection.execute(ORDERS)
            print(f"order {await place_order(connection, shop, item)} is placed")
        finally:
            await connection.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
