"""The triggers that match an event, as SQL returns them: one JSON text, the same on every driver."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import orjson

from leasehold.engines.postgres.definition_versions import DefinitionVersions, Version
from leasehold.engines.postgres.trigger_rows import FOR_ALL
from leasehold.errors import InvalidInput
from leasehold.model.event import NO_FILTER, read_filter
from leasehold.model.event_plan import Candidate
from leasehold.model.job import TenantId
from leasehold.model.limits import Pause
from leasehold.model.trigger import ALL, NewTrigger, Origin, Trigger, TriggerId

# A template takes longer to parse than to render: this many parsed triggers are kept.
MOST = 10_000


@dataclass(frozen=True, slots=True)
class FoundTrigger:
    """A trigger that matches, or why it can't be read, and the current version of its definition."""

    id: TriggerId
    trigger: Trigger | str
    version: Version
    active: bool


class EventTriggers:
    """Reads triggers, each version once, and knows their definitions. One for each open store."""

    def __init__(self) -> None:
        self.definitions = DefinitionVersions()
        self._parsed: dict[tuple[str, int, str], Trigger | str] = {}

    def read(self, text: str | None) -> Sequence[FoundTrigger]:
        """Returns the triggers, the oldest first."""
        found = [self._found(each) for each in orjson.loads(text)] if text else []
        return sorted(found, key=lambda each: each.id)

    def candidates(self, found: Sequence[FoundTrigger]) -> list[Candidate]:
        return [
            Candidate(each.id, each.trigger, self.definitions.get(*each.version, active=each.active))
            for each in found
        ]

    def _found(self, document: Mapping[str, Any]) -> FoundTrigger:
        key = document["id"], document["version"], document["updated_at"]
        trigger = self._parsed.get(key)
        if trigger is None:
            if len(self._parsed) >= MOST:
                self._parsed.clear()
            trigger = self._parsed[key] = _read(document)
        if document["paused"] and isinstance(trigger, Trigger):
            trigger = replace(trigger, pause=Pause(document["pause_reason"], _moment(document["paused_until"])))
        version = document["definition"], document["definition_version"]
        return FoundTrigger(TriggerId(document["id"]), trigger, version, document["definition_active"])


def _read(document: Mapping[str, Any]) -> Trigger | str:
    """Returns the trigger without its pause; or why this release can't read it."""
    try:
        return _trigger(document)
    except InvalidInput as error:
        return error.happened


def _trigger(document: Mapping[str, Any]) -> Trigger:
    window = document["window"]
    return Trigger(
        id=TriggerId(document["id"]),
        tenant=ALL if document["tenant_id"] == FOR_ALL else TenantId(document["tenant_id"]),
        rule=NewTrigger(
            label=document["label"],
            definition=document["definition"],
            event=document["event_name"],
            filter=read_filter(document["event_filter"]) if document["event_filter"] else NO_FILTER,
            payload=document["payload_template"],
            dedupe_window=timedelta() if window is None else timedelta(seconds=window),
            trailing=document["trailing"],
        ),
        origin=Origin(document["origin"]),
        version=document["version"],
        created_by=document["created_by"],
        created_at=datetime.fromisoformat(document["created_at"]),
        updated_at=datetime.fromisoformat(document["updated_at"]),
    )


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
