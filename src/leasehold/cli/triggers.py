"""`leasehold triggers`: lists, adds, shows, edits, removes, pauses and previews triggers."""

from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.text import Text

from leasehold.app import Leasehold
from leasehold.app.triggers import new_trigger
from leasehold.cli.format import at, relative, short, utc_now
from leasehold.cli.help import Command, Group
from leasehold.cli.options import Json, Schema, Url, ask, read_tenant
from leasehold.cli.output import explain_errors, print_json, stderr, stdout
from leasehold.cli.payload import read_document, read_moment
from leasehold.cli.tables import Cell, show_line, show_table
from leasehold.config import read_switch
from leasehold.errors import InvalidInput, NoTenant
from leasehold.model.decision import Decision, DecisionKind
from leasehold.model.duration import read_duration
from leasehold.model.preview import Preview, Run
from leasehold.model.schedule import EPOCH, Every
from leasehold.model.schedule import Schedule as AnySchedule
from leasehold.model.trigger import ALL, Origin, Trigger
from leasehold.operations import triggers as operations
from leasehold.operations import views
from leasehold.operations.triggers import Owner, change_schedule, described_owner, in_words, read_schedule
from leasehold.operations.views import format_count, printable

Tenant = Annotated[
    str | None,
    typer.Option("--tenant", "-t", envvar="LEASEHOLD_TENANT", show_envvar=False, help="Default: LEASEHOLD_TENANT."),
]
AllTenants = Annotated[bool, typer.Option("--all-tenants", help="For all tenants, new ones included.")]
OfAll = Annotated[bool, typer.Option("--all-tenants", help="One for all tenants.")]
Limit = Annotated[int, typer.Option("--limit", "-n", help="At most so many.", min=1, max=100_000)]
TheTrigger = Annotated[str, typer.Argument(metavar="ID", help="Its id, the last 4 or more characters, or its label.")]
Cron = Annotated[str | None, typer.Option(help="When it fires: '0 2 * * *', @daily.")]
Interval = Annotated[str | None, typer.Option("--every", help="Fire in an interval, as in 15m.")]
Anchor = Annotated[str | None, typer.Option(help="Where --every begins: 2030-01-31T09:00Z.")]
Zone = Annotated[str | None, typer.Option(help="Of --cron: Europe/Berlin. Default: UTC.")]
OnEvent = Annotated[str | None, typer.Option("--event", help="Fire on this event, or on provider.*.")]
OnlyIf = Annotated[str | None, typer.Option("--filter", help="Comparisons of its data: JSON or @file.")]
Window = Annotated[str | None, typer.Option("--dedupe-window", help="Drop equal jobs of events so long.")]
Trailing = Annotated[str | None, typer.Option(help="on: run once more after the window.")]
Payload = Annotated[str | None, typer.Option(help="A template: JSON, @file, or - for stdin.")]
Label = Annotated[str | None, typer.Option(help="For people. Default: the definition.")]
CatchUp = Annotated[str | None, typer.Option(help="Missed fires: skip, latest or all.")]
Cap = Annotated[int | None, typer.Option("--catch-up-cap", help="How many of all run. Default: 100.")]
Spread = Annotated[str | None, typer.Option(help="Spread over all tenants, as in 30m.")]
Enabled = Annotated[str | None, typer.Option(help="off: it does not fire.")]
CreatedBy = Annotated[str | None, typer.Option(help="Its author, for people.")]
Count = Annotated[int, typer.Option("--count", "-n", help="How many runs.")]
Viewer = Annotated[str, typer.Option(help="Your own zone.")]

commands = typer.Typer(cls=Group, invoke_without_command=True)

_STYLES = {
    DecisionKind.FIRED: "green",
    DecisionKind.DEDUPED: "dim",
    DecisionKind.SKIPPED: "yellow",
    DecisionKind.MISSED: "yellow",
    DecisionKind.ERROR: "red",
}


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
        _list(_owner(tenant, all_tenants), limit, url, schema, json)


