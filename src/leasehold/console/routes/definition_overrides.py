"""Overrides of a definition by administrators: a form that sets fields in place of those of the code."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from starlette.responses import Response

from leasehold.api.strict_json import read_json
from leasehold.console.copies import as_command, as_curl, as_segment
from leasehold.console.pages import Pages, Visit
from leasehold.console.rendering import pretty, written
from leasehold.console.routes.definitions import href_of, key_of, said
from leasehold.console.trigger_form import DEPTH
from leasehold.errors import InvalidInput, LeaseholdError
from leasehold.model.access import Permission
from leasehold.model.overrides import read_values
from leasehold.operations import definitions, views
from leasehold.operations.definitions import Details
from leasehold.operations.statuses import statuses_of

pages = Pages()
_JSON = ("backoff", "retention", "schema")
TITLES = {
    "description": "Description",
    "timeout": "Timeout",
    "max_attempts": "Tries",
    "backoff": "Backoff",
    "retention": "Retention",
    "schema": "Schema",
    "active": "Takes new jobs",
}


@pages.add("GET", "/definitions/{key}/override", Permission.DEFINITIONS_WRITE)
async def edit(visit: Visit) -> Response:
    """Shows the fields that can be overridden, each with its origin."""
    details = await _details(visit)
    return await _show(visit, details, _texts(details), {}, None)


@pages.add("POST", "/definitions/{key}/override", Permission.DEFINITIONS_WRITE)
async def change(visit: Visit) -> Response:
    """Sets the fields that differ, or resets one of them, unless somebody else was faster."""
    details = await _details(visit)
    key, before = key_of(visit), _texts(details)
    texts = {name: visit.form.get(name, text).strip().replace("\r\n", "\n") for name, text in before.items()}
    revision, actor = _revision(visit), visit.context.actor
    problems: dict[str, str] = {}
    try:
        if reset := visit.form.get("reset"):
            await visit.context.ask(lambda store: definitions.reset(store, key, [reset], actor, revision=revision))
            return visit.go(href_of(visit, key).removeprefix(visit.area.base), done="definition-reset")
        given = _read_changes(details, before, texts, problems)
        if problems:
            return await _show(visit, details, texts, problems, None)
        if given:
            await visit.context.ask(lambda store: definitions.override(store, key, given, actor, revision=revision))
    except LeaseholdError as error:
        return await _show(visit, details, texts, {}, error)
    return visit.go(href_of(visit, key).removeprefix(visit.area.base), done="definition-set")


async def _details(visit: Visit) -> Details:
    return await visit.context.ask(lambda store: definitions.details(store, key_of(visit)))


def _revision(visit: Visit) -> int | None:
    text = visit.form.get("revision", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _texts(details: Details) -> dict[str, str]:
    """Returns the values as they stand in the form."""
    return {each.field: _text(each.field, each.value) for each in details.origins}


def _text(name: str, value: Any) -> str:
    if name in _JSON:
        return "" if value is None else pretty(_seconds_as_text(views.field_value(value)))
    if isinstance(value, timedelta):
        return written(value)
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _seconds_as_text(value: Any) -> Any:
    if isinstance(value, timedelta):
        return written(value)
    return {name: _seconds_as_text(each) for name, each in value.items()} if isinstance(value, Mapping) else value


def _read_changes(
    details: Details, before: Mapping[str, str], texts: Mapping[str, str], problems: dict[str, str]
) -> dict[str, Any]:
    """Returns the fields that were changed in the form, and binds problems to those that can't be read."""
    given: dict[str, Any] = {}
    for name, text in texts.items():
        if text == before[name].strip():
            continue
        try:
            given[name] = _value(name, text)
            read_values({name: given[name]}, details.registered.definition)
        except LeaseholdError as error:
            problems[name] = error.happened
    return given


def _value(name: str, text: str) -> Any:
    if name in _JSON:
        return read_json(text.encode(), DEPTH) if text else None
    if name == "active":
        return text == "yes"
    if name != "max_attempts":
        return text
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise InvalidInput(f"{text!r:.40} is not a whole number.", fix="Write one, like 5. Nothing was changed.")
    return int(text)


async def _show(
    visit: Visit,
    details: Details,
    texts: Mapping[str, str],
    problems: Mapping[str, str],
    problem: LeaseholdError | None,
) -> Response:
    key, registered = key_of(visit), details.registered
    path = f"/admin/jobs/definitions/{as_segment(key)}"
    facts = {
        "known": registered,
        "key": key,
        "back": href_of(visit, key),
        "origins": details.origins,
        "texts": texts,
        "titles": TITLES,
        "bases": {each.field: said(each.base) for each in details.origins},
        "in_json": _JSON,
        "without": "The code has" if registered.declared else "The default is",
        "problems": problems,
        "problem": problem,
        "as_command": as_command("definitions", "set", key, "timeout=10m", "--revision", str(registered.revision)),
        "as_curl": as_curl(visit, "PATCH", path, {"timeout": 600}, headers={"If-Match": f'"{registered.revision}"'}),
    }
    status = 422 if problems else 200 if problem is None else statuses_of(problem).http
    return await visit.show("override.html", "definitions", facts, status=status)
