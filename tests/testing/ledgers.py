"""An app that keeps its books in the database of its jobs."""

from leasehold import Job, Leasehold, Steps

app = Leasehold()


@app.job(backoff=Steps(60))
async def enter(job: Job, amount: int) -> None:
    async with job.transaction() as connection:
        await connection.execute("insert into entries values ($1)", amount)
        await last_thought()


async def last_thought() -> None:
    """Within the transaction."""
