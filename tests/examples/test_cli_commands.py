"""The example with commands: a program runs with exactly the arguments of each job."""

import json
import sys
from pathlib import Path

import pytest
from tests.conftest import PATIENCE
from tests.examples.conftest import Example

from leasehold import Leasehold, Status
from leasehold.app.command_definition import CommandDefinition
from leasehold.app.command_file import load_commands
from leasehold.cli.target import load_app
from leasehold.model.job import job_id

FOLDER = Path(__file__).parents[2] / "examples/cli_commands"
TENANT = "1efe049f-ae71-4226-97be-236b4df4a93a"
PROVIDER = "0b9c0a5e-5f0e-4c8e-9d7c-3a1f5d2b7e60"
PRINTED = {
    "sync-dropbox": f"command=sync-dropbox tenant_id={TENANT} provider_id={PROVIDER} path_prefix=/photos; rm -rf / "
    "full=False",
    "recompute-trained-tags": f"command=recompute-trained-tags tenant_id={TENANT} model=siglip tag=['cat', '--help']",
    "recompute-zeroshot-tags": f"command=recompute-zeroshot-tags tenant_id={TENANT} model=None tag=[]",
    "train-keyword-models": f"command=train-keyword-models tenant_id={TENANT} model=None tag=[]",
}


@pytest.mark.parametrize("options", [["--commands", "commands.toml"], ["app.py"]], ids=["toml", "python"])
async def test_the_jobs_of_the_example_run_their_program(
    example: Example, database_url: str, options: list[str]
) -> None:
    ids = (await example.must("app.py", TENANT)).split()
    example.leasehold("worker", *options)
    async with Leasehold(database_url).open() as app:
        tenant = app.tenant(TENANT)
        jobs = [await tenant.jobs.await_until_final(job_id(each), PATIENCE) for each in ids]
        printed = {job.definition: (await tenant.jobs.alines(job.id)).lines for job in jobs if job is not None}
        assert [job and job.status for job in jobs] == [Status.SUCCEEDED] * 4
    assert {key: lines[-1].text for key, lines in printed.items()} == PRINTED
    assert printed["sync-dropbox"][0].text == f"job {ids[0]} try 1"


async def test_the_argv_of_the_example_is_that_of_the_specification(example: Example) -> None:
    payload = json.dumps({"provider_id": PROVIDER})
    for key, rest in {"sync-dropbox": f" --provider-id {PROVIDER}", "train-keyword-models": ""}.items():
        words = ("--commands", "commands.toml", "--tenant", TENANT)
        said = await example.must_leasehold(
            "definitions", "show", key, *words, "--payload", payload if rest else "{}"
        )
        assert said == f"{FOLDER}/zoltag {key} --tenant-id {TENANT}{rest}\n"


def test_the_file_and_the_app_declare_the_same_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    in_python, in_toml = load_app(str(FOLDER / "app.py")), Leasehold()
    load_commands(in_toml, FOLDER / "commands.toml")
    assert commands_of(in_python) == commands_of(in_toml)


def commands_of(app: Leasehold) -> list[object]:
    found = [app.definition(key) for key in app.handlers.keys]
    return [each.command for each in found if isinstance(each, CommandDefinition)]
