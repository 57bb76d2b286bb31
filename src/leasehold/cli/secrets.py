"""`leasehold secrets`: makes keys, and encrypts stored secrets by the newest key."""

from dataclasses import asdict
from typing import Annotated

import typer

from leasehold.cli.actor import cli_actor
from leasehold.cli.help import DatabaseCommand, Group
from leasehold.cli.options import Json, Schema, Url, ask_database
from leasehold.cli.output import explain_errors, print_json, stderr, stdout
from leasehold.cli.tables import show_line
from leasehold.config import keyring
from leasehold.model.keyring import new_secret_key
from leasehold.operations.secrets import BATCH, Rotation, rotate
from leasehold.operations.statuses import FAILED
from leasehold.operations.views import format_count

commands = typer.Typer(cls=Group, no_args_is_help=True)


@commands.callback()
def secrets() -> None:
    """Make keys for secret fields of payloads, and rotate them.

    Both commands take --json.
    """


@commands.command("new-key", cls=DatabaseCommand)
def make_key(json: Json = False) -> None:
    """Print a new key for LEASEHOLD_SECRET_KEY.

    Nothing is stored: keep it where you keep other secrets.
    """
    if json:
        print_json({"key": new_secret_key()})
    else:
        show_line(stdout, new_secret_key())


@commands.command("rotate", cls=DatabaseCommand)
def rotate_keys(
    url: Url = None,
    schema: Schema = None,
    json: Json = False,
    batch: Annotated[int, typer.Option(help="How many jobs are read at a time.", min=1, max=10_000)] = BATCH,
) -> None:
    """Encrypt the secrets of all jobs by the first key of LEASEHOLD_SECRET_KEY.

    Afterwards the other keys can be removed. It runs beside workers, and can be stopped and repeated.
    """
    with explain_errors(json):
        done = ask_database(url, schema, lambda app: rotate(app.store, keyring(), batch=batch, actor=cli_actor()))
        if json:
            print_json(asdict(done))
        else:
            _tell(done)
        if done.left:
            raise typer.Exit(FAILED)


def _tell(done: Rotation) -> None:
    key = keyring().current
    show_line(stdout, f"✓ {format_count(done.replaced, 'job')} encrypted by the key {key}")
    if done.passed:
        named = ", ".join(done.passed_over) + (" …" if done.passed > len(done.passed_over) else "")
        show_line(
            stdout, f"  {format_count(done.passed, 'job')} passed over, with values that no key encrypted: {named}"
        )
    if done.left:
        jobs = f" Not readable by any key: {', '.join(done.unreadable)}." if done.unreadable else ""
        stderr.print(
            f"! {format_count(done.left, 'job')} left with other keys.{jobs} Keep those keys, and rotate again.",
            markup=False,
        )
    else:
        show_line(stdout, "  no job needs another key any more")
