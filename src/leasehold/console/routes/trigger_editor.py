"""The editor of triggers: create and change, with a preview that the server computes."""

from dataclasses import dataclass
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import Response

from leasehold.console.copies import as_command, as_curl
from leasehold.console.pages import Pages, Visit
from leasehold.console.routes.triggers import read_trigger
from leasehold.console.trigger_form import (
    TITLES,
    FormCheck,
    PayloadPreview,
    TriggerForm,
    check_form,
    form_of,
    form_of_rule,
    render_first,
)
from leasehold.console.trigger_rows import href_of, row_of, viewer_zone
from leasehold.errors import LeaseholdError, WrongState
from leasehold.model.access import Permission
from leasehold.model.job import TenantId
from leasehold.model.preview import Preview
from leasehold.model.schedule import CatchUp, Every
from leasehold.model.trigger import ALL, Origin, Trigger
from leasehold.model.trigger_document import rule_from_document
from leasehold.model.zone import zone_names
from leasehold.operations import admin, views
from leasehold.operations import triggers as operations
from leasehold.operations.catalog import Catalog
from leasehold.operations.changed_retry import require_restored, restore_redacted
from leasehold.operations.statuses import statuses_of

pages = Pages()
PREVIEWED = 5


@dataclass(frozen=True, slots=True)
class _Shown:
    """The preview beside the fields of the editor."""

    checked: FormCheck
    preview: Preview | None
    rendered: PayloadPreview | None


@pages.add("GET", "/triggers/new", Permission.TRIGGERS_WRITE)
async def new(visit: Visit) -> Response:
    """Shows an empty form; `kind`, `definition` and the other fields may be given in the address."""
    form = form_of({"enabled": "on", **visit.request.query_params})
    return await _edit(visit, form, None, looked=bool(form.texts["cron"] or form.texts["event"]))


@pages.add("POST", "/triggers/new", Permission.TRIGGERS_WRITE)
async def save(visit: Visit) -> Response:
    """Saves a trigger, or shows its preview."""
    owner = _tenant(visit)
    form = form_of(visit.form)
    checked = await visit.context.call(lambda catalog: check_form(form, catalog))
    if visit.form.get("do") == "preview":
        return await _edit(visit, form, None, looked=True)
    if checked.document is None:
        return await _edit(visit, form, None, refused=True)
    rule = rule_from_document(checked.document)
    actor = visit.context.actor
    try:
        saved = await visit.context.call(lambda catalog: operations.create(owner, rule, actor.name, catalog, actor))
    except LeaseholdError as error:
        return await _edit(visit, form, None, error)
    return visit.go(f"/triggers/{saved.id}", done="trigger-saved")


@pages.add("GET", "/triggers/{trigger}/edit", Permission.TRIGGERS_WRITE)
async def edit(visit: Visit) -> Response:
    """Shows the form of a trigger."""
    trigger = await _editable(visit)
    return await _edit(visit, _stored_form(visit, trigger), trigger, looked=True)


@pages.add("POST", "/triggers/{trigger}/edit", Permission.TRIGGERS_WRITE)
async def change(visit: Visit) -> Response:
    """Changes a trigger, unless somebody else has changed it since the form was made."""
    trigger = await _editable(visit)
    form = form_of(visit.form, trigger.rule.kind.value)
    checked = await visit.context.call(lambda catalog: check_form(form, catalog))
    if visit.form.get("do") == "preview":
        return await _edit(visit, form, trigger, looked=True)
    if checked.document is None:
        return await _edit(visit, form, trigger, refused=True)
    seen = visit.form.get("version", "")
    version = int(seen) if seen.isdecimal() and len(seen) < 10 else None
    try:
        document = _restore(trigger, checked)
        await visit.context.call(
            lambda catalog: operations.update_by_document(
                trigger.tenant, trigger.id, document, catalog, version=version, actor=visit.context.actor
            )
        )
    except LeaseholdError as error:
        return await _edit(visit, form, trigger, error)
    return visit.go(f"/triggers/{trigger.id}", done="trigger-saved")


def _tenant(visit: Visit) -> TenantId:
    if visit.area.tenant is None:
        raise HTTPException(404)
    return visit.area.tenant


async def _editable(visit: Visit) -> Trigger:
    """Reads the trigger of the address. Raises WrongState for one of the code."""
    visit.require(Permission.PAYLOADS_READ)  # the form has the template and the filter
    found = await visit.context.ask(lambda store: read_trigger(visit, store))
    if found.origin is Origin.CODE:
        raise WrongState(
            f"the trigger {found.rule.label!r:.120} is declared in code, and can't be changed here. "
            "Nothing was changed.",
            fix="Change the code. It can be paused at any time.",
        )
    return found


