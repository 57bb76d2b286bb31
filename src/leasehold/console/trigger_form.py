"""The form of a trigger: its fields as texts, the rule that they make, and a problem for each that can't be used."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from leasehold.api.strict_json import read_json
from leasehold.console.rendering import pretty, written
from leasehold.errors import InvalidInput, LeaseholdError, PayloadInvalid, UnknownDefinition
from leasehold.model.cron import Cron
from leasehold.model.definition import Registered
from leasehold.model.duration import read_duration, seconds_of
from leasehold.model.event import event_pattern, read_filter
from leasehold.model.schedule import Every, Schedule, fire_before
from leasehold.model.template import EVENT_ROOTS, SCHEDULE_ROOTS, TemplateProblem, parse_template, values_of_fire
from leasehold.model.trigger import MAX_LABEL, NewTrigger
from leasehold.model.trigger_document import rule_from_document
from leasehold.model.zone import zone
from leasehold.operations.catalog import Catalog
from leasehold.operations.triggers import in_words

T = TypeVar("T")
DEPTH = 50
BLANK = {
    "kind": "schedule",
    "label": "",
    "definition": "",
    "style": "cron",
    "cron": "",
    "zone": "UTC",
    "every": "",
    "event": "",
    "filter": "{}",
    "payload": "{}",
    "catch_up": "latest",
    "catch_up_cap": "100",
    "dedupe_window": "5m",
    "trailing": "",
    "enabled": "on",
}
TITLES = {
    "label": "Label",
    "definition": "Definition",
    "cron": "Cron",
    "zone": "Zone",
    "every": "Interval",
    "event": "Event",
    "filter": "Filter",
    "payload": "Payload",
    "catch_up_cap": "At most",
    "dedupe_window": "Dedupe window",
}


@dataclass
class TriggerForm:
    """The texts of the fields, and the problems of some of them."""

    texts: Mapping[str, str]
    problems: dict[str, str] = field(default_factory=dict)

    @property
    def is_schedule(self) -> bool:
        return self.texts["kind"] != "event"

    @property
    def is_cron(self) -> bool:
        return self.texts["style"] != "every"

    def read(self, name: str, reader: Callable[[str], T]) -> T | None:
        """Reads a field. One that can't be read gets its problem."""
        try:
            return reader(self.texts[name].strip())
        except LeaseholdError as error:
            self.problems.setdefault(name, _short(error))
            return None

    def schedule(self) -> Schedule | None:
        """Returns the schedule of the form; None if a field of it has a problem."""
        if not self.is_cron:
            return self.read("every", lambda text: Every(read_duration(text)))
        known, cron = self.read("zone", lambda text: zone(text).key), self.read("cron", Cron)
        return None if known is None or cron is None else Cron(cron.text, known)


def form_of(sent: Mapping[str, str], kind: str | None = None) -> TriggerForm:
    """Returns the form as it was sent. A box that is not ticked is not sent."""
    texts = {name: sent.get(name, default) for name, default in BLANK.items()}
    boxes = {name: sent.get(name, "") for name in ("trailing", "enabled")}
    return TriggerForm(texts | boxes | ({"kind": kind} if kind else {}))


def form_of_rule(rule: NewTrigger, payload: Any, only_if: Any) -> TriggerForm:
    """Returns the form of a stored rule. The payload and the filter are as their reader may see them."""
    schedule = rule.schedule
    texts = {
        "kind": rule.kind.value,
        "label": rule.label,
        "definition": rule.definition,
        "payload": pretty(payload),
        "catch_up": rule.catch_up.value,
        "catch_up_cap": str(rule.catch_up_cap),
        "trailing": "on" if rule.trailing else "",
        "enabled": "on" if rule.enabled else "",
        "dedupe_window": written(rule.window),
    }
    if isinstance(schedule, Cron):
        texts |= {"style": "cron", "cron": schedule.text, "zone": schedule.zone}
    elif isinstance(schedule, Every):
        texts |= {"style": "every", "every": written(schedule.interval)}
    else:
        texts |= {"event": rule.event or "", "filter": pretty(only_if)}
    return TriggerForm(BLANK | texts)


@dataclass(frozen=True, slots=True)
class FormCheck:
    """A form that was read. `document` is None if a field has a problem."""

    document: dict[str, Any] | None
    schedule: Schedule | None
    words: str
    payload: Any


