"""Templates: what a placeholder becomes, what is refused when it is saved, and what is an error of an event."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.errors import InvalidInput
from leasehold.model.definition import Definition
from leasehold.model.event import Event, EventId
from leasehold.model.job import TenantId
from leasehold.model.payload import MAX_BYTES
from leasehold.model.template import (
    EVENT_ROOTS,
    MAX_PLACEHOLDERS,
    SCHEDULE_ROOTS,
    TemplateProblem,
    parse_template,
    values_of_event,
    values_of_fire,
)

AT = datetime(2027, 3, 14, 7, tzinfo=UTC)
DATA = {
    "provider_id": "p_9",
    "size": 120,
    "ratio": 1.5,
    "shared": True,
    "owner": None,
    "folder": {"path": "/a", "odd key": [1]},
    "items": [{"id": 7}, {"id": 8}],
    "hostile": "{{tenant}} {{event.size}}",
    "name": "Holidays",
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text("ab{}.\\ é", max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=3), inner, max_size=3),
    max_leaves=8,
)


def event(data: dict[str, Any]) -> Event:
    return Event(EventId("018f3c4e-0000-7000-8000-000000000000"), TenantId("acme"), "list.created", data, AT)


def render(source: Any, data: dict[str, Any] = DATA) -> Any:
    rendered = parse_template({"x": source}, EVENT_ROOTS).render(values_of_event(event(data)))
    return rendered if isinstance(rendered, TemplateProblem) else rendered["x"]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{event.provider_id}}", "p_9"),
        ("{{event.size}}", 120),
        ("{{ event.ratio }}", 1.5),
        ("{{event.shared}}", True),
        ("{{event.owner}}", None),
        ("{{event.folder}}", {"path": "/a", "odd key": [1]}),
        ("{{event.folder.path}}", "/a"),
        ('{{event.folder["odd key"][0]}}', 1),
        ("{{event.items[1].id}}", 8),
        ("{{event}}", DATA),
        ("{{event.name}}", "Holidays"),
        ("{{event_name}}", "list.created"),
        ("{{event_id}}", "018f3c4e-0000-7000-8000-000000000000"),
        ("{{event_at}}", "2027-03-14T07:00:00Z"),
        ("{{tenant}}", "acme"),
        ({"a": ["{{event.size}}", 1]}, {"a": [120, 1]}),
    ],
)
def test_a_placeholder_alone_keeps_its_json_type(source: Any, expected: Any) -> None:
    assert render(source) == expected
    assert type(render(source)) is type(expected)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{event.provider_id}}{{event.size}}", "p_9120"),
        (" {{event.size}}", " 120"),
        ("{{tenant}}/{{event.folder.path}}", "acme//a"),
        ("{{event.shared}} {{event.owner}} {{event.ratio}}", "true null 1.5"),
        ("folder: {{event.folder}}", 'folder: {"path":"/a","odd key":[1]}'),
    ],
)
def test_several_parts_are_joined_as_text(source: str, expected: str) -> None:
    assert render(source) == expected


@pytest.mark.parametrize(
    "value", ["plain", 5, 1.5, None, True, [], {}, "}}", "a } b", "{ {", "{x}", {"a": {"b": [1]}}]
)
def test_values_without_placeholders_stay_as_they_are(value: Any) -> None:
    assert render(value) == value


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{{{", "{{"),
        ("{{{{event.size}}", "{{event.size}}"),
        ("{{{{ {{event.size}} }}", "{{ 120 }}"),
        ("{{event.size}}{{{{", "120{{"),
    ],
)
def test_four_braces_are_two_literal_ones(source: str, expected: str) -> None:
    assert render(source) == expected


def test_a_value_with_braces_is_not_rendered_again() -> None:
    assert render("{{event.hostile}}") == "{{tenant}} {{event.size}}"
    assert render("see {{event.hostile}}") == "see {{tenant}} {{event.size}}"


@settings(deadline=None)
@given(JSON)
def test_every_value_is_inserted_as_it_is(value: Any) -> None:
    assert render("{{event.value}}", {"value": value}) == value
    if isinstance(value, str):
        assert render("<{{event.value}}>", {"value": value}) == f"<{value}>"


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("{{event.provider_idd}}", 'event.provider_idd is missing; did you mean "provider_id"?'),
        ("see {{event.folder.size}}", "event.folder.size is missing"),
        ("{{event.items[2].id}}", "event.items has 2 items, none at [2]"),
        ("{{event.items.id}}", "event.items is a list, not an object"),
        ("{{event.provider_id.upper}}", "event.provider_id is text, not an object"),
        ("{{event.__class__}}", "event.__class__ is missing"),
    ],
)
def test_a_missing_path_is_a_problem_of_the_event(source: str, why: str) -> None:
    found = render(source)

    assert isinstance(found, TemplateProblem)
    assert why in found.why


def test_a_missing_name_points_to_the_name_of_the_event() -> None:
    found = render("{{event.name}}", {})

    assert isinstance(found, TemplateProblem)
    assert "the event's own name is {{event_name}}" in found.why


def test_the_rendered_payload_is_bounded_while_it_grows() -> None:
    data = {"large": "x" * (MAX_BYTES // 4)}
    found = parse_template({"all": ["{{event.large}}"] * 1000}, EVENT_ROOTS).render(values_of_event(event(data)))

    assert found == TemplateProblem("the payload would have more than 262,144 bytes of JSON")


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("{{os.environ}}", "is not one of event, event_name"),
        ("{{evnt.size}}", r"did you mean event\?"),
        ("{{schedule.fire_at}}", "is not one of event"),
        ("{{}}", "can't be read"),
        ("{{ event . size }}", "can't be read"),
        ("{{event.size | upper}}", "can't be read"),
        ("{{event.size()}} {{", "without a placeholder"),
        ("{{ {{ }}", "without a placeholder"),
        ("{{{event.size}}}", "without a placeholder"),
        ("{{event.size}", "without a placeholder"),
        ("{{event_name.x}}", "leads nowhere"),
        ("{{tenant[0]}}", "leads nowhere"),
    ],
)
def test_a_placeholder_that_cannot_be_used_is_refused(source: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=rf"template can't be used: payload\.x: .*{why}.*Nothing was changed"):
        parse_template({"x": source}, EVENT_ROOTS)


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ([], "is not a mapping"),
        ("{{event}}", "is not a mapping"),
        ({"{{event.size}}": 1}, "keys are not templates"),
        ({"x": AT}, "datetime is not JSON"),
        ({"x": ["{{tenant}}"] * (MAX_PLACEHOLDERS + 1)}, "1,001 placeholders"),
        ({"x": "x" * MAX_BYTES}, "bytes of JSON"),
    ],
)
def test_a_template_that_is_not_json_is_refused(source: Any, why: str) -> None:
    with pytest.raises(InvalidInput, match=rf"template can't be used: .*{why}"):
        parse_template(source, EVENT_ROOTS)


@pytest.mark.parametrize("source", ["{{schedule}}", "{{schedule.next}}", "{{schedule.fire_at.x}}", "{{event.size}}"])
def test_a_schedule_has_fire_at_and_previous_only(source: str) -> None:
    with pytest.raises(InvalidInput, match="template can't be used"):
        parse_template({"x": source}, SCHEDULE_ROOTS)


def test_a_schedule_renders_its_times_as_text() -> None:
    template = parse_template({"at": "{{schedule.fire_at}}", "since": "{{schedule.previous}}"}, SCHEDULE_ROOTS)

    assert template.render(values_of_fire(AT, AT - timedelta(days=1), "acme")) == {
        "at": "2027-03-14T07:00:00Z",
        "since": "2027-03-13T07:00:00Z",
    }


def test_a_template_lists_its_placeholders() -> None:
    assert parse_template({"a": "{{event.x}} {{tenant}}", "b": 1}, EVENT_ROOTS).placeholders == ("event.x", "tenant")


SYNC = Definition(
    "sync-dropbox",
    schema={
        "type": "object",
        "properties": {
            "provider_id": {"type": "string", "format": "uuid"},
            "path_prefix": {"type": "string"},
            "depth": {"type": "integer", "maximum": 9},
            "mode": {"enum": ["full", "quick"]},
            "options": {"$ref": "#/$defs/options"},
            "either": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        },
        "required": ["provider_id"],
        "additionalProperties": False,
        "if": {"properties": {"path_prefix": {"const": ""}}},
        "then": {"required": ["depth"]},
        "$defs": {
            "options": {
                "type": "object",
                "properties": {"deep": {"type": "boolean"}, "tags": {"type": "array", "maxItems": 2}},
                "required": ["deep"],
            }
        },
    },
)


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ({"path_prefix": "/"}, '"provider_id" is a required property'),
        ({"provider_id": "{{event.id}}", "path_prefx": "{{event.x}}"}, 'unknown field .did you mean "path_prefix"'),
        ({"provider_id": "p_9", "path_prefix": "{{event.x}}"}, 'is not a "uuid"'),
        ({"provider_id": "{{event.id}}", "path_prefix": 5}, 'is not of type "string"'),
        ({"provider_id": ["{{event.id}}"]}, 'is not of type "string"'),
        ({"provider_id": "{{event.id}}", "depth": "{{event.a}}/{{event.b}}"}, 'is not of type "integer"'),
        ({"provider_id": "{{event.id}}", "depth": "{{tenant}}"}, 'is not of type "integer"'),
        ({"provider_id": "{{event.id}}", "depth": 10}, "10 is greater than the maximum"),
        ({"provider_id": "{{event.id}}", "mode": "slow"}, "is not one of"),
        ({"provider_id": "{{event.id}}", "options": {"tags": "{{event.tags}}"}}, '"deep" is a required property'),
        (
            {"provider_id": "{{event.id}}", "options": {"deep": True, "tags": ["{{event.a}}", 1, 2]}},
            "more than 2 items",
        ),
        ({"provider_id": "{{event.id}}", "either": "text"}, "not valid under any"),
        (
            {"provider_id": "00000000-0000-0000-0000-000000000000", "path_prefix": ""},
            '"depth" is a required property',
        ),
    ],
)
def test_a_template_that_can_never_fit_is_refused(source: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidInput, match=rf"can never give a valid payload: sync-dropbox: .*{why}"):
        parse_template(source, EVENT_ROOTS).check_fits(SYNC)


@pytest.mark.parametrize(
    "source",
    [
        {"provider_id": "{{event.id}}"},
        {"provider_id": "{{tenant}}"},
        {"provider_id": "{{event.a}}-{{event.b}}"},
        {"provider_id": "{{event.id}}", "depth": "{{event.depth}}", "mode": "{{event.mode}}"},
        {"provider_id": "{{event.id}}", "mode": "f{{event.rest}}"},
        {"provider_id": "{{event.id}}", "options": "{{event.options}}"},
        {"provider_id": "{{event.id}}", "options": {"deep": "{{event.deep}}", "tags": ["{{event.a}}"]}},
        {"provider_id": "{{event.id}}", "either": "{{event.either}}"},
        # The condition depends on a placeholder.
        {"provider_id": "{{event.id}}", "path_prefix": "{{event.path}}"},
        {"provider_id": "{{event.id}}", "path_prefix": "x{{event.path}}"},
    ],
)
def test_a_template_that_may_fit_is_accepted(source: dict[str, Any]) -> None:
    parse_template(source, EVENT_ROOTS).check_fits(SYNC)


def test_a_definition_without_a_schema_takes_every_template() -> None:
    parse_template({"x": "{{event.x}}"}, EVENT_ROOTS).check_fits(Definition("any"))


@settings(deadline=None)
@given(
    st.fixed_dictionaries(
        {"provider_id": st.uuids().map(str), "depth": st.integers(-9, 9)},
        optional={
            "path_prefix": st.text("a{}", max_size=8),
            "mode": st.sampled_from(["full", "quick"]),
            "either": st.none() | st.integers(0, 5),
            "options": st.fixed_dictionaries({"deep": st.booleans()}, optional={"tags": st.lists(JSON, max_size=2)}),
        },
    ),
    st.data(),
)
def test_a_template_of_a_valid_payload_is_accepted(payload: dict[str, Any], data: st.DataObject) -> None:
    moved = [name for name in payload if data.draw(st.booleans())]
    source = {name: f"{{{{event.{name}}}}}" if name in moved else _literal(value) for name, value in payload.items()}
    template = parse_template(source, EVENT_ROOTS)

    SYNC.check(payload)
    template.check_fits(SYNC)
    assert template.render(values_of_event(event(payload))) == payload


def _literal(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("{{", "{{{{")
    if isinstance(value, list):
        return [_literal(item) for item in value]
    return {name: _literal(item) for name, item in value.items()} if isinstance(value, dict) else value
