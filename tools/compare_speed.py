"""Compares the speed of two checkouts, in turn, beside a control: the older one against itself.

    git worktree add ../older a06ea11
    python tools/compare_speed.py ../older --rounds 7

Runs `python -m bench` in the older checkout, in this one, and in the older one again, round by round, so that all
three meet the same disturbances. Prints one Markdown row per measure: the medians, their ratio, and the ratio of the
control. Both checkouts are run by this Python, which needs the packages of `make bench`.
"""

import argparse
import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parents[1]
MEASURES = "drain,bulk,latency,enqueue"
SYSTEM = "leasehold"
# Figures in which less is better; the others are jobs a second.
LESS_IS_BETTER = ("latency", "client", "server")

Samples = dict[str, list[float]]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("older", type=Path, help="the checkout to compare this one with")
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--only", default=MEASURES, help="measures of python -m bench, with commas")
    chosen = options.parse_args()
    runs = {"before": chosen.older.resolve(), "after": HERE, "control": chosen.older.resolve()}
    samples: dict[str, Samples] = {name: defaultdict(list) for name in runs}
    for number in range(chosen.rounds):
        for name, checkout in runs.items():
            print(f"round {number + 1} of {chosen.rounds}: {name}", file=sys.stderr)  # noqa: T201
            for measure, values in run(checkout, chosen.only).items():
                samples[name][measure] += values
    for row in table(samples):
        print(row)  # noqa: T201


def run(checkout: Path, only: str) -> Samples:
    """Returns the figures of one round in a checkout, by measure."""
    results = checkout / "bench"
    before = {path: path.stat().st_mtime_ns for path in results.glob("RESULTS*.json")}
    subprocess.run(
        [sys.executable, "-m", "bench", "--only", only, "--systems", SYSTEM, "--rounds", "1"],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout / "src")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    (written,) = [path for path in results.glob("RESULTS*.json") if before.get(path) != path.stat().st_mtime_ns]
    figures = json.loads(written.read_text())
    found: Samples = {each["measure"]: each["values"] for each in figures["samples"] if each["system"] == SYSTEM}
    for each in figures["costs"]:
        if each["system"] == SYSTEM:
            for part in ("client", "server"):
                found[f"{each['measure']}: {part}, µs a job"] = [
                    cost[part] for cost in each["values"] if cost[part] is not None
                ]
    return {measure: values for measure, values in found.items() if values}


def table(samples: dict[str, Samples]) -> list[str]:
    """Returns Markdown. A ratio above 1 means that this checkout is better."""
    rows = ["| measure | before | after | better by | control |", "|---|---|---|---|---|"]
    for measure in samples["before"]:
        if measure not in samples["after"]:
            continue
        before, after, control = (median(samples[name][measure]) for name in ("before", "after", "control"))
        less = any(word in measure for word in LESS_IS_BETTER)
        gain, noise = (before / each if less else each / before for each in (after, control))
        rows.append(f"| {measure} | {before:,.4g} | {after:,.4g} | {gain:.2f}× | {noise:.2f}× |")
    return rows


if __name__ == "__main__":
    main()
