"""The actions on a trigger: pause, resume, enable, disable, delete. Each has a page that explains it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from starlette.responses import Response

from leasehold.console.copies import as_command, as_curl
from leasehold.console.pages import Pages, Visit
from leasehold.console.routes.triggers import read_trigger
from leasehold.console.trigger_rows import row_of
from leasehold.errors import InvalidInput, LeaseholdError
from leasehold.model.access import Permission
from leasehold.model.duration import read_duration
from leasehold.model.job import TenantId
from leasehold.model.trigger import ALL, Trigger
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


def _why(visit: Visit) -> str:
    return visit.form.get("why", "").strip()


def _lasting(visit: Visit) -> str | None:
    return visit.form.get("lasting", "").strip() or None


async def _pause(visit: Visit, trigger: Trigger) -> None:
    why, lasting = _why(visit), _lasting(visit)
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
    if (lasting := _lasting(visit)) is not None:
        body["seconds"] = int(read_duration(lasting).total_seconds())
    return "POST", "/pause", body


def _pause_words(visit: Visit) -> tuple[str, ...]:
    lasting = _lasting(visit)
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
        "It fires no more, and is not shown any more. Jobs that it has made stay.",
        _delete,
        lambda _: ("DELETE", "", None),
        _none,
        is_destructive=True,
    ),
)
_COMMANDS = {"pause": "pause", "resume": "resume", "enable": "edit", "disable": "edit", "delete": "rm"}


def _declare(action: TriggerAction) -> None:
    @pages.add("GET", f"/triggers/{{trigger}}/{action.verb}", Permission.TRIGGERS_WRITE)
    async def confirm(visit: Visit) -> Response:
        return await _show(visit, action, await _read(visit), None)

    @pages.add("POST", f"/triggers/{{trigger}}/{action.verb}", Permission.TRIGGERS_WRITE)
    async def change(visit: Visit) -> Response:
        trigger = await _read(visit)
        try:
            await action.change(visit, trigger)
        except LeaseholdError as error:
            return await _show(visit, action, trigger, error)
        path = "/triggers" if action.verb == "delete" else f"/triggers/{trigger.id}"
        return visit.go(path, done=f"trigger-{action.verb}")


async def _read(visit: Visit) -> Trigger:
    return await visit.context.ask(lambda store: read_trigger(visit, store))


async def _show(visit: Visit, action: TriggerAction, trigger: Trigger, problem: LeaseholdError | None) -> Response:
    owner = None if trigger.tenant is ALL else TenantId(str(trigger.tenant))
    try:
        method, path, body = action.request(visit)
        words = action.words(visit)
    except LeaseholdError:  # the form has a duration that can't be read; the problem says so
        method, path, body, words = "POST", "/pause", {"why": _why(visit)}, (_why(visit),)
    command = as_command("triggers", _COMMANDS[action.verb], trigger.id, *words, owner=owner)
    facts = {
        "action": action,
        "row": row_of(visit, trigger, datetime.now(UTC)),
        "problem": problem,
        "why": _why(visit),
        "lasting": _lasting(visit) or "",
        "as_command": command if owner is not None else f"{command} --all-tenants",
        "as_curl": None
        if owner is None
        else as_curl(visit, method, f"/jobs/triggers/{trigger.id}{path}", body, owner=owner),
    }
    status = 200 if problem is None else statuses_of(problem).http
    return await visit.show("trigger_action.html", "triggers", facts, status=status)


for _action in ACTIONS:
    _declare(_action)
