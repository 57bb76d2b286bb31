"""Reads the metrics of a process as a test compares them: by name and labels."""

import asyncio
import re
from urllib.error import HTTPError
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families
from tests.worker.shop import Process

from leasehold.app.process_status import FleetFigures, MetricsCollector, render_once
from leasehold.model.fleet_snapshot import FleetSnapshot
from leasehold.telemetry.metrics import Metrics, ProcessState


class Samples:
    """The samples of one text of metrics."""

    def __init__(self, text: str) -> None:
        self._values = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def total(self, name: str, **labels: str) -> float:
        """Adds up the samples of this name that have these labels."""
        wanted = labels.items()
        return sum(
            value for (each, found), value in self._values.items() if each == name and wanted <= dict(found).items()
        )

    def values_of(self, label: str, name: str) -> set[str]:
        """Returns the values that a label has in the samples of this name."""
        return {dict(found)[label] for each, found in self._values if each == name}


def samples_of(metrics: Metrics, fleet: FleetSnapshot | None = None, state: ProcessState | None = None) -> Samples:
    """Returns what a process with these counts and this state would expose."""
    _, text = render_once(MetricsCollector(metrics, FleetFigures(lambda: fleet), lambda: state), "")
    return Samples(text.decode())


def get(url: str) -> tuple[int, str]:
    """Returns the code and the text of an answer. Raises OSError if there is none."""
    try:
        with urlopen(url, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


async def ask_status(process: Process, path: str) -> tuple[int, str]:
    """Returns an answer of the status server of a process, by a thread: the server is another process."""
    await process.says("/metrics")
    (address,) = re.findall(r"metrics\s+(http://127\.0\.0\.1:\d+)/metrics", process.said)
    return await asyncio.to_thread(get, f"{address}{path}")


async def read_status(process: Process, path: str) -> str:
    code, text = await ask_status(process, path)
    assert code == 200, text
    return text


async def read_samples(process: Process) -> Samples:
    return Samples(await read_status(process, "/metrics"))
