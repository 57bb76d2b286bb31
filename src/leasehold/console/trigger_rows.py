"""Triggers and their decisions as the pages show them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from leasehold.api import shown
from leasehold.console.pages import Area, Visit
from leasehold.errors import InvalidInput
from leasehold.model.decision import Decision
from leasehold.model.schedule import Every
from leasehold.model.trigger import Origin, Trigger, TriggerKind
from leasehold.model.zone import zone
from leasehold.operations.triggers import described_owner, in_words

OVERDUE = timedelta(minutes=1)
ZONE = "leasehold-zone"


@dataclass(frozen=True, slots=True)
class TriggerRow:
    """A trigger of a list, or of its page. `document` has what its reader may see."""

    trigger: Trigger
    href: str
    document: Mapping[str, Any]
    last: Decision | None
    now: datetime

    @property
    def state(self) -> str:
        if not self.trigger.rule.enabled:
            return "disabled"
        return "paused" if self.trigger.paused_at(self.now) else "on"

    @property
    def owner(self) -> str:
        return described_owner(self.trigger.tenant)

    @property
    def is_of_code(self) -> bool:
        return self.trigger.origin is Origin.CODE

    @property
    def is_schedule(self) -> bool:
        return self.trigger.rule.kind is TriggerKind.SCHEDULE

    @property
    def when(self) -> str:
        """The schedule in words, or the event."""
        if why := self.trigger.unreadable.get("schedule"):
            return f"can't be read: {why}"
        rule = self.trigger.rule
        return f"on {rule.event}" if rule.schedule is None else in_words(rule.schedule)

    @property
    def rule_text(self) -> str:
        """The cron as it was written, or the filter of an event in short."""
        rule = self.trigger.rule
        if rule.schedule is None:
            count = len(self.document["filter"] or {})
            return "" if not count else f"{count} condition{'' if count == 1 else 's'}"
        return "" if isinstance(rule.schedule, Every) else rule.schedule.text

    @property
    def is_overdue(self) -> bool:
        due = self.trigger.next_at
        return self.state == "on" and due is not None and self.now - due > OVERDUE

    @property
    def next_local(self) -> str:
        """When it fires next, in the zone of its schedule."""
        due, schedule = self.trigger.next_at, self.trigger.rule.schedule
        if due is None or schedule is None or isinstance(schedule, Every):
            return ""
        return f"{due.astimezone(zone(schedule.zone)):%a %d %b %Y %H:%M %Z}"


def row_of(visit: Visit, trigger: Trigger, now: datetime, last: Decision | None = None) -> TriggerRow:
    return TriggerRow(trigger, href_of(visit.area, trigger), shown.trigger(visit.context, trigger), last, now)


def href_of(area: Area, trigger: Trigger) -> str:
    return f"{area.base}/triggers/{trigger.id}"


def viewer_zone(visit: Visit) -> str:
    """Returns the zone that the browser has told by a cookie; UTC if it has not, or if nobody knows the zone."""
    named = visit.request.cookies.get(ZONE, "UTC").replace("%2F", "/")
    try:
        zone(named)
    except InvalidInput:
        return "UTC"
    return named
