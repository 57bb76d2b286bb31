"""The options of `leasehold triggers`, and how they are read."""

from typing import Annotated, Any

import typer

from leasehold.cli.options import read_tenant
from leasehold.cli.payload import read_document, read_moment
from leasehold.config import read_switch
from leasehold.errors import InvalidInput, NoTenant
from leasehold.model.duration import read_duration
from leasehold.model.schedule import EPOCH, Every
from leasehold.model.schedule import Schedule as AnySchedule
from leasehold.model.trigger import ALL
from leasehold.operations.triggers import Owner, change_schedule, read_schedule

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


def read_owner(tenant: str | None, all_tenants: bool) -> Owner | None:
    return ALL if all_tenants else read_tenant(tenant)


def no_owner() -> NoTenant:
    return NoTenant("a trigger needs a tenant. Nothing was changed.", fix="Write --tenant acme, or --all-tenants.")


def read_when(
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


def read_rule(
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
