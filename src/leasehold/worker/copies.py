"""Ends the copy of a worker that os.fork() in a handler makes."""

import os
from collections.abc import Generator
from contextlib import suppress
from types import coroutine
from typing import Any, NoReturn


class _Process:
    """Counts the forks between the first process and this one."""

    generation = 0


def _count_fork() -> None:
    _Process.generation += 1


os.register_at_fork(after_in_child=_count_fork)


def generation() -> int:
    """Returns a number that differs between a process and the copies that os.fork() makes of it."""
    return _Process.generation


def end_a_copy(born: int, error: BaseException | None = None) -> None:
    """Ends this process if it is a copy of the one where `born` was the generation.

    The copy shares the worker's connections and its loop's files: if it went on, it would finish the job a second
    time, on a connection that the worker is using. A handler's own child that ends by os._exit or exec never gets
    here, and a child of multiprocessing does not either.
    """
    if born != _Process.generation:
        _end(error)


def _end(error: BaseException | None) -> NoReturn:
    code = 1
    if isinstance(error, SystemExit) and (error.code is None or isinstance(error.code, int)):
        code = error.code or 0
    else:
        with suppress(OSError):
            os.write(
                2,
                b"leasehold: a process that a handler made by os.fork() has returned from the handler; it ends here. "
                b"The job goes on in the worker. End such a process by os._exit().\n",
            )
    os._exit(code)


@coroutine
def contain(steps: Any, awaited: Any, born: int) -> Generator[Any, Any, Any]:
    """Awaits the rest of a handler whose first step waits for `awaited`.

    A copy of this process ends as soon as the handler returns or waits.
    """
    step: Any
    while True:
        end_a_copy(born)
        try:
            value, step = (yield awaited), steps.send
        except GeneratorExit:
            steps.close()
            raise
        except BaseException as error:
            value, step = error, steps.throw
        try:
            awaited = (
                None  # or there is a cycle: a future, its error, the error's frames, and the future in this frame
            )
            awaited = step(value)
        except StopIteration as returned:
            end_a_copy(born)
            return returned.value
        except BaseException as error:
            end_a_copy(born, error)
            raise
        finally:
            value = None  # or there is a cycle: an exception, its frames, and the exception in this frame