def _list(owner: Owner | None, limit: int, url: str | None, schema: str | None, json: bool) -> None:
    with explain_errors(json):
        listed = ask(url, schema, lambda app: operations.list_all(app.store, owner, limit + 1))
        found = listed[:limit]
        if json:
            print_json([views.trigger(trigger) for trigger in found])
        elif found:
            columns = ["ID", "TENANT", "DEFINITION", "STATE", "NEXT", "FROM", "LABEL", "WHEN"]
            show_table(stdout, columns, [_row(trigger) for trigger in found])
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
        owner = _require_owner(tenant, all_tenants)
        schedule = _schedule(cron, interval, anchor, zone)
        options = _options(schedule, event, only_if, payload, label, catch_up, cap, spread, window, trailing, enabled)
        rule = new_trigger(definition, **options)
        saved = ask(url, schema, lambda app: app.triggers_of(owner).asave(rule, created_by))
        _confirm(saved, json, "is added")


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
        changes = _options(None, event, only_if, payload, label, catch_up, cap, spread, window, trailing, enabled)
        when = (cron, interval, anchor, zone)
        if not changes and when == (None,) * 4:
            raise InvalidInput("no option says what to change. Nothing was changed.", fix="Pass --cron, --payload, …")

        async def changed(app: Leasehold) -> Trigger:
            found = await operations.find(app.store, trigger, _owner(tenant, all_tenants))
            schedule = _schedule(*when, before=found.rule.schedule)
            renewed = {} if schedule is None else {"schedule": schedule}
            return await app.triggers_of(found.tenant).aupdate(found.id, **changes, **renewed)

        _confirm(ask(url, schema, changed), json, "is changed")


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
        found = ask(url, schema, lambda app: operations.find(app.store, trigger, _owner(tenant, all_tenants)))
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
    """Remove a trigger. Jobs that it has made stay."""
    with explain_errors(json):

        async def removed(app: Leasehold) -> Trigger:
            found = await operations.find(app.store, trigger, _owner(tenant, all_tenants))
            await operations.delete(app.store, found.tenant, found.id, force=force)
            return found

        gone = ask(url, schema, removed)
        _confirm(replace(gone, next_at=None), json, "is removed")
        if gone.origin is Origin.CODE:
            stderr.print("If code still declares it, the next sync brings it back.")


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

        async def paused(app: Leasehold) -> Trigger:
            found = await operations.find(app.store, trigger, _owner(tenant, all_tenants))
            return await operations.pause(app.store, found.tenant, found.id, why, end)

        _confirm(ask(url, schema, paused), json, "is paused")


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

        async def resumed(app: Leasehold) -> Trigger:
            found = await operations.find(app.store, trigger, _owner(tenant, all_tenants))
            return await operations.resume(app.store, found.tenant, found.id)

        _confirm(ask(url, schema, resumed), json, "is not paused")


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
        wanted = _schedule(cron, interval, anchor, zone)
        if (trigger is None) == (wanted is None):
            raise InvalidInput(
                "preview needs a trigger, or a schedule. Nothing was changed.",
                fix="Pass an ID; or --cron or --every.",
            )

        async def previewed(app: Leasehold) -> tuple[str, Preview]:
            if wanted is not None:
                shown = await operations.preview_schedule(app.store, wanted, count, viewer_zone)
                return in_words(wanted), shown
            found = await operations.find(app.store, str(trigger), _owner(tenant, all_tenants))
            _, shown = await operations.preview_trigger(app.store, found.tenant, found.id, count, viewer_zone)
            return in_words(found.rule.schedule), shown

        words, shown = ask(url, schema, previewed)
        if json:
            print_json(views.preview(shown))
        else:
            _show_preview(words, shown)


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

        async def listed(app: Leasehold) -> list[Decision]:
            found = await operations.find(app.store, trigger, _owner(tenant, all_tenants))
            return list(await operations.decisions(app.store, found.tenant, found.id, limit))

        found = ask(url, schema, listed)
        if json:
            print_json([views.decision(each) for each in found])
        elif found:
            show_table(stdout, ["AT", "TENANT", "DECISION", "FIRE OR EVENT", "JOB", "WHY"], map(_decision_row, found))
        stderr.print(format_count(len(found), "decision"))


# ---------------------------------------------------------------------------------------------------------- options


def _owner(tenant: str | None, all_tenants: bool) -> Owner | None:
    return ALL if all_tenants else read_tenant(tenant)


def _require_owner(tenant: str | None, all_tenants: bool) -> Owner:
    owner = _owner(tenant, all_tenants)
    if owner is None:
        raise NoTenant("a trigger needs a tenant. Nothing was added.", fix="Write --tenant acme, or --all-tenants.")
    return owner


