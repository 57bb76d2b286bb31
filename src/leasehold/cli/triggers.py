"""`leasehold triggers`: lists, adds, shows, edits, removes, restores, pauses and previews triggers."""

from dataclasses import replace
from typing import Annotated

import typer

from leasehold.app.triggers import new_trigger
from leasehold.cli.help import Command, Group
from leasehold.cli.options import Json, Schema, Url, ask, require_tenant
from leasehold.cli.output import explain_errors, print_json, stderr, stdout
from leasehold.cli.payload import read_moment
from leasehold.cli.tables import show_line, show_table
from leasehold.cli.trigger_options import (
    AllTenants,
    Anchor,
    Cap,
    CatchUp,
    Count,
    CreatedBy,
    Cron,
    Enabled,
    Interval,
    Label,
    Limit,
    OfAll,
    OnEvent,
    OnlyIf,
    Payload,
    Spread,
    Tenant,
    TheTrigger,
    Trailing,
    Viewer,
    Window,
    Zone,
    no_owner,
    read_owner,
    read_rule,
    read_when,
)
from leasehold.cli.trigger_tables import confirm, decision_row, show_preview, trigger_row
from leasehold.control import Control
from leasehold.errors import InvalidInput
from leasehold.model.decision import Decision
from leasehold.model.duration import read_duration
from leasehold.model.preview import Preview
from leasehold.model.trigger import ALL, Origin, Trigger, trigger_id
from leasehold.operations import triggers as operations
from leasehold.operations import views
from leasehold.operations.triggers import Owner, in_words
from leasehold.operations.views import format_count

commands = typer.Typer(cls=Group, invoke_without_command=True)


@commands.callback()
def triggers(context: typer.Context, url: Url = None, schema: Schema = None, json: Json = False) -> None:
    """List the triggers; add, edit, pause, remove or preview them."""
    if context.invoked_subcommand is None:
        _list(None, operations.AT_MOST, url, schema, json)
    elif url or schema or json:
        raise typer.BadParameter(f"options belong after {context.invoked_subcommand}, not before it")


@commands.command("ls", cls=Command)
def list_all(
    tenant: Tenant = None,
    all_tenants: AllTenants = False,
    limit: Limit = operations.AT_MOST,
    url: Url = None,
    schema: Schema = None,
    json: Json = False,
) -> None:
    """List triggers, of every tenant unless one is named."""
    with explain_errors(json):
        _list(read_owner(tenant, all_tenants), limit, url, schema, json)


def _list(owner: Owner | None, limit: int, url: str | None, schema: str | None, json: bool) -> None:
    with explain_errors(json):
        listed = ask(url, schema, lambda control: control.triggers.list(owner, limit + 1))
        found = listed[:limit]
        if json:
            print_json([views.trigger(trigger) for trigger in found])
        elif found:
            columns = ["ID", "TENANT", "DEFINITION", "STATE", "NEXT", "FROM", "LABEL", "WHEN"]
            show_table(stdout, columns, [trigger_row(trigger) for trigger in found])
        more = ", and there are more: leasehold triggers ls --limit N" if len(listed) > limit else ""
        stderr.print(f"{format_count(len(found), 'trigger')}{more}")


@commands.command(cls=Command)
def add(
    definition: Annotated[str, typer.Argument(help="The definition whose jobs it enqueues.")],
    tenant: Tenant = None,
    all_tenants: AllTenants = False,
    cron: Cron = None,
    interval: Interval = None,
    anchor: Anchor = None,
    zone: Zone = None,
    event: OnEvent = None,
    only_if: OnlyIf = None,
    payload: Payload = None,
    label: Label = None,
    catch_up: CatchUp = None,
    cap: Cap = None,
    spread: Spread = None,
    window: Window = None,
    trailing: Trailing = None,
    enabled: Enabled = None,
    created_by: CreatedBy = None,
    url: Url = None,
    schema: Schema = None,
    json: Json = False,
) -> None:
    """Add a trigger: enqueue jobs by the clock, or on an event."""
    with explain_errors(json):
        owner = ALL if all_tenants else require_tenant(url, tenant, no_owner())
        schedule = read_when(cron, interval, anchor, zone)
        options = read_rule(
            schedule, event, only_if, payload, label, catch_up, cap, spread, window, trailing, enabled
        )
        rule = new_trigger(definition, **options)

        async def save(control: Control) -> Trigger:
            whose = ALL if owner is ALL else await control.tenant(owner, no_owner())
            return await control.triggers.save(whose, rule, created_by)

        confirm(ask(url, schema, save), json, "is added")


