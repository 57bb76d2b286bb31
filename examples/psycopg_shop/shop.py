"""An order and the job it needs, in one transaction, with psycopg: `python shop.py acme lamp`."""

import sys

import psycopg

from leasehold import Job, Leasehold

app = Leasehold()

ORDERS = "create table if not exists orders (id bigint generated always as identity, shop text, item text)"
INSERT = "insert into orders (shop, item) values (%s, %s) returning id"


@app.job
def send_receipt(job: Job, order: int) -> str:
    job.log(f"sending the receipt for order {order} of {job.tenant}")
    return f"receipt {order}"


def place_order(connection: psycopg.Connection, shop: str, item: str) -> int:
    with connection.transaction():
        (order,) = connection.execute(INSERT, [shop, item]).fetchone()
        app.tenant(shop).within(connection).enqueue(send_receipt, order=order)
    return order


def main(shop: str, item: str) -> None:
    with app.database() as url, psycopg.connect(url, autocommit=True) as connection:
        connection.execute(ORDERS)
        print(f"order {place_order(connection, shop, item)} is placed")


if __name__ == "__main__":
    main(*sys.argv[1:])