async def check_form(form: TriggerForm, catalog: Catalog) -> FormCheck:
    """Reads a form, and checks each field by itself, so that a problem is bound to its field."""
    texts = form.texts
    schedule = form.schedule() if form.is_schedule else None
    payload = form.read("payload", _object)
    only_if = None if form.is_schedule else form.read("filter", _object)
    document: dict[str, Any] = {
        "label": form.read("label", _label),
        "definition": texts["definition"],
        "payload_template": payload,
        "enabled": bool(texts["enabled"]),
    }
    if payload is not None:
        roots = SCHEDULE_ROOTS if form.is_schedule else EVENT_ROOTS
        form.read("payload", lambda _: parse_template(payload, roots))
    if form.is_schedule:
        document |= _schedule_fields(form, schedule)
    else:
        document |= {
            "event": form.read("event", event_pattern),
            "filter": only_if,
            "trailing": bool(texts["trailing"]),
        }
        document["dedupe_window"] = form.read("dedupe_window", _seconds)
        if only_if is not None:
            form.read("filter", lambda _: read_filter(only_if))
    known = await _definition(form, catalog)
    rule = None if form.problems else _rule(form, document)
    if rule is not None and known is not None and "payload" not in form.problems:
        form.read("payload", lambda _: rule.check_fits(known.definition))
    words = in_words(schedule) if schedule is not None else ""
    return FormCheck(None if form.problems else document, schedule, words, payload)


def _schedule_fields(form: TriggerForm, schedule: Schedule | None) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "catch_up": form.texts["catch_up"],
        "catch_up_cap": form.read("catch_up_cap", _integer),
    }
    if isinstance(schedule, Cron):
        fields |= {"cron": schedule.text, "zone": schedule.zone}
    elif schedule is not None:
        fields |= {"every": seconds_of(schedule.interval)}
    return fields


def _rule(form: TriggerForm, document: Mapping[str, Any]) -> NewTrigger | None:
    """Returns the rule. A problem that no single field explains is one of the whole form."""
    try:
        return rule_from_document({name: value for name, value in document.items() if value is not None})
    except InvalidInput as error:
        form.problems[""] = _short(error)
        return None


async def _definition(form: TriggerForm, catalog: Catalog) -> Registered | None:
    key = form.texts["definition"]
    try:
        if not key:
            raise UnknownDefinition("a trigger enqueues jobs of a definition.", fix="Choose one. Nothing was saved.")
        return await catalog.read_registered(key)
    except UnknownDefinition as error:
        form.problems["definition"] = _short(error)
        return None


@dataclass(frozen=True, slots=True)
class PayloadPreview:
    """The payload of the first run. `problem` says why it is not valid."""

    payload: Any
    problem: str


async def render_first(
    form: TriggerForm, checked: FormCheck, first: Any, tenant: str, catalog: Catalog
) -> PayloadPreview | None:
    """Renders the template of a schedule for its first run; None if the form has no valid template."""
    if checked.schedule is None or checked.payload is None or "definition" in form.problems or first is None:
        return None
    try:
        template = parse_template(checked.payload, SCHEDULE_ROOTS)
    except InvalidInput:
        return None
    payload = template.render(values_of_fire(first, fire_before(checked.schedule, first), tenant))
    if isinstance(payload, TemplateProblem):
        return PayloadPreview(None, payload.why)
    try:
        (await catalog.read_registered(form.texts["definition"])).definition.check(payload)
    except PayloadInvalid as error:
        return PayloadPreview(payload, error.happened)
    return PayloadPreview(payload, "")


def _object(text: str) -> dict[str, Any]:
    found = read_json((text or "{}").encode(), DEPTH)
    if not isinstance(found, dict):
        raise InvalidInput("it is not an object.", fix='Write {"name": "value"}. Nothing was saved.')
    return found


def _label(text: str) -> str:
    if not 1 <= len(text) <= MAX_LABEL:
        raise InvalidInput(
            f"a label has 1 to {MAX_LABEL} characters.", fix="Write one, for people. Nothing was saved."
        )
    return text


def _integer(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise InvalidInput(f"{text!r:.40} is not a whole number.", fix="Write one, like 100. Nothing was saved.")
    return int(text)


def _seconds(text: str) -> Any:
    return seconds_of(read_duration(text or "0s"))


def _short(error: LeaseholdError) -> str:
    """Returns the problem and its fix. The form says once that nothing was changed."""
    fix = error.fix.removeprefix("Nothing was changed. ").removeprefix("Nothing was done. ")
    happened = error.happened.removesuffix(" Nothing was done.").removesuffix(" Nothing was enqueued.")
    return f"{happened} {fix}"