@commands.command(cls=Command)
def edit(
    trigger: TheTrigger,
    tenant: Tenant = None,
    all_tenants: OfAll = False,
    cron: Cron = None,
    interval: Interval = None,
    anchor: Anchor = None,
    zone: Zone = None,
    event: OnEvent = None,
    only_if: OnlyIf = None,
    payload: Payload = None,
    label: Label = None,
    catch_up: CatchUp = None,
    cap: Cap = None,
    spread: Spread = None,
    window: Window = None,
    trailing: Trailing = None,
    enabled: Enabled = None,
    url: Url = None,
    schema: Schema = None,
    json: Json = False,
) -> None:
    """Change a trigger. Options that are left out stay as they are."""
    with explain_errors(json):
        changes = read_rule(None, event, only_if, payload, label, catch_up, cap, spread, window, trailing, enabled)
        when = (cron, interval, anchor, zone)
        if not changes and when == (None,) * 4:
            raise InvalidInput("no option says what to change. Nothing was changed.", fix="Pass --cron, --payload, …")

        async def changed(control: Control) -> Trigger:
            found = await control.triggers.find(trigger, read_owner(tenant, all_tenants))
            schedule = read_when(*when, before=found.rule.schedule)
            renewed = {} if schedule is None else {"schedule": schedule}
            return await control.triggers.change(found, changes | renewed)

        confirm(ask(url, schema, changed), json, "is changed")


@commands.command(cls=Command)
def show(
    trigger: TheTrigger,
    tenant: Tenant = None,
    all_tenants: OfAll = False,
    url: Url = None,
    schema: Schema = None,
    json: Json = False,
) -> None:
    """Show a trigger as JSON."""
    with explain_errors(json):
        found = ask(url, schema, lambda control: control.triggers.find(trigger, read_owner(tenant, all_tenants)))
        if json:
            print_json(views.trigger(found))
        else:
            show_line(stdout, views.as_json(views.trigger(found), indented=True).decode())


@commands.command(cls=Command)
def rm(
    trigger: TheTrigger,
    force: Annotated[bool, typer.Option("--force", help="Remove one of code that is gone.")] = False,
    tenant: Tenant = None,
    all_tenants: OfAll = False,
    url: Url = None,
    schema: Schema = None,
    json: Json = False,
) -> None:
    """Remove a trigger. Jobs that it has made stay, and it can be restored."""
    with explain_errors(json):

        async def removed(control: Control) -> Trigger:
            found = await control.triggers.find(trigger, read_owner(tenant, all_tenants))
            await control.triggers.delete(found, force=force)
            return found

        gone = ask(url, schema, removed)
        confirm(replace(gone, next_at=None), json, "is removed")
        if gone.origin is Origin.CODE:
            stderr.print("If code still declares it, the next sync brings it back.")


@commands.command(cls=Command)
def restore(
    trigger: Annotated[str, typer.Argument(metavar="ID", help="The whole id, as rm and the audit log tell it.")],
    tenant: Tenant = None,
    all_tenants: OfAll = False,
    url: Url = None,
    schema: Schema = None,
    json: Json = False,
) -> None:
    """Bring a removed trigger back as it was. A schedule begins now."""
    with explain_errors(json):
        known, missing = trigger_id(trigger), no_owner()
        owner = ALL if all_tenants else require_tenant(url, tenant, missing)

        async def restored(control: Control) -> Trigger:
            whose = ALL if owner is ALL else await control.tenant(owner, missing)
            return await control.triggers.restore(whose, known)

        confirm(ask(url, schema, restored), json, "is back")


