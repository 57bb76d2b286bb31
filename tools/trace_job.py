"""Lists the functions of Leasehold that one job passes through, from its enqueue to its finish.

    python tools/trace_job.py
    PYTHONPATH=../old-checkout/src python tools/trace_job.py

Runs an app with a worker in its process, on an embedded Postgres in a temporary folder. A first job warms everything
up. Then the script records every function that is called on the event loop between the second enqueue and the moment
at which the job's row is finished. Methods of Python's own protocols (`__enter__`), properties and lambdas are left
out, and so are functions that also run while the worker is idle.

The spine, marked by *, are the functions that hand the job on: those on the stack when a statement is sent, a task is
created, an event is set, or the handler is called. The others are helpers, which return a value to the spine.
"""

import asyncio
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

import psycopg

import leasehold
from leasehold import Job, Leasehold

FOLDER = str(leasehold.__file__).removesuffix("__init__.py")
IDLE = 3.0
HANDOVERS = {"Connection._execute", "PreparedStatement.fetch", "BaseEventLoop.create_task", "Event.set", "greet"}
FINISHED = "select 1 from leasehold.jobs_done where id = %s"

app = Leasehold(tenant="acme", home=tempfile.mkdtemp(prefix="leasehold-trace-"))


@app.job
async def greet(job: Job, name: str) -> str:
    return name


class Trace:
    """Functions in the order of their first call."""

    def __init__(self) -> None:
        self.called: dict[CodeType, None] = {}
        self.spine: set[CodeType] = set()
        self.is_over = False

    @contextmanager
    def recorded(self) -> Iterator[None]:
        sys.setprofile(self._record)
        try:
            yield
        finally:
            sys.setprofile(None)

    def _record(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or self.is_over:
            return
        code = frame.f_code
        if _is_ours(code):
            self.called.setdefault(code)
        elif code.co_qualname in HANDOVERS:
            self.spine.update(each for each in _stack(frame) if _is_ours(each))


def _stack(frame: FrameType | None) -> Iterator[CodeType]:
    while frame is not None:
        yield frame.f_code
        frame = frame.f_back


def _is_ours(code: CodeType) -> bool:
    return code.co_filename.startswith(FOLDER) and _is_named(code)


def _is_named(code: CodeType) -> bool:
    name = code.co_name
    return "<" not in name and not (name.startswith("__") and name.endswith("__")) and not _is_property(code)


def _is_property(code: CodeType) -> bool:
    owner: Any = sys.modules.get(_module(code))
    for part in code.co_qualname.split("."):
        owner = vars(owner).get(part) if hasattr(owner, "__dict__") else None
    return isinstance(owner, property)


def _module(code: CodeType) -> str:
    return "leasehold." + code.co_filename.removeprefix(FOLDER).removesuffix(".py").replace("/", ".")


def watch_finish(url: str, job: str, trace: Trace) -> None:
    """Ends the trace when the job's row is finished; called in another thread, which is not traced."""
    with psycopg.connect(url, autocommit=True) as connection:
        while not connection.execute(FINISHED, (job,)).fetchone():
            time.sleep(0.001)
    trace.is_over = True


async def main() -> None:
    idle, busy = Trace(), Trace()
    async with app.open(worker=True):
        with app.database() as url:
            await (await app.aenqueue(greet, "Ada")).aresult(timeout="30s")
            await asyncio.sleep(IDLE)
            with idle.recorded():
                await asyncio.sleep(IDLE)
            with busy.recorded():
                placed = await app.aenqueue(greet, "Ada")
                await asyncio.to_thread(watch_finish, url, str(placed.id), busy)
    path = [code for code in busy.called if code not in idle.called]
    for code in path:
        mark = "*" if code in busy.spine else " "
        sys.stdout.write(f"{mark} {code.co_filename.removeprefix(FOLDER):45} {code.co_qualname}\n")
    sys.stdout.write(f"all: {_counted(path)}\nspine: {_counted([code for code in path if code in busy.spine])}\n")


def _counted(path: list[CodeType]) -> str:
    classes = Counter(code.co_qualname.rpartition(".")[0] for code in path if "." in code.co_qualname)
    most = ", ".join(f"{name} {count}" for name, count in classes.most_common(3))
    return f"{len(path)} functions in {len({code.co_filename for code in path})} files; most of one class: {most}"


if __name__ == "__main__":
    asyncio.run(main())
