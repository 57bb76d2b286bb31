"""One part of a Python system, as a process: `python -m bench.part SYSTEM PART URL [TAPE] [HOW]`.

install   makes its tables and ends
work      runs jobs until SIGTERM, noting each start on TAPE
produce   says {"ready": true}, then does what it hears, one JSON object per line, until its stdin ends:
          {"do": "one", "count": 2000}                  enqueues them one by one
          {"do": "many", "count": 20000, "call": 1000}  enqueues them by calls of a thousand
          and answers with the seconds it took, its processor time, the moments when the last commit was sent and of
          the end, and its memory's peak; "at_once": 8 makes so many calls at a time

HOW is a JSON object with whatever a measure wants to be different.
"""

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic_ns, perf_counter, process_time
from typing import Any

from bench.job import batches
from bench.systems import Producer, parts


async def produce(producer: Producer, say: Callable[[dict[str, Any]], None]) -> None:
    loop = asyncio.get_running_loop()
    say({"ready": True})
    number = 0
    while heard := await loop.run_in_executor(None, sys.stdin.readline):
        asked = json.loads(heard)
        numbers = range(number, number + asked["count"])
        number = numbers.stop
        began, cpu = perf_counter(), process_time()
        committing: int | None = None
        if asked["do"] == "one":
            at_once = asked.get("at_once", 1)
            *_, committing = await asyncio.gather(
                *(one_by_one(producer, numbers[first::at_once], asked) for first in range(at_once))
            )
        else:
            for batch in batches(numbers, asked["call"]):
                await producer.many(batch, asked)
        say(
            {
                "seconds": perf_counter() - began,
                "cpu": process_time() - cpu,
                "committing": committing,
                "returned": monotonic_ns(),
                "peak_mb": peak_memory(),
            }
        )


async def one_by_one(producer: Producer, numbers: range, asked: dict[str, Any]) -> int | None:
    committing: int | None = None
    for number in numbers:
        called = monotonic_ns()
        committing = await producer.one(number, asked) or called
    return committing


def peak_memory() -> float:
    """In MB; 0 where it can't be told."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")), 0.0)


def say(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


async def open_and_produce(name: str, url: str, how: dict[str, Any]) -> None:
    async with parts(name).producer(url, how) as producer:
        await produce(producer, say)


def main() -> None:
    name, part, url, *more = sys.argv[1:]
    if part == "install":
        asyncio.run(parts(name).install(url))
    elif part == "work":
        from bench.tape import Tape

        parts(name).work(url, Tape(more[0]), json.loads(more[1]))
    else:
        asyncio.run(open_and_produce(name, url, json.loads(more[0])))


if __name__ == "__main__":
    main()
