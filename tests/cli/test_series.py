"""`leasehold series`."""

from datetime import timedelta

from tests.cli.terminal import CommandLine
from tests.store.bench import Bench


async def test_figures_are_shown_by_definition(leasehold: CommandLine, bench: Bench) -> None:
    await bench.succeeded()
    await bench.dead_lettered(definition="email")
    await bench.move_clock(timedelta(minutes=2))
    while await bench.store.roll_up():
        continue
    shown = await leasehold("series", "--by", "definition", "--window", "15m")
    assert shown.code == 0
    counts = {row[0]: row[4] for row in shown.rows if row[4] != "0"}
    assert counts == {"report": "1"}
    document = (await leasehold("series", "--tenant", "acme", "--json")).document
    (series,) = document["series"]
    assert sum(point["dead_letter"] for point in series["points"]) == 1
    assert series["points"][0]["run"] == {"count": 0, "p50": None, "p95": None}
