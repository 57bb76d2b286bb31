"""An order and the job it needs, in one transaction, with SQLAlchemy: `python shop.py acme lamp`."""

import sys

from sqlalchemy import create_engine
from sqlalchemy.engine import make_url
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from leasehold import Job, Leasehold

app = Leasehold()


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    shop: Mapped[str]
    item: Mapped[str]


@app.job
def send_receipt(job: Job, order: int) -> str:
    job.log(f"sending the receipt for order {order} of {job.tenant}")
    return f"receipt {order}"


def place_order(session: Session, shop: str, item: str) -> int:
    with session.begin():
        order = Order(shop=shop, item=item)
        session.add(order)
        session.flush()  # the order has its id from here on
        app.tenant(shop).within(session).enqueue(send_receipt, order=order.id)
        return order.id


def main(shop: str, item: str) -> None:
    with app.database() as url:
        engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"))
        Base.metadata.create_all(engine)
        with Session(engine) as session:
            print(f"order {place_order(session, shop, item)} is placed")
        engine.dispose()


if __name__ == "__main__":
    main(*sys.argv[1:])