@commands.command(cls=Command)
def pause(
    trigger: TheTrigger,
    why: Annotated[str, typer.Argument(help="The reason, for people.")],
    lasting: Annotated[str | None, typer.Option("--for", help="How long, as in 2h. Default: until resumed.")] = None,
    until: Annotated[str | None, typer.Option(help="Until when, as in 2030-01-31T09:00Z.")] = None,
    tenant: Tenant = None,
    all_tenants: OfAll = False,
    url: Url = None,
    schema: Schema = None,
    json: Json = False,
) -> None:
    """Pause a trigger. Fires that it misses are caught up by its policy."""
    with explain_errors(json):
        if lasting is not None and until is not None:
            raise InvalidInput("--for and --until can't both be the end. Nothing was changed.", fix="Leave one out.")
        end = read_duration(lasting) if lasting is not None else None if until is None else read_moment(until)

        async def paused(control: Control) -> Trigger:
            found = await control.triggers.find(trigger, read_owner(tenant, all_tenants))
            return await control.triggers.pause(found, why, end)

        confirm(ask(url, schema, paused), json, "is paused")


@commands.command(cls=Command)
def resume(
    trigger: TheTrigger,
    tenant: Tenant = None,
    all_tenants: OfAll = False,
    url: Url = None,
    schema: Schema = None,
    json: Json = False,
) -> None:
    """End the pause of a trigger."""
    with explain_errors(json):

        async def resumed(control: Control) -> Trigger:
            found = await control.triggers.find(trigger, read_owner(tenant, all_tenants))
            return await control.triggers.resume(found)

        confirm(ask(url, schema, resumed), json, "is not paused")


@commands.command(cls=Command)
def preview(
    trigger: Annotated[str | None, typer.Argument(metavar="[ID]", help="A trigger; or use --cron, --every.")] = None,
    tenant: Tenant = None,
    all_tenants: OfAll = False,
    cron: Cron = None,
    interval: Interval = None,
    anchor: Anchor = None,
    zone: Zone = None,
    count: Count = 5,
    viewer_zone: Viewer = "UTC",
    url: Url = None,
    schema: Schema = None,
    json: Json = False,
) -> None:
    """Show the next runs of a trigger, or of a schedule that is not saved.

    Runs around the next clock change are added, with a note.
    """
    with explain_errors(json):
        wanted = read_when(cron, interval, anchor, zone)
        if (trigger is None) == (wanted is None):
            raise InvalidInput(
                "preview needs a trigger, or a schedule. Nothing was changed.",
                fix="Pass an ID; or --cron or --every.",
            )

        async def previewed(control: Control) -> tuple[str, Preview]:
            if wanted is not None:
                return in_words(wanted), await control.triggers.preview_schedule(wanted, count, viewer_zone)
            found = await control.triggers.find(str(trigger), read_owner(tenant, all_tenants))
            return in_words(found.rule.schedule), await control.triggers.preview(found, count, viewer_zone)

        words, shown = ask(url, schema, previewed)
        if json:
            print_json(views.preview(shown))
        else:
            show_preview(words, shown)


@commands.command(cls=Command)
def decisions(
    trigger: TheTrigger,
    limit: Annotated[int, typer.Option("--limit", "-n", help="At most so many.", min=1, max=10_000)] = 50,
    tenant: Tenant = None,
    all_tenants: OfAll = False,
    url: Url = None,
    schema: Schema = None,
    json: Json = False,
) -> None:
    """List what a trigger decided, the newest first: fired, deduped, skipped, missed, error."""
    with explain_errors(json):

        async def listed(control: Control) -> list[Decision]:
            found = await control.triggers.find(trigger, read_owner(tenant, all_tenants))
            return list(await control.triggers.decisions(found, limit))

        found = ask(url, schema, listed)
        if json:
            print_json([views.decision(each) for each in found])
        elif found:
            show_table(stdout, ["AT", "TENANT", "DECISION", "FIRE OR EVENT", "JOB", "WHY"], map(decision_row, found))
        stderr.print(format_count(len(found), "decision"))
