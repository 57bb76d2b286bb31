"""A real Prometheus scrapes a worker and the API of the demo: each query of the dashboard returns data.

Its promtool checks the alerts, with figures that make each of them fire, and the metrics of a worker.
"""

import asyncio
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

import httpx
import pytest
import yaml
from tests.conftest import eventually
from tests.deploy.prometheus_programs import require_program
from tests.deploy.test_programs import MAIN, ROOT, Start, free_port, status_of
from tests.deploy.test_programs import start as start
from tests.deploy.test_queries import EXPRESSIONS, PROMETHEUS, RULES
from tests.telemetry.samples import read_status
from tests.worker.shop import Process

from leasehold.model.access import Permission, Role
from leasehold.operations import tokens
from leasehold.store import Store

OF_ALERTS = {rule["alert"] for rule in RULES}


class Fleet:
    """A worker and an API of the demo, and a Prometheus that scrapes both each second."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder, self._url = folder, url
        self.prometheus, self.api = free_port(), free_port()
        self._running: list[Process] = []
        self.problems: list[BaseException | None] = []

    def start(self, token: str) -> None:
        """Starts all three. Prometheus shows the API this token, as docs/how-to/production.md tells."""
        for file in ("examples/demo/app.py", "deploy/prometheus/alerts.yaml"):
            shutil.copy(ROOT / file, self._folder)
        (self._folder / "token").write_text(token)
        worker = free_port()
        self._leasehold("worker", "app.py", "--slots", "2", "--grace", "1s", "--metrics-port", str(worker))
        self._leasehold("serve", "app.py", "--port", str(self.api))
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": ["alerts.yaml"],
            "scrape_configs": [
                {"job_name": "leasehold", "static_configs": [{"targets": [f"127.0.0.1:{worker}"]}]},
                {
                    "job_name": "leasehold-api",
                    "metrics_path": "/api/v1/metrics",
                    "authorization": {"credentials_file": "token"},
                    "static_configs": [{"targets": [f"127.0.0.1:{self.api}"]}],
                },
            ],
        }
        (self._folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
        options = {
            "config.file": "prometheus.yaml",
            "storage.tsdb.path": "data",
            "web.listen-address": f"127.0.0.1:{self.prometheus}",
        }
        self._begin(["prometheus", *(f"--{name}={value}" for name, value in options.items())])

    def _leasehold(self, *words: str) -> None:
        self._begin([sys.executable, "-c", MAIN, *words])

    def _begin(self, command: list[str]) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LEASEHOLD_")}
        log = self._folder / f"log-{len(self._running)}"
        self._running.append(Process(command, kept | {"LEASEHOLD_URL": self._url}, log, self._folder))

    def ask(self, path: str) -> Any:
        assert self.problems == []
        for process in self._running:
            assert not process.ended, process.said
        with urlopen(f"http://127.0.0.1:{self.prometheus}/api/v1/{path}", timeout=30) as answer:
            return json.load(answer)["data"]

    def note_end(self, producer: "asyncio.Task[None]") -> None:
        if not producer.cancelled():
            self.problems.append(producer.exception())

    async def returns_data(self, expression: str) -> None:
        async def has_data() -> bool:
            return bool(self.ask(f"query?query={quote(expression)}")["result"])

        await eventually(has_data, what=f"data of {expression}")

    async def stop(self) -> None:
        for process in self._running:
            if not process.ended:
                process.send(signal.SIGTERM)
        for process in self._running:
            await process.code()


@dataclass(frozen=True)
class Demo:
    """A fleet, and a token that may enqueue."""

    fleet: Fleet
    token: str


@pytest.fixture
async def demo(tmp_path: Path, database_url: str, store: Store) -> AsyncIterator[Demo]:
    require_program("prometheus")
    fleet = Fleet(tmp_path, database_url)
    only_metrics = frozenset({Permission.METRICS_READ})
    _, of_prometheus = await tokens.create(store, "prometheus", Role.SUPER_ADMIN, permissions=only_metrics)
    _, of_producer = await tokens.create(store, "producer", Role.SUPER_ADMIN)
    fleet.start(str(of_prometheus))

    async def is_ready() -> bool:
        ready = (f"{fleet.prometheus}/-/ready", f"{fleet.api}/api/v1/ready")
        return all(status_of(f"http://127.0.0.1:{each}") == 200 for each in ready)

    await eventually(is_ready, what="a Prometheus and an API that are ready")
    yield Demo(fleet, str(of_producer))
    await fleet.stop()


async def keep_busy(demo: Demo) -> None:
    """Enqueues jobs of the demo that succeed, retry, give up and wait, until it is canceled."""
    client = httpx.AsyncClient(base_url=f"http://127.0.0.1:{demo.fleet.api}/api/v1", timeout=30)
    async with client:
        for number in itertools.count():
            shop = ("alpine", "harbor", "meadow")[number % 3]
            for key, payload in {
                "send_mail": {"order": number, "subject": "We have your photos"},
                "charge_card": {"order": number, "cents": 900},
                "import_prices": {"supplier": "Paper & Sons"},
                "print_photos": {"order": number, "sheets": 4},
            }.items():
                sent, headers = {"definition_key": key, "payload": payload}, {"Authorization": f"Bearer {demo.token}"}
                answer = await client.post("/jobs", json=sent, headers=headers, params={"tenant": shop})
                assert answer.status_code == 201, answer.text
            await asyncio.sleep(0.3)


def filled_in(expression: str) -> str:
    """Puts values in place of the dashboard's variables."""
    for name, value in {"$__rate_interval": "30s", "$job_type": ".*", "$tenant": ".*"}.items():
        expression = expression.replace(name, value)
    return expression