def _schedule(
    cron: str | None,
    interval: str | None,
    anchor: str | None,
    zone: str | None,
    before: AnySchedule | None = None,
) -> AnySchedule | None:
    """Returns the schedule that the options say, or None; an edit keeps what they leave out of the one before."""
    if cron is not None and interval is not None:
        raise InvalidInput("--cron and --every can't both be set. Nothing was changed.", fix="Leave one out.")
    known = before if isinstance(before, Every) and cron is None else None
    if interval is not None or (anchor is not None and known is not None):
        length = known.interval if known is not None and interval is None else read_duration(interval)
        since = known.anchor if known is not None else EPOCH
        return read_schedule(Every(length, since if anchor is None else read_moment(anchor)), zone)
    if anchor is not None or (zone is not None and cron is None and before is None):
        raise InvalidInput(
            "--anchor goes with --every, and --zone with --cron. Nothing was changed.", fix="Pass both of them."
        )
    return None if cron is None and zone is None else change_schedule(before, cron, zone)


def _options(
    schedule: AnySchedule | None,
    event: str | None,
    only_if: str | None,
    payload: str | None,
    label: str | None,
    catch_up: str | None,
    cap: int | None,
    spread: str | None,
    window: str | None,
    trailing: str | None,
    enabled: str | None,
) -> dict[str, Any]:
    """Returns the options that were given, by the names of the model."""
    given = {
        "schedule": schedule,
        "event": event,
        "filter": None if only_if is None else read_document(only_if),
        "payload": None if payload is None else read_document(payload),
        "label": label,
        "catch_up": catch_up,
        "catch_up_cap": cap,
        "spread": None if spread is None else read_duration(spread),
        "dedupe_window": None if window is None else read_duration(window),
        "trailing": None if trailing is None else read_switch(trailing),
        "enabled": None if enabled is None else read_switch(enabled),
    }
    return {name: value for name, value in given.items() if value is not None}


# ------------------------------------------------------------------------------------------------------------- show


def _confirm(trigger: Trigger, json: bool, state: str) -> None:
    if json:
        print_json(views.trigger(trigger))
        return
    owner = described_owner(trigger.tenant)
    after = "" if trigger.next_at is None else f", next at {at(trigger.next_at)}"
    stderr.print(printable(f"✓ trigger {trigger.rule.label} of {owner} {state}{after}"), markup=False)
    show_line(stdout, trigger.id)


def _row(trigger: Trigger) -> list[Cell]:
    rule, now = trigger.rule, utc_now()
    when = in_words(rule.schedule) if rule.schedule is not None else f"on {rule.event}"
    if trigger.unreadable:
        when = f"can't be read: {'; '.join(trigger.unreadable.values())}"
    return [
        short(trigger.id),
        described_owner(trigger.tenant),
        rule.definition,
        _state(trigger, now),
        "–" if trigger.next_at is None else relative(trigger.next_at, now),
        "code" if trigger.origin is Origin.CODE else "data",
        rule.label,
        when,
    ]


def _state(trigger: Trigger, now: datetime) -> Text:
    if not trigger.rule.enabled:
        return Text("disabled", style="dim")
    if trigger.pause is not None and trigger.paused_at(now):
        return Text("paused", style="yellow")
    return Text("on", style="green")


def decision_style(kind: DecisionKind) -> str:
    return _STYLES[kind]


def _decision_row(decision: Decision) -> list[Cell]:
    cause = decision.event if decision.fire_at is None else at(decision.fire_at)
    return [
        "–" if decision.at is None else at(decision.at),
        decision.tenant or "all tenants",
        Text(decision.kind.value, style=decision_style(decision.kind)),
        cause or "–",
        "–" if decision.job is None else short(decision.job),
        decision.why or "–",
    ]


def _show_preview(words: str, shown: Preview) -> None:
    show_line(stdout, words)
    show_table(stdout, ["LOCAL", "UTC", "YOURS", "NOTE"], map(_run_row, shown.runs))
    if shown.change is not None and shown.around:
        show_line(stdout, f"Next clock change: {at(shown.change.at)}")
        show_table(stdout, ["LOCAL", "UTC", "YOURS", "NOTE"], map(_run_row, shown.around))
    if not shown.runs:
        stderr.print("It does not fire before the year 9999.")


def _run_row(run: Run) -> list[Cell]:
    notes = "; ".join(mark.note for mark in run.marks)
    return [
        f"{run.local:%a %Y-%m-%d %H:%M:%S %Z}",
        f"{run.at:%a %H:%M:%S}",
        f"{run.viewer:%a %H:%M:%S %Z}",
        notes or "–",
    ]
