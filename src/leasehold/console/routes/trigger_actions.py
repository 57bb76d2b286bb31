"""The actions on a trigger: pause, resume, enable, disable, delete, restore. Each has a page that explains it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response

from leasehold.console.copies import as_command, as_curl
from leasehold.console.pages import Pages, Visit
from leasehold.console.routes.triggers import owner_of, read_trigger, trigger_of
from leasehold.console.trigger_rows import row_of
from leasehold.errors import InvalidInput, LeaseholdError
from leasehold.model.access import Permission
from leasehold.model.duration import read_duration
from leasehold.model.job import TenantId
from leasehold.model.trigger import ALL, Trigger
from leasehold.operations import deleted_triggers
from leasehold.operations import triggers as operations
from leasehold.operations.statuses import statuses_of

pages = Pages()


@dataclass(frozen=True, slots=True)
class TriggerAction:
    """A change of one trigger. `words` are those of the command line, after `leasehold triggers`."""

    verb: str
    title: str
    button: str
    text: str
    change: Callable[[Visit, Trigger], Awaitable[Any]]
    request: Callable[[Visit], tuple[str, str, dict[str, Any] | None]]
    words: Callable[[Visit], tuple[str, ...]]
    is_destructive: bool = False
    of_deleted: bool = False


def _why(visit: Visit) -> str:
    return visit.form.get("why", "").strip()


def _length(visit: Visit) -> str | None:
    return visit.form.get("lasting", "").strip() or None


async def _pause(visit: Visit, trigger: Trigger) -> None:
    why, lasting = _why(visit), _length(visit)
    if not why:
        raise InvalidInput("a pause needs a reason. Nothing was changed.", fix="Write why, for those who find it.")
    length = None if lasting is None else read_duration(lasting)
    await visit.context.ask(
        lambda store: operations.pause(store, trigger.tenant, trigger.id, why, length, visit.context.actor)
    )


async def _resume(visit: Visit, trigger: Trigger) -> None:
    await visit.context.ask(lambda store: operations.resume(store, trigger.tenant, trigger.id, visit.context.actor))


async def _delete(visit: Visit, trigger: Trigger) -> None:
    await visit.context.ask(
        lambda store: operations.delete(store, trigger.tenant, trigger.id, actor=visit.context.actor)
    )


async def _restore(visit: Visit, trigger: Trigger) -> None:
    await visit.context.call(
        lambda catalog: deleted_triggers.restore(trigger.tenant, trigger.id, catalog, visit.context.actor)
    )


def _set_enabled(enabled: bool) -> Callable[[Visit, Trigger], Awaitable[Any]]:
    async def change(visit: Visit, trigger: Trigger) -> None:
        await visit.context.call(
            lambda catalog: operations.update_by_document(
                trigger.tenant, trigger.id, {"enabled": enabled}, catalog, actor=visit.context.actor
            )
        )

    return change


def _pause_body(visit: Visit) -> tuple[str, str, dict[str, Any] | None]:
    body: dict[str, Any] = {"why": _why(visit) or "the reason"}
    if (lasting := _length(visit)) is not None:
        body["seconds"] = int(read_duration(lasting).total_seconds())
    return "POST", "/pause", body


def _pause_words(visit: Visit) -> tuple[str, ...]:
    lasting = _length(visit)
    return (_why(visit) or "the reason", *(("--for", lasting) if lasting else ()))


def _none(_: Visit) -> tuple[str, ...]:
    return ()


ACTIONS = (
    TriggerAction(
        "pause",
        "Pause this trigger?",
        "Pause",
        "It makes no jobs while it is paused. Its policy decides about fires that it misses meanwhile.",
        _pause,
        _pause_body,
        _pause_words,
    ),
    TriggerAction(
        "resume",
        "Resume this trigger?",
        "Resume",
        "Its pause ends now. Fires that it has missed are caught up by its policy.",
        _resume,
        lambda _: ("POST", "/resume", None),
        _none,
    ),
    TriggerAction(
        "enable",
        "Enable this trigger?",
        "Enable",
        "It fires again. A schedule begins at this moment, and catches up nothing.",
        _set_enabled(True),
        lambda _: ("PATCH", "", {"is_enabled": True}),
        lambda _: ("--enabled", "on"),
    ),
    TriggerAction(
        "disable",
        "Disable this trigger?",
        "Disable",
        "It makes no jobs until it is enabled again, and catches up nothing. Pause it to stop it for a while.",
        _set_enabled(False),
        lambda _: ("PATCH", "", {"is_enabled": False}),
        lambda _: ("--enabled", "off"),
    ),
    TriggerAction(
        "delete",
        "Delete this trigger?",
        "Delete the trigger",
        "It fires no more, and is not shown any more. Jobs that it has made stay. It can be restored.",
        _delete,
        lambda _: ("DELETE", "", None),
        _none,
        is_destructive=True,
    ),
    TriggerAction(
        "restore",
        "Restore this trigger?",
        "Restore",
        "It comes back as it was when it was deleted. A schedule begins at this moment, and catches up nothing.",
        _restore,
        lambda _: ("POST", "/restore", None),
        _none,
        of_deleted=True,
    ),
)
_COMMANDS = {"enable": "edit", "disable": "edit", "delete": "rm"}


def _declare(action: TriggerAction) -> None:
    @pages.add("GET", f"/triggers/{{trigger}}/{action.verb}", Permission.TRIGGERS_WRITE)
    async def confirm(visit: Visit) -> Response:
        return await _show(visit, action, await _read(visit, action), None)

    @pages.add("POST", f"/triggers/{{trigger}}/{action.verb}", Permission.TRIGGERS_WRITE)
    async def change(visit: Visit) -> Response:
        trigger = await _read(visit, action)
        try:
            await action.change(visit, trigger)
        except LeaseholdError as error:
            return await _show(visit, action, trigger, error)
        done = f"trigger-{action.verb}"
        if action.verb == "delete":
            return visit.go("/triggers", done=done, trigger=trigger.id, **_whose(visit, trigger))
        return visit.go(f"/triggers/{trigger.id}", done=done)


async def _read(visit: Visit, action: TriggerAction) -> Trigger:
    if not action.of_deleted:
        return await visit.context.ask(lambda store: read_trigger(visit, store))
    owner, wanted = owner_of(visit), trigger_of(visit)
    return await visit.context.ask(lambda store: deleted_triggers.get_deleted(store, owner, wanted))


def _whose(visit: Visit, trigger: Trigger) -> dict[str, str]:
    """Returns the owner of a trigger as an address names it, where its scope does not."""
    return {} if visit.area.tenant is not None or trigger.tenant is ALL else {"tenant": str(trigger.tenant)}


async def _show(visit: Visit, action: TriggerAction, trigger: Trigger, problem: LeaseholdError | None) -> Response:
    owner = None if trigger.tenant is ALL else TenantId(str(trigger.tenant))
    try:
        method, path, body = action.request(visit)
        words = action.words(visit)
    except LeaseholdError:  # the form has a duration that can't be read; the problem says so
        method, path, body, words = "POST", "/pause", {"why": _why(visit)}, (_why(visit),)
    command = as_command("triggers", _COMMANDS.get(action.verb, action.verb), trigger.id, *words, owner=owner)
    facts = {
        "action": action,
        "row": row_of(visit, trigger, datetime.now(UTC)),
        "whose": f"?{urlencode(_whose(visit, trigger))}" if action.of_deleted and _whose(visit, trigger) else "",
        "problem": problem,
        "why": _why(visit),
        "lasting": _length(visit) or "",
        "as_command": command if owner is not None else f"{command} --all-tenants",
        "as_curl": None
        if owner is None
        else as_curl(visit, method, f"/jobs/triggers/{trigger.id}{path}", body, owner=owner),
    }
    status = 200 if problem is None else statuses_of(problem).http
    return await visit.show("trigger_action.html", "triggers", facts, status=status)


for _action in ACTIONS:
    _declare(_action)
