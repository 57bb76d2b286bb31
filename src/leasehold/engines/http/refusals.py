"""Errors for calls that a worker over HTTP can't make."""

from typing import Any, NoReturn

from leasehold.errors import InvalidInput


def needs_database(call: str) -> InvalidInput:
    return InvalidInput(
        f"{call} needs the database, and this process reaches it over HTTP with a worker token. Nothing was done.",
        fix="Do it where the database can be reached, by LEASEHOLD_URL, or with another token over the HTTP API.",
    )


def no_caller_transaction() -> InvalidInput:
    return InvalidInput(
        "over HTTP no job can be enqueued or finished within a transaction. Nothing was begun.",
        fix="Make the handler repeatable instead: job.idempotency_key is the same for every attempt.",
    )


class Refused:
    """Stands for a part of the store that a worker over HTTP does not have: whatever is called of it raises."""

    def __init__(self, call: str) -> None:
        self._call = call

    def __getattr__(self, name: str) -> "Refused":
        if name.startswith("__"):
            raise AttributeError(name)
        return Refused(f"{self._call}.{name}")

    def __call__(self, *arguments: Any, **options: Any) -> NoReturn:
        raise needs_database(self._call)
