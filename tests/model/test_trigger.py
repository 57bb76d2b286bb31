"""Triggers: which rules are accepted, how they are stored, and what they decide."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from leasehold.errors import InvalidInput
from leasehold.model.cron import Cron
from leasehold.model.decision import (
    Decision,
    DecisionKind,
    Match,
    NoMatch,
    Problem,
    Reason,
    Skip,
    decision_from_row,
    decision_missed,
    decision_without_job,
    evaluate,
    evaluate_fire,
)
from leasehold.model.dedupe import Dedupe, Within
from leasehold.model.definition import Definition, Registered
from leasehold.model.event import Event, EventId, read_filter
from leasehold.model.job import JobId, TenantId
from leasehold.model.limits import Pause
from leasehold.model.redaction import Redactor
from leasehold.model.schedule import CatchUp, every
from leasehold.model.trigger import (
    ALL,
    NewTrigger,
    Origin,
    Trigger,
    TriggerId,
    TriggerKind,
    declared_id,
    dedupe_key,
    trigger_id,
)
from leasehold.model.trigger_document import rule_as_document, rule_from_document

AT = datetime(2027, 3, 14, 7, tzinfo=UTC)
HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)
ACME = TenantId("acme")
ID = TriggerId("0b5c3f0e-0000-4000-8000-000000000000")
EVENT = EventId("018f3c4e-0000-7000-8000-000000000000")
JOB = JobId("018f3c4e-0000-7000-8000-000000000001")
SYNC = Definition(
    "sync-dropbox",
    schema={
        "type": "object",
        "properties": {"provider_id": {"type": "string"}, "path_prefix": {"type": "string"}},
        "required": ["provider_id"],
        "additionalProperties": False,
    },
)
REGISTERED = Registered(SYNC, version=1, active=True)
RESYNC = NewTrigger(
    label="Resync on folder change",
    event="provider.folder.updated",
    definition="sync-dropbox",
    payload={"provider_id": "{{event.provider_id}}", "path_prefix": "{{event.folder_path}}"},
)
NIGHTLY = NewTrigger(
    label="Nightly provider sync",
    schedule=Cron("0 2 * * *", "America/New_York"),
    definition="sync-dropbox",
    payload={"provider_id": "all", "path_prefix": "/"},
)
# As people write them, in the other spelling of the fields.
RESYNC_DOCUMENT = {
    "label": "Resync on folder change",
    "trigger_type": "event",
    "event_name": "provider.folder.updated",
    "definition_key": "sync-dropbox",
    "payload_template": {"provider_id": "{{event.provider_id}}", "path_prefix": "{{event.folder_path}}"},
    "dedupe_window_seconds": 120,
}
NIGHTLY_DOCUMENT = {
    "label": "Nightly provider sync",
    "trigger_type": "schedule",
    "cron_expr": "0 2 * * *",
    "timezone": "America/New_York",
    "definition_key": "sync-dropbox",
    "payload_template": {"path_prefix": "/"},
}


def stored(rule: NewTrigger = RESYNC, **fields: Any) -> Trigger:
    kept = {
        "id": ID,
        "tenant": ACME,
        "origin": Origin.DATA,
        "version": 1,
        "created_by": "ann",
        "created_at": AT,
        "updated_at": AT,
    }
    return Trigger(rule=rule, **{**kept, **fields})


def event(data: dict[str, Any] | None = None, **fields: Any) -> Event:
    default = {"provider_id": "p_9", "folder_path": "/a"}
    made = Event(EVENT, ACME, "provider.folder.updated", default if data is None else data, AT)
    return replace(made, **fields)


def test_an_event_trigger_dedupes_for_300_seconds() -> None:
    assert (RESYNC.kind, RESYNC.window) == (TriggerKind.EVENT, timedelta(seconds=300))


def test_a_schedule_trigger_does_not_dedupe() -> None:
    assert (NIGHTLY.kind, NIGHTLY.window, NIGHTLY.catch_up) == (TriggerKind.SCHEDULE, timedelta(), CatchUp.LATEST)


@pytest.mark.parametrize("window", ["2m", 120, timedelta(minutes=2)], ids=str)
def test_a_window_is_a_duration(window: Any) -> None:
    assert replace(RESYNC, dedupe_window=window).window == timedelta(minutes=2)


@pytest.mark.parametrize(
    ("rule", "fields", "why"),
    [
        (RESYNC, {"label": ""}, "label is empty"),
        (RESYNC, {"label": "x" * 201}, "201 characters"),
        (RESYNC, {"label": "a\u200bb"}, "can't be seen"),
        (RESYNC, {"label": None}, "is not text"),
        (RESYNC, {"definition": ""}, "definition is empty"),
        (RESYNC, {"event": None}, "neither an event nor a schedule"),
        (RESYNC, {"schedule": every("1h")}, "both an event and a schedule"),
        (RESYNC, {"event": "a..b"}, "The event pattern 'a..b' can't be used"),
        (RESYNC, {"enabled": "yes"}, "neither true nor false"),
        (RESYNC, {"spread": "5m"}, "spread=0:05:00 is for schedules"),
        (RESYNC, {"dedupe_window": "1.5s"}, "not whole seconds"),
        (RESYNC, {"dedupe_window": -1}, "not between zero and 3650 days"),
        (RESYNC, {"dedupe_window": "0s", "trailing": True}, "trailing needs"),
        (RESYNC, {"filter": {"size": {"above": 1}}}, "is not a comparison"),
        (RESYNC, {"payload": {"x": "{{schedule.fire_at}}"}}, "is not one of event"),
        (NIGHTLY, {"schedule": "0 2 * * *"}, "neither a Cron nor every"),
        (NIGHTLY, {"catch_up": "some"}, "is none of skip, latest, all"),
        (NIGHTLY, {"catch_up": []}, "is none of skip, latest, all"),
        (NIGHTLY, {"label": 10**5000}, "is not text|a value of type int"),
        (NIGHTLY, {"catch_up_cap": 0}, "not between 1 and 1000"),
        (NIGHTLY, {"catch_up_cap": 1001}, "not between 1 and 1000"),
        (NIGHTLY, {"spread": "25h"}, "not between zero and 1 days"),
        (NIGHTLY, {"spread": "1.5s"}, "in whole seconds"),
        (NIGHTLY, {"dedupe_window": "5m"}, "a schedule fires each fire time once"),
        (NIGHTLY, {"trailing": True}, "trailing needs an event"),
        (NIGHTLY, {"filter": {"size": 1}}, "filter is for events"),
        (NIGHTLY, {"payload": {"x": "{{event.size}}"}}, "is not one of schedule, tenant"),
    ],
)
def test_a_rule_that_cannot_be_used_is_refused(rule: NewTrigger, fields: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidInput, match=rf"{why}.*Nothing was changed"):
        replace(rule, **fields)


def test_a_spread_needs_all_tenants() -> None:
    spread = replace(NIGHTLY, spread=HOUR)

    spread.check_tenant(ALL)
    NIGHTLY.check_tenant(ACME)
    with pytest.raises(InvalidInput, match="use tenant=ALL"):
        spread.check_tenant(ACME)


def test_a_template_that_can_never_validate_is_refused() -> None:
    RESYNC.check_fits(SYNC)
    with pytest.raises(InvalidInput, match='"provider_id" is a required property'):
        rule_from_document(NIGHTLY_DOCUMENT).check_fits(SYNC)


def test_documents_accept_the_other_spellings() -> None:
    assert rule_from_document(RESYNC_DOCUMENT) == replace(RESYNC, dedupe_window=120 * SECOND)
    assert rule_from_document(NIGHTLY_DOCUMENT) == replace(NIGHTLY, payload={"path_prefix": "/"})


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ([], "is not a mapping"),
        ({}, "label and definition are missing"),
        ({**RESYNC_DOCUMENT, "evnt": 1}, "'evnt' is not a field; did you mean event"),
        ({**RESYNC_DOCUMENT, "event": "a.b"}, "event is given twice"),
        ({**RESYNC_DOCUMENT, "trigger_type": "schedule"}, "its kind 'schedule' is not that of its fields, event"),
        ({**NIGHTLY_DOCUMENT, "timezone": None}, "a cron needs a zone"),
        ({**NIGHTLY_DOCUMENT, "every": "5m"}, "both cron and every"),
        ({**NIGHTLY_DOCUMENT, "anchor": "2027-01-01"}, "anchor is for every"),
        ({"label": "x", "definition": "y", "every": "5m", "zone": "UTC"}, "zone is for cron"),
        ({"label": "x", "definition": "y", "every": "5m", "anchor": "soon"}, "is not a moment"),
        ({"label": "x", "definition": "y", "every": "5m", "anchor": "2027-01-01"}, "has no timezone"),
    ],
)
def test_a_document_is_refused_with_the_field(document: Any, why: str) -> None:
    with pytest.raises(InvalidInput, match=rf"{why}.*Nothing was changed"):
        rule_from_document(document)


FILTERED = replace(
    RESYNC,
    event="provider.*",
    filter=read_filter({"size": {"gt": 5}}),
    trailing=True,
    enabled=False,
    dedupe_window=7 * SECOND,
)
SPREAD = replace(NIGHTLY, schedule=every("90s", AT), spread=HOUR, catch_up=CatchUp.ALL, catch_up_cap=3)


@pytest.mark.parametrize("rule", [RESYNC, NIGHTLY, FILTERED, SPREAD], ids=lambda rule: rule.label)
def test_a_rule_survives_a_document(rule: NewTrigger) -> None:
    assert rule_from_document(rule_as_document(rule)) == rule


def test_a_trigger_id_is_a_uuid() -> None:
    assert trigger_id(ID.upper()) == ID
    with pytest.raises(InvalidInput, match="is not a trigger id"):
        trigger_id("7")


def test_code_gives_a_trigger_the_same_id_everywhere() -> None:
    tenants = (ACME, TenantId("all"), ALL)
    ids = [declared_id(tenant, key, "Nightly") for key in ("report", "sync") for tenant in tenants]

    assert len(set(ids)) == 6
    assert ids[0] == "ef5c737c-74c3-5878-afbe-b3f5f3562bc0"


def test_a_matching_event_gives_payload_and_dedupe() -> None:
    payload = {"provider_id": "p_9", "path_prefix": "/a"}

    assert evaluate(stored(), event(), REGISTERED) == Match(
        payload, Dedupe(dedupe_key(ID, payload), Within(timedelta(seconds=300)))
    )


def test_a_window_of_zero_turns_dedupe_off() -> None:
    found = evaluate(stored(replace(RESYNC, dedupe_window=0 * SECOND)), event(), REGISTERED)

    assert isinstance(found, Match)
    assert found.dedupe is None


@pytest.mark.parametrize(
    ("trigger", "emitted", "expected"),
    [
        (
            stored(tenant=TenantId("other")),
            event(),
            NoMatch(Reason.TENANT, "the trigger is of tenant other, the event of acme"),
        ),
        (stored(), event(name="list.created"), NoMatch(Reason.NAME, "list.created is not provider.folder.updated")),
        (stored(NIGHTLY), event(), NoMatch(Reason.NAME, "the trigger has a schedule")),
        (stored(replace(FILTERED, enabled=True)), event({"size": 5}), NoMatch(Reason.FILTER, "size > 5 → size is 5")),
        (stored(deleted_at=AT), event(), Skip(Reason.DELETED, "deleted at 2027-03-14T07:00:00Z")),
        (stored(replace(RESYNC, enabled=False)), event(), Skip(Reason.DISABLED, "the trigger is disabled")),
        (
            stored(pause=Pause("migration", AT + HOUR)),
            event(),
            Skip(Reason.PAUSED, "paused until 2027-03-14T08:00:00Z: migration"),
        ),
        (stored(pause=Pause("x")), event(), Skip(Reason.PAUSED, "paused until it is resumed: x")),
        (
            stored(),
            event({"provider_id": "p_9"}),
            Problem(Reason.TEMPLATE, "{{event.folder_path}}: event.folder_path is missing"),
        ),
        (
            stored(),
            event({"provider_id": 5, "folder_path": "/a"}),
            Problem(
                Reason.INVALID_PAYLOAD,
                'sync-dropbox: payload.provider_id: 5 is not of type "string".',
                {"provider_id": 5, "path_prefix": "/a"},
            ),
        ),
    ],
)
def test_an_evaluation_says_why_there_is_no_job(
    trigger: Trigger, emitted: Event, expected: NoMatch | Skip | Problem
) -> None:
    assert evaluate(trigger, emitted, REGISTERED) == expected


@pytest.mark.parametrize("trigger", [stored(tenant=ALL), stored(pause=Pause("over", AT))], ids=["all", "pause over"])
def test_a_trigger_of_all_tenants_or_after_its_pause_matches(trigger: Trigger) -> None:
    assert isinstance(evaluate(trigger, event(), REGISTERED), Match)


def test_a_definition_may_be_inactive_or_unknown() -> None:
    inactive = evaluate(stored(), event(), replace(REGISTERED, active=False))
    unknown = evaluate(stored(), event(), None)

    assert isinstance(inactive, Skip)
    assert inactive.reason is Reason.INACTIVE_DEFINITION
    assert unknown == Problem(Reason.UNKNOWN_DEFINITION, 'no definition has the key "sync-dropbox"')


def test_a_fire_is_evaluated_like_an_event() -> None:
    rule = replace(NIGHTLY, payload={"provider_id": "{{tenant}}", "path_prefix": "{{schedule.fire_at}}"})

    assert evaluate_fire(stored(rule, tenant=ALL), ACME, AT, REGISTERED) == Match(
        {"provider_id": "acme", "path_prefix": "2027-03-14T07:00:00Z"}, None
    )
    paused = evaluate_fire(stored(rule, pause=Pause("x", AT + HOUR)), ACME, AT, REGISTERED)
    assert isinstance(paused, Skip)


def test_a_dedupe_key_is_of_trigger_and_payload() -> None:
    key = dedupe_key(ID, {"a": 1, "b": 2})

    assert key == dedupe_key(ID, {"b": 2, "a": 1})
    assert key != dedupe_key(ID, {"a": 1, "b": 3})
    assert key != dedupe_key(TriggerId(JOB), {"a": 1, "b": 2})


def test_a_dedupe_key_does_not_show_the_payload() -> None:
    assert "hunter2" not in dedupe_key(ID, {"password": "hunter2"})


@pytest.mark.parametrize(
    "decision",
    [
        Decision(trigger=ID, tenant=ACME, kind=DecisionKind.FIRED, event=EVENT, job=JOB),
        Decision(trigger=ID, tenant=ACME, kind=DecisionKind.DEDUPED, event=EVENT, job=JOB, why="held by a job"),
        decision_without_job(ID, ACME, Skip(Reason.PAUSED, "paused"), EVENT),
        decision_without_job(ID, ACME, Problem(Reason.TEMPLATE, "missing"), AT),
        decision_missed(ID, ACME, AT, 3, more=False),
    ],
    ids=lambda decision: decision.kind,
)
def test_a_decision_survives_its_row(decision: Decision) -> None:
    assert decision_from_row({**decision.as_row(), "at": AT}) == replace(decision, at=AT)


def test_a_decision_without_a_job_keeps_the_reason() -> None:
    skipped = decision_without_job(ID, ACME, Skip(Reason.PAUSED, "paused"), EVENT)
    failed = decision_without_job(ID, ACME, Problem(Reason.TEMPLATE, "missing"), AT)

    assert (skipped.kind, skipped.event, skipped.fire_at) == (DecisionKind.SKIPPED, EVENT, None)
    assert (failed.kind, failed.event, failed.fire_at) == (DecisionKind.ERROR, None, AT)


def test_a_missed_decision_says_how_many() -> None:
    assert decision_missed(ID, ACME, AT, 3, more=False).why == "3 fires were missed while no scheduler ran"
    assert decision_missed(ID, ACME, AT, 1, more=False).why == "1 fire was missed while no scheduler ran"
    assert decision_missed(ID, ACME, AT, 999, more=True).why.startswith("more than 999 fires")


@pytest.mark.parametrize(
    ("until", "reason", "why"),
    [
        (AT + SECOND, Reason.PAUSED, "3 fires were missed while the trigger was paused"),
        (AT, Reason.DOWN, "3 fires were missed while no scheduler ran, or the trigger was paused"),
    ],
)
def test_a_missed_decision_knows_the_pause(until: datetime, reason: Reason, why: str) -> None:
    missed = decision_missed(ID, ACME, AT, 3, more=False, pause=Pause("holidays", until))

    assert (missed.reason, missed.why) == (reason, why)


def test_a_reason_of_a_newer_release_is_shown() -> None:
    row = decision_without_job(ID, ACME, Skip(Reason.PAUSED, "paused"), EVENT).as_row()

    assert decision_from_row({**row, "reason": "eclipse", "at": AT}).why == "eclipse: paused"


def test_a_long_reason_is_shortened() -> None:
    decision = decision_without_job(ID, ACME, Skip(Reason.PAUSED, "x\0" * 50_000), EVENT)
    assert len(decision.why) == 10_000
    assert len(decision.recorded_why(str)) == 1000


def test_a_reason_is_redacted_before_it_is_shortened() -> None:
    redactor = Redactor(["s3cret-of-the-shop"])
    for before in range(975, 1001):
        why = "x" * before + "s3cret-of-the-shop"
        decision = decision_without_job(ID, ACME, Skip(Reason.PAUSED, why), EVENT)
        assert "s3" not in decision.recorded_why(redactor.text)


def test_a_decision_has_one_cause() -> None:
    with pytest.raises(InvalidInput, match="one cause"):
        Decision(trigger=ID, tenant=ACME, kind=DecisionKind.FIRED)
