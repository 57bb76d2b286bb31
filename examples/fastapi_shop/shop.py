"""A web shop with FastAPI and SQLAlchemy's AsyncSession: `uvicorn shop:web`. Jobs run in the same process."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Annotated

import asyncpg
from fastapi import Depends, FastAPI
from pydantic import BaseModel
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

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
async def send_receipt(job: Job, order: int) -> str:
    job.log(f"sending the receipt for order {order} of {job.tenant}")
    return f"receipt {order}"


@asynccontextmanager
async def lifespan(web: FastAPI) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(app.open(worker=True))
        url = stack.enter_context(app.database())
        web.state.engine = create_async_engine("postgresql+asyncpg://", async_creator=partial(asyncpg.connect, url))
        stack.push_async_callback(web.state.engine.dispose)
        async with web.state.engine.begin() as connection:
            await connection.run_sync(Base.metadata.create_all)
        yield


web = FastAPI(lifespan=lifespan)


async def session() -> AsyncIterator[AsyncSession]:
    async with AsyncSession(web.state.engine) as session:
        yield session


Session = Annotated[AsyncSession, Depends(session)]


class NewOrder(BaseModel):
    item: str


@web.post("/shops/{shop}/orders", status_code=201)
async def place_order(
    shop: str, new: NewOrder, session: Annotated[AsyncSession, Depends(session)]
) -> dict[str, object]:
    async with session.begin():
        order = Order(shop=shop, item=new.item)
        session.add(order)
        await session.flush()
        job = await app.tenant(shop).within(session).aenqueue(send_receipt, order=order.id)
        return {"order": order.id, "job": job.id}


@web.get("/shops/{shop}/jobs/{job}")
async def read_job(shop: str, job: str) -> dict[str, object]:
    record = await app.tenant(shop).aget(job)
    return {"status": record.status, "result": record.result}
