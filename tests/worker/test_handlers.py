"""Handlers by their definition: one for each key, and each can be replaced."""

from typing import Any

import pytest
from tests.worker.shop import Payload, only

from leasehold.errors import InvalidInput
from leasehold.model.definition import Definition
from leasehold.worker import Handlers, Job
from leasehold.worker.handlers import Handler

# Registering


def test_a_second_handler_for_a_key_is_refused() -> None:
    async def report(job: Job, payload: Payload) -> None: ...

    handlers = only(report)
    with pytest.raises(InvalidInput, match="has a handler already"):
        handlers.add(Definition("report"))(report)


def test_a_handler_can_be_replaced_and_put_back() -> None:
    handlers, definition = Handlers(), Definition("report")

    @handlers.add(definition)
    async def report(job: Job, payload: Any) -> None: ...

    async def other(job: Job, payload: Any) -> None: ...

    replaced = handlers.replace(Handler(definition, other))
    assert (replaced.call, handlers["report"].call) == (report, other)
    handlers.replace(replaced)
    assert handlers["report"].call is report
