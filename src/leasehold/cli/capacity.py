"""`leasehold capacity`."""

import re
from typing import Annotated

import typer

from leasehold.cli.options import Json
from leasehold.cli.output import explain_errors, print_json, stdout
from leasehold.cli.tables import show_line, show_table
from leasehold.errors import InvalidInput
from leasehold.model.dynamodb_capacity import LARGEST_ITEM, Capacity, Load, capacity_for

_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*/\s*(s|min|h|d)", re.IGNORECASE)
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(B|kB|MB)?", re.IGNORECASE)
_SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86_400}
_BYTES = {"": 1, "b": 1, "kb": 1024, "mb": 1024 * 1024}
MOST = 1_000_000


def capacity(
    rate: Annotated[str, typer.Option(help="Jobs per time, as in 500/s or 20000/h.")],
    payload: Annotated[str, typer.Option(help="The size of a payload, as in 2kB.")] = "1kB",
    definitions: Annotated[int, typer.Option(help="Over how many definitions they spread.", min=1)] = 1,
    tenants: Annotated[int, typer.Option(help="Over how many tenants they spread.", min=1)] = 1,
    dedupe: Annotated[bool, typer.Option("--dedupe", help="Each job has a dedupe key while it is active.")] = False,
    shards: Annotated[
        int | None, typer.Option(help="Shards of the table; as many as needed.", min=1, max=100)
    ] = None,
    json: Json = False,
) -> None:
    """Say which capacity a rate of jobs needs on DynamoDB.

    Computes from AWS's published limits; asks no table.
    """
    with explain_errors(json):
        found = capacity_for(Load(_read_rate(rate), _read_size(payload), definitions, tenants, dedupe), shards)
        if json:
            print_json(_document(found))
        else:
            _show(found)


def _read_rate(text: str) -> float:
    match = _RATE.fullmatch(text.strip())
    found = float(match[1]) / _SECONDS[match[2].lower()] if match else 0.0
    if not 0 < found <= MOST:
        raise InvalidInput(
            f"--rate {text!r:.40} is not a rate of jobs, of at most {MOST:,} per second.",
            fix="Nothing was computed. Write it as 500/s, 3000/min or 20000/h.",
        )
    return found


def _read_size(text: str) -> int:
    match = _SIZE.fullmatch(text.strip())
    found = int(float(match[1]) * _BYTES[(match[2] or "").lower()]) if match else -1
    if not 0 <= found < LARGEST_ITEM:
        raise InvalidInput(
            f"--payload {text!r:.40} is not a size below {LARGEST_ITEM // 1024} kB, the limit of an item.",
            fix="Nothing was computed. Write it as 500B or 2kB; keep larger data elsewhere, and pass its address.",
        )
    return found


def _show(found: Capacity) -> None:
    load = found.load
    show_line(stdout, f"{load.rate:,.4g} jobs/s with payloads of {load.payload:,} bytes need {found.shards} shards.")
    show_line(stdout, "")
    rows = [[step.name, str(units)] for step, units in found.units_of_steps]
    show_table(stdout, ["STEP", "WRITE UNITS"], [*rows, ["a job", str(found.units_of_job)]])
    show_line(stdout, "")
    show_line(
        stdout,
        f"The table and its indexes write {found.table_units:,.0f} units/s, on about {found.partitions} partitions.",
    )
    show_line(stdout, "")
    limits = [[limit.name, f"{limit.rate:,.0f}/s", limit.remedy] for limit in found.limits]
    show_table(stdout, ["LIMIT", "BREAKS AT", "REMEDY"], limits)
    if breaking := [limit.name for limit in found.limits if limit.rate < load.rate]:
        show_line(stdout, f"! This rate is above {', '.join(breaking)}.")


def _document(found: Capacity) -> dict[str, object]:
    return {
        "rate": found.load.rate,
        "shards": found.shards,
        "write_units": {step.name: units for step, units in found.units_of_steps} | {"job": found.units_of_job},
        "write_units_per_second": found.table_units,
        "partitions": found.partitions,
        "fits": found.fits,
        "limits": [{"limit": limit.name, "breaks_at": limit.rate, "remedy": limit.remedy} for limit in found.limits],
    }
