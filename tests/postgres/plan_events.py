"""Values of events for the plan tests."""

from typing import Any
from uuid import UUID

import orjson
from tests.postgres.plan_database import BIG, DEEP, event_trigger_uuid


def emit(name: str) -> dict[str, Any]:
    return {"tenant": BIG, "id": UUID(int=7), "name": name, "data": "{}", "correlation_id": None, "created_by": None}


def decided(event: UUID, name: str | None) -> dict[str, Any]:
    """An event with the decisions of twenty triggers, half of whose keys are held."""
    keys = [f"held:{number}" if number % 2 else f"new:{number}" for number in range(1, 21)]
    decisions = [
        {
            "trigger": str(event_trigger_uuid(number)),
            "kind": "fired",
            "trailing": True,
            "job": {
                "definition": DEEP,
                "payload": {},
                "source": "event",
                "dedupe": "window",
                "dedupe_key": key,
                "dedupe_for": "300 seconds",
            },
        }
        for number, key in enumerate(keys, 1)
    ]
    return {
        **emit("a.b"),
        "id": event,
        "name": name,
        "emitted_at": "2027-01-01T00:00:00Z",
        "decisions": orjson.dumps(decisions).decode(),
        "wakes": True,
    }