def run_promtool(*words: str, given: str | None = None) -> None:
    done = subprocess.run(
        ["promtool", *words], cwd=PROMETHEUS, input=given, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "words", [["check", "rules", "alerts.yaml"], ["test", "rules", "alerts_test.yaml"]], ids=" ".join
)
def test_promtool_accepts_the_alerts(words: list[str]) -> None:
    require_program("promtool")
    run_promtool(*words)


async def test_promtool_accepts_the_metrics_of_a_worker(start: Start) -> None:
    require_program("promtool")
    worker = start(["worker", "app.py", "--metrics-port", "0"])
    text = await read_status(worker, "/metrics")
    await asyncio.to_thread(run_promtool, "check", "metrics", given=text)
    worker.send(signal.SIGTERM)
    assert await worker.code() == 0, worker.said


@pytest.mark.parametrize("variable", ["CI", "REQUIRE_PROMETHEUS", None])
def test_a_missing_program_fails_where_it_is_required(variable: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    for each in ("CI", "REQUIRE_PROMETHEUS"):
        monkeypatch.setenv(each, "1") if each == variable else monkeypatch.delenv(each, raising=False)
    with pytest.raises((pytest.fail.Exception, pytest.skip.Exception), match="is not installed") as found:
        require_program("no-such-program")
    assert found.type is (pytest.fail.Exception if variable else pytest.skip.Exception)


@pytest.mark.timeout(600)
async def test_each_query_of_the_dashboard_returns_data(demo: Demo) -> None:
    fleet, producer = demo.fleet, asyncio.create_task(keep_busy(demo))
    producer.add_done_callback(fleet.note_end)
    try:
        await fleet.returns_data("leasehold_fleet_workers > 0")
        for name, expression in EXPRESSIONS.items():
            if name not in OF_ALERTS:
                await fleet.returns_data(filled_in(expression))
    finally:
        producer.cancel()
        await asyncio.gather(producer, return_exceptions=True)
    loaded = [rule for group in fleet.ask("rules")["groups"] for rule in group["rules"]]
    assert {rule["name"] for rule in loaded} == OF_ALERTS
    assert [rule["lastError"] for rule in loaded if rule.get("lastError")] == []
