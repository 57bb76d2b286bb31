"""A client that openapi-python-client generates from the OpenAPI document runs the example of the README."""

import importlib
import json
import subprocess
import sys
from typing import Any

import pytest
from tests.api.conftest import ACME, make_app
from tests.conftest import eventually

from leasehold import Job, Leasehold
from leasehold.cli.api_server import address_of, bind, serving
from leasehold.model.access import Role
from leasehold.operations import tokens

# As docs/how-to/api.md shows it; the generator knows no type for lines of JSON, and formats its code by default.
CONFIG = {"content_type_overrides": {"application/x-ndjson": "application/octet-stream"}, "post_hooks": []}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of a generated package that can be imported. A warning of the generator fails the test."""
    folder = tmp_path_factory.mktemp("generated")
    (folder / "openapi.json").write_text(json.dumps(make_app("postgresql://x/y").api().openapi()))
    (folder / "config.json").write_text(json.dumps(CONFIG))
    words = ["generate", "--path", "openapi.json", "--config", "config.json", "--meta", "none", "--fail-on-warning"]
    done = subprocess.run(
        [sys.executable, "-m", "openapi_python_client", *words, "--output-path", "leasehold_client"],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    sys.path.insert(0, str(folder))
    return "leasehold_client"


def readme_app(url: str) -> Leasehold:
    app = Leasehold(url)

    @app.job(timeout="10m", max_attempts=5)
    async def sync_folder(job: Job, provider_id: str, path: str = "/") -> int:
        job.log(f"syncing {path} of {provider_id} for {job.tenant}")
        return 3

    return app


async def test_a_generated_client_runs_the_example(package: str, database_url: str) -> None:
    def part(name: str) -> Any:
        return importlib.import_module(f"{package}.{name}")

    models, app = part("models"), readme_app(database_url)
    bound = bind("127.0.0.1", 0)
    address = address_of(bound)
    async with app.open(worker=True), serving(app.api(), bound):
        _, token = await tokens.create(app.store, "operator of acme", Role.OPERATOR, tenant=ACME)
        async with part("client").AuthenticatedClient(base_url=address, token=str(token)) as client:
            payload = models.EnqueueJobPayload.from_dict({"provider_id": "p_9"})
            body = models.EnqueueJob(definition_key="sync_folder", payload=payload)
            enqueue = part("api.jobs.enqueue_job").asyncio
            placed = await enqueue(client=client, body=body, idempotency_key="order-7")
            again = await enqueue(client=client, body=body, idempotency_key="order-7")
            assert (placed.created, again.created, again.id) == (True, False, placed.id)

            async def has_ended() -> bool:
                shown = await part("api.jobs.show_job").asyncio(placed.id, client=client)
                return bool(shown.status == "succeeded" and shown.result == 3)

            await eventually(has_ended)
            page = await part("api.jobs.list_jobs").asyncio(client=client, status=["succeeded"])
            assert [job.id for job in page.jobs] == [placed.id]
            logged = await part("api.logs.list_log_lines").asyncio(placed.id, client=client)
            assert logged.lines[0]["text"] == "syncing / of p_9 for acme"
            refused = await part("api.jobs.cancel_job").asyncio(placed.id, client=client)
            assert (refused.status, refused.code) == (409, "LH-1009")
