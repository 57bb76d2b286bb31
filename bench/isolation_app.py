"""An app whose jobs do nothing: on the loop, in a thread, and in a process that imports this module."""

from leasehold import Job, Leasehold

app = Leasehold()


@app.job
async def coroutine(job: Job, number: int) -> None: ...


@app.job
def thread(job: Job, number: int) -> None: ...


@app.job(isolation="process")
def process(job: Job, number: int) -> None: ...
