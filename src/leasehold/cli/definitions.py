"""`leasehold definitions`: lists, shows, syncs, overrides and (de)activates definitions."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Any

import typer
from rich.text import Text

from leasehold.app import Leasehold
from leasehold.cli.argv_preview import show_argv
from leasehold.cli.definition_values import HOW_TO_SET, read_values
from leasehold.cli.help import Command, DatabaseCommand, Group
from leasehold.cli.interrupts import run
from leasehold.cli.options import Commands, Json, OfTenant, Schema, Url, ask, require_database
from leasehold.cli.output import explain_errors, print_json, stderr, stdout
from leasehold.cli.tables import Cell, show_line, show_table
from leasehold.cli.target import load_target
from leasehold.control.protocol import Document
from leasehold.model.definition import Change
from leasehold.model.duration import span
from leasehold.operations import admin, views
from leasehold.operations.triggers import described_owner
from leasehold.operations.views import format_count, printable
from leasehold.store import TriggerChange

Key = Annotated[str, typer.Argument(metavar="KEY", help="The definition.")]
Values = Annotated[list[str] | None, typer.Argument(metavar="FIELD=VALUE…", help=HOW_TO_SET)]
Revision = Annotated[int | None, typer.Option(help="Only if it still has this revision, as `show` prints it.")]

commands = typer.Typer(cls=Group, invoke_without_command=True)


@commands.callback()
def definitions(context: typer.Context, url: Url = None, schema: Schema = None, json: Json = False) -> None:
    """List the kinds of jobs; show, sync or change them."""
    if context.invoked_subcommand is None:
        _list(url, schema, json)
    elif url or schema or json:
        raise typer.BadParameter(f"options belong after {context.invoked_subcommand}, not before it")


@commands.command("list", cls=Command)
def list_all(url: Url = None, schema: Schema = None, json: Json = False) -> None:
    """List all definitions."""
    _list(url, schema, json)


def _list(url: str | None, schema: str | None, json: bool) -> None:
    with explain_errors(json):
        found = ask(url, schema, lambda control: control.definitions.list())
        if json:
            print_json(found)
        elif found:
            columns = ["KEY", "VERSION", "ACTIVE", "TIMEOUT", "TRIES", "PRIORITY", "DESCRIPTION"]
            show_table(stdout, columns, [_row(definition) for definition in found])
        for definition in found:
            for problem in definition.get("unreadable", ()):
                stderr.print(printable(f"! {definition['key']}: {problem}"), markup=False)
        stderr.print(format_count(len(found), "definition"))


def _row(definition: Document) -> list[Cell]:
    return [
        definition["key"],
        str(definition["version"]),
        "yes" if definition["active"] else Text("no", style="yellow"),
        span(timedelta(seconds=definition["timeout"])),
        str(definition["max_attempts"]),
        str(definition["priority"]),
        definition["description"],
    ]


@commands.command(cls=Command)
def show(
    key: Key,
    payload: Annotated[
        str | None, typer.Option(help="Show the argv that a command would run: JSON, @file, or - for stdin.")
    ] = None,
    target: Annotated[str | None, typer.Option("--app", help="The app with the command, like app.py.")] = None,
    commands: Commands = None,
    tenant: OfTenant = None,
    url: Url = None,
    schema: Schema = None,
    json: Json = False,
) -> None:
    """Show a definition as JSON, its schema included.

    With --payload, show the argv of a command for it; nothing is run.
    """
    with explain_errors(json):
        if payload is not None:
            show_argv(load_target(target, commands), key, payload, tenant, json)
            return
        if target is not None or commands is not None:
            raise typer.BadParameter("--app and --commands need a --payload to show an argv for")
        _show(ask(url, schema, lambda control: control.definitions.details(key)), json)


def _show(document: Document, json: bool) -> None:
    if json:
        print_json(document)
    else:
        show_line(stdout, views.as_json(document, indented=True).decode())


@commands.command("create", cls=Command)
def create(key: Key, values: Values = None, url: Url = None, schema: Schema = None, json: Json = False) -> None:
    """Create a definition that no code declares.

    Workers that serve its key run its jobs. Values as for `definitions set`.
    """
    with explain_errors(json):
        given = read_values(values or ())
        shown = ask(url, schema, lambda control: control.definitions.create(key, given))
        _confirm(shown, json, "is created")


@commands.command("set", cls=Command)
def set_fields(
    key: Key,
    values: Annotated[list[str], typer.Argument(metavar="FIELD=VALUE…", help=HOW_TO_SET)],
    revision: Revision = None,
    url: Url = None,
    schema: Schema = None,
    json: Json = False,
) -> None:
    """Set fields of a definition in place of those of its code.

    New jobs get them, waiting jobs keep theirs. A sync of the code does not undo it.
    """
    with explain_errors(json):
        given = read_values(values)
        shown = ask(url, schema, lambda control: control.definitions.override(key, given, revision))
        authors = sorted({shown["origins"][name].get("by") or "its code" for name in given})
        _confirm(shown, json, f"has {', '.join(given)} set by {', '.join(authors)}")


@commands.command("reset", cls=Command)
def reset_fields(
    key: Key,
    fields: Annotated[list[str] | None, typer.Argument(metavar="FIELD…", help="Left out: all fields.")] = None,
    revision: Revision = None,
    url: Url = None,
    schema: Schema = None,
    json: Json = False,
) -> None:
    """Let fields of a definition be as its code has them."""
    with explain_errors(json):
        shown = ask(url, schema, lambda control: control.definitions.reset(key, fields or (), revision))
        _confirm(shown, json, f"has {', '.join(fields or ()) or 'all fields'} as its code")


def _confirm(shown: Document, json: bool, state: str) -> None:
    if json:
        print_json(shown)
    else:
        show_line(stdout, f"✓ {shown['key']} {state}; new jobs get version {shown['version']}")


@commands.command(cls=Command)
def activate(key: Key, url: Url = None, schema: Schema = None, json: Json = False) -> None:
    """Take new jobs of a definition again, and let go on what waits."""
    _set_active(key, True, url, schema, json)


@commands.command(cls=Command)
def deactivate(key: Key, url: Url = None, schema: Schema = None, json: Json = False) -> None:
    """Take no new jobs of a definition; what waits is held, what runs goes on."""
    _set_active(key, False, url, schema, json)


def _set_active(key: str, active: bool, url: str | None, schema: str | None, json: bool) -> None:
    with explain_errors(json):
        changed = ask(url, schema, lambda control: control.definitions.set_active(key, active))
        if json:
            print_json(changed)
        else:
            show_line(stdout, f"✓ {key} is {'active' if changed['active'] else 'inactive: it takes nothing new'}")


@commands.command(cls=DatabaseCommand)
def sync(
    target: Annotated[
        str | None,
        typer.Argument(metavar="TARGET", help="file.py or package.module, or either:name.", show_default=False),
    ] = None,
    commands: Commands = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the difference, change nothing.")] = False,
    url: Url = None,
    schema: Schema = None,
    json: Json = False,
) -> None:
    """Register the code's definitions, and print what differs, field by field."""
    with explain_errors(json):
        app = load_target(target, commands)
        app.configure(url=url, schema=schema)
        require_database(app)
        changes, triggers = run(_sync(app, dry_run))
        if json:
            print_json([*map(views.change, changes), *map(views.trigger_change, triggers)])
        else:
            for change in changes:
                _show_change(change, dry_run)
            for trigger in triggers:
                _show_trigger_change(trigger, dry_run)
        differing = sum(bool(change.created or change.fields) for change in changes)
        differing += sum(trigger.differs for trigger in triggers)
        nouns = Counter(each.noun for each in triggers)
        declared = "".join(f" and {format_count(count, noun)}" for noun, count in nouns.items())
        stderr.print(
            f"{format_count(len(changes), 'definition')}{declared}, {differing} "
            + ("would change. Nothing was changed." if dry_run else "changed")
        )