def _stored_form(visit: Visit, trigger: Trigger) -> TriggerForm:
    document = row_of(visit, trigger, trigger.updated_at).document
    return form_of_rule(trigger.rule, document["payload_template"], document["filter"])


def _restore(trigger: Trigger, checked: FormCheck) -> dict[str, Any]:
    """Returns the changes, with the stored values of the template where the form had `[redacted]`.

    An interval that stays is left out: the form has no anchor, which a new one would lose. Raises PayloadInvalid for
    a `[redacted]` that stands for no stored value.
    """
    document, before = dict(checked.document or {}), trigger.rule.schedule
    if (
        isinstance(before, Every)
        and isinstance(checked.schedule, Every)
        and before.interval == checked.schedule.interval
    ):
        del document["every"]
    seen = views.trigger(trigger)["payload"]
    payload = restore_redacted(checked.payload, seen, trigger.rule.payload)
    require_restored(payload, trigger.rule.payload)
    return document | {"payload_template": payload}


async def _look(visit: Visit, form: TriggerForm, tenant: str) -> _Shown:
    viewer = viewer_zone(visit)

    async def look(catalog: Catalog) -> _Shown:
        checked = await check_form(form, catalog)
        if checked.schedule is None:
            return _Shown(checked, None, None)
        found = await operations.preview_schedule(catalog.store, checked.schedule, PREVIEWED, viewer)
        first = found.runs[0].at if found.runs else None
        return _Shown(checked, found, await render_first(form, checked, first, tenant, catalog))

    return await visit.context.call(look)


async def _edit(
    visit: Visit,
    form: TriggerForm,
    trigger: Trigger | None,
    problem: LeaseholdError | None = None,
    *,
    looked: bool = False,
    refused: bool = False,
) -> Response:
    """Shows the form. `looked`: with its preview, but without problems of fields that are not filled in yet."""
    owner = trigger.tenant if trigger is not None else _tenant(visit)
    named = "" if owner is ALL else str(owner)
    seen = await _look(visit, form, named or "acme") if looked or refused or problem else None
    found = dict(form.problems)
    definitions = await visit.shared("definitions", admin.definitions)
    facts = {
        "form": form,
        "texts": form.texts,
        "trigger": trigger,
        "back": f"{visit.area.base}/triggers" if trigger is None else href_of(visit.area, trigger),
        "target": f"{visit.area.base}/triggers/" + ("new" if trigger is None else f"{trigger.id}/edit"),
        "version": trigger.version if trigger is not None else None,
        "problem": problem,
        "problems": found if refused else {},
        "looked_problems": found,
        "titles": TITLES,
        "seen": seen,
        "viewer": viewer_zone(visit),
        "definitions": [each.definition for each in definitions],
        "zones": sorted(zone_names()),
        "policies": _POLICIES,
        **_copies(visit, trigger, None if seen is None else seen.checked, owner),
    }
    status = 422 if refused else 200 if problem is None else statuses_of(problem).http
    return await visit.show("trigger_edit.html", "triggers", facts, status=status)


_POLICIES = {
    CatchUp.LATEST.value: "run the latest once",
    CatchUp.SKIP.value: "skip them",
    CatchUp.ALL.value: "run each of them",
}
_OPTIONS = {
    "cron": "--cron",
    "zone": "--zone",
    "every": "--every",
    "event": "--event",
    "label": "--label",
    "catch_up": "--catch-up",
}


def _copies(visit: Visit, trigger: Trigger | None, checked: FormCheck | None, owner: Any) -> dict[str, str | None]:
    """Returns the same change as a command and as a request, once the form can be used."""
    if checked is None or checked.document is None or owner is ALL:
        return {"as_command": None, "as_curl": None}
    document = checked.document
    words: list[str] = []
    for name, option in _OPTIONS.items():
        if (value := document.get(name)) is not None:
            words += [option, f"{value}s" if name == "every" else str(value)]
    if document.get("filter"):
        words += ["--filter", views.as_json(document["filter"]).decode()]
    words += ["--payload", views.as_json(document["payload_template"]).decode()]
    head = ("triggers", "add", document["definition"]) if trigger is None else ("triggers", "edit", trigger.id)
    method, path = ("POST", "/jobs/triggers") if trigger is None else ("PATCH", f"/jobs/triggers/{trigger.id}")
    headers = None if trigger is None else {"If-Match": f'"{trigger.version}"'}
    names = {"cron": "cron_expr", "zone": "timezone", "event": "event_name", "definition": "definition_key"}
    names |= {"enabled": "is_enabled", "dedupe_window": "dedupe_window_seconds"}
    body = {names.get(name, name): value for name, value in document.items() if value is not None}
    return {
        "as_command": as_command(*head, *words, owner=owner),
        "as_curl": as_curl(visit, method, path, body, owner=owner, headers=headers),
    }