async def _sync(app: Leasehold, dry_run: bool) -> tuple[Sequence[Change], Sequence[TriggerChange]]:
    async with app.open():
        changes = await admin.sync(app.store, app.handlers.definitions, dry_run=dry_run)
        return changes, await app.handlers.sync_triggers(app.store, dry_run=dry_run)


def _show_trigger_change(change: TriggerChange, dry_run: bool) -> None:
    name = f"{change.noun} {change.label} of {described_owner(change.tenant)}"
    if change.removed:
        show_line(stdout, f"- {name}  {'would be removed' if dry_run else 'removed'}")
    elif change.created:
        show_line(stdout, f"+ {name}  new")
    elif change.fields:
        show_line(stdout, f"~ {name}  differs" if dry_run else f"~ {name}  now version {change.version}")
    else:
        show_line(stdout, f"= {name}  version {change.version}")
    for field, (before, after) in change.fields.items():
        old, new = (views.as_json(views.rule_value(value)).decode() for value in (before, after))
        show_line(stdout, f"    {field}: {old} → {new}")


def _show_change(change: Change, dry_run: bool) -> None:
    if change.created:
        show_line(stdout, f"+ {change.key}  new" + ("" if dry_run else f", version {change.version}"))
    elif change.fields:
        now = f"differs from version {change.version}" if dry_run else f"now version {change.version}"
        show_line(stdout, f"~ {change.key}  {now}")
    else:
        show_line(stdout, f"= {change.key}  version {change.version}")
    for name, (_, kept) in change.overridden.items():
        show_line(stdout, f"    {name}: stays {_value(kept)}, set by an administrator")
    for name, (before, after) in change.fields.items():
        for place, old, new in _differing(name, before, after):
            show_line(stdout, f"    {place}: {old} → {new}")


def _differing(name: str, before: Any, after: Any) -> Iterator[tuple[str, str, str]]:
    """Yields differences down to the fields of a schema, which is too long to be compared by eye."""
    old, new = dict(_leaves(name, before)), dict(_leaves(name, after))
    for place in old | new:
        if old.get(place) != new.get(place):
            yield place, old.get(place, "–"), new.get(place, "–")


def _leaves(place: str, value: Any) -> Iterator[tuple[str, str]]:
    value = views.field_value(value)
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from _leaves(f"{place}.{name}", inner)
    else:
        yield place, _value(value)


def _value(value: Any) -> str:
    value = views.field_value(value)
    return span(value) if isinstance(value, timedelta) else views.as_json(value).decode()
