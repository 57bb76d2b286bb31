"""`leasehold definitions`."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from tests.cli.conftest import ORDER
from tests.cli.terminal import CommandLine
from tests.store.bench import Bench

from leasehold.model.backoff import Steps
from leasehold.model.definition import Definition, Registered
from leasehold.operations import admin
from leasehold.store import Store

APP = '''
from leasehold import Job, Leasehold

app = Leasehold()


@app.job(timeout="10m", max_attempts=3)
def sync_folder(job: Job, path: str = "/") -> None:
    """Syncs a folder."""


@app.job
def send(job: Job, to: str) -> None: ...
'''


@dataclass(frozen=True)
class Target:
    """A file with an app."""

    file: Path

    def __str__(self) -> str:
        return str(self.file)

    def becomes(self, content: str) -> None:
        self.file.write_text(content)


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Target]:
    """Undoes the effects of importing it."""
    target, path = Target(tmp_path / "leasehold_app_under_test.py"), list(sys.path)
    target.becomes(APP)
    yield target
    sys.path[:] = path
    sys.modules.pop(target.file.stem, None)


async def keys(store: Store) -> list[str]:
    return [registered.definition.key for registered in await store.definitions()]


@pytest.mark.parametrize("words", [["definitions"], ["definitions", "list"]])
async def test_bare_or_by_list_all_are_listed(leasehold: CommandLine, bench: Bench, words: list[str]) -> None:
    await bench.store.activate("email", active=False)
    listed = await leasehold(*words)
    assert listed.rows == [
        ["email", "1", "no", "1h", "3", "100"],
        ["order", "1", "yes", "1h", "5", "100", "Ships an order."],
        ["report", "1", "yes", "1h", "3", "100"],
    ]
    assert listed.err == "3 definitions\n"
    as_json = (await leasehold(*words, "--json")).document
    assert [(each["key"], each["active"]) for each in as_json] == [
        ("email", False),
        ("order", True),
        ("report", True),
    ]


async def test_an_option_before_the_command_is_refused_and_not_ignored(leasehold: CommandLine) -> None:
    refused = await leasehold("definitions", "--schema", "fresh", "list")
    assert refused.code == 2
    assert "options belong after list" in " ".join(refused.err.split())


async def test_show_is_json_for_people_too(leasehold: CommandLine, bench: Bench) -> None:
    people, machines = (
        await leasehold("definitions", "show", "order"),
        await leasehold("definitions", "show", "order", "--json"),
    )
    assert people.document == machines.document
    assert people.out.count("\n") > 10
    assert machines.document["schema"] == ORDER.schema
    assert (machines.document["timeout"], machines.document["retention"]["succeeded"]) == (3600, 30 * 86400)
    assert not [name for name in machines.document if name.startswith("_")]
    assert machines.document["backoff"] == {"base": 5, "factor": 2, "cap": 3600, "jitter": 1}


@pytest.mark.parametrize("verb", ["show", "activate", "deactivate"])
async def test_an_unknown_key_exits_with_3_and_the_nearest(leasehold: CommandLine, bench: Bench, verb: str) -> None:
    refused = await leasehold("definitions", verb, "ordr", "--json")
    assert (refused.code, refused.error["code"]) == (3, "LH-1002")
    assert 'Did you mean "order"?' in refused.error["message"]
    assert refused.error["message"].endswith("Nothing was changed.")


async def test_a_definition_is_deactivated_and_activated_again(leasehold: CommandLine, bench: Bench) -> None:
    off = await leasehold("definitions", "deactivate", "report")
    assert (off.code, off.out) == (0, "✓ report is inactive: it takes nothing new\n")
    assert [each.active for each in await bench.store.definitions()] == [True, True, False]
    on = await leasehold("definitions", "activate", "report", "--json")
    assert (on.document["key"], on.document["active"]) == ("report", True)
    assert [each.active for each in await bench.store.definitions()] == [True, True, True]


async def test_sync_registers_what_the_code_says(leasehold: CommandLine, store: Store, target: Target) -> None:
    synced = await leasehold("definitions", "sync", str(target))
    assert (synced.code, synced.out) == (0, "+ sync_folder  new, version 1\n+ send  new, version 1\n")
    assert synced.err == "2 definitions, 2 changed\n"
    assert await keys(store) == ["send", "sync_folder"]


async def test_sync_prints_what_differs_field_by_field(leasehold: CommandLine, store: Store, target: Target) -> None:
    await leasehold("definitions", "sync", str(target))
    target.becomes(APP.replace("10m", "90s").replace('path: str = "/"', "path: str, depth: int = 3"))
    synced = await leasehold("definitions", "sync", str(target))
    assert synced.out.splitlines()[0] == "~ sync_folder  now version 2"
    changes = set(synced.out.splitlines()[1:-1])
    assert changes >= {
        "    timeout: 10m → 1m 30s",
        '    schema.properties.path.default: "/" → –',
        '    schema.properties.depth.type: – → "integer"',
        '    schema.required: – → ["path"]',
    }
    assert synced.out.splitlines()[-1] == "= send  version 1"


async def test_sync_as_json_is_a_list(leasehold: CommandLine, store: Store, target: Target) -> None:
    await leasehold("definitions", "sync", str(target))
    target.becomes(APP.replace("10m", "90s"))
    assert (await leasehold("definitions", "sync", str(target), "--json")).document == [
        {"key": "sync_folder", "version": 2, "created": False, "fields": {"timeout": [600, 90]}, "overridden": {}},
        {"key": "send", "version": 1, "created": False, "fields": {}, "overridden": {}},
    ]


async def test_a_dry_run_shows_the_same_and_changes_nothing(
    leasehold: CommandLine, store: Store, target: Target
) -> None:
    await store.sync_definitions([Definition("send")])
    before = await store.definitions()
    shown = await leasehold("definitions", "sync", str(target), "--dry-run")
    assert shown.out.splitlines()[:2] == ["+ sync_folder  new", "~ send  differs from version 1"]
    assert shown.err == "2 definitions, 2 would change. Nothing was changed.\n"
    assert await store.definitions() == before


def test_a_plan_knows_new_different_and_same() -> None:
    same, changed, new = Definition("same"), Definition("changed", backoff=Steps(1)), Definition("new")
    known = [Registered(same, 3, True), Registered(Definition("changed", timeout=timedelta(1)), 7, True)]
    plan = {change.key: change for change in admin.plan_sync([same, changed, new], known)}
    assert (plan["same"].version, plan["same"].fields, plan["same"].created) == (3, {}, False)
    assert (plan["changed"].version, set(plan["changed"].fields)) == (7, {"backoff", "timeout"})
    assert (plan["new"].version, plan["new"].created) == (0, True)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("import no_such_module_anywhere", "No module named 'no_such_module_anywhere'"),
        ("1 / 0", "ZeroDivisionError"),
        ("app = 7", "no Leasehold app"),
    ],
)
async def test_an_unusable_target_exits_with_2_and_registers_nothing(
    leasehold: CommandLine, store: Store, target: Target, content: str, message: str
) -> None:
    target.becomes(content)
    refused = await leasehold("definitions", "sync", str(target), "--json")
    assert refused.code == 2
    assert message in refused.error["message"]
    assert await keys(store) == []


# ---------------------------------------------------------------------------------------------------------- overrides


async def test_set_shows_the_origin_and_reset_restores_the_code(leasehold: CommandLine, bench: Bench) -> None:
    words = ["max_attempts=5", "timeout=10m", "backoff=30s,5m", 'retention={"failed":"90d"}']
    changed = await leasehold("definitions", "set", "report", *words)
    assert changed.out.startswith("✓ report has max_attempts, timeout, backoff, retention set by cli:")
    shown = (await leasehold("definitions", "show", "report")).document
    assert (shown["timeout"], shown["backoff"], shown["revision"]) == (600, {"steps": [30, 300]}, 1)
    assert shown["retention"]["succeeded"] == 30 * 86400
    assert shown["origins"]["max_attempts"] | {"by": "", "at": ""} == {
        "origin": "admin",
        "by": "",
        "at": "",
        "base": 3,
    }
    assert shown["origins"]["schema"] == {"origin": "code"}
    again = (await leasehold("definitions", "reset", "report", "timeout", "--json")).document
    assert (again["timeout"], again["max_attempts"]) == (3600, 5)
    assert (await leasehold("definitions", "reset", "report", "--json")).document["max_attempts"] == 3


async def test_sync_says_which_fields_stay_overridden(leasehold: CommandLine, bench: Bench, target: Target) -> None:
    await leasehold("definitions", "sync", str(target))
    await leasehold("definitions", "set", "sync_folder", "max_attempts=7")
    target.becomes(APP.replace("max_attempts=3", "max_attempts=4"))
    sys.modules.pop(target.file.stem, None)
    synced = await leasehold("definitions", "sync", str(target))
    assert "max_attempts: stays 7, set by an administrator" in synced.out
    (known,) = (each for each in await bench.store.definitions() if each.definition.key == "sync_folder")
    assert known.definition.max_attempts == 7


async def test_a_revision_that_has_passed_is_refused(leasehold: CommandLine, bench: Bench) -> None:
    await leasehold("definitions", "set", "report", "max_attempts=5")
    refused = await leasehold("definitions", "set", "report", "max_attempts=6", "--revision", "0")
    assert refused.code == 4
    assert "LH-1050" in refused.err


async def test_a_definition_without_code_is_created(leasehold: CommandLine, bench: Bench, tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "object", "required": ["width"]}')
    created = await leasehold(
        "definitions", "create", "resize", f"schema=@{schema}", "description=Resizes.", "--json"
    )
    assert created.document["declared"] is False
    refused = await leasehold("enqueue", "resize", "--tenant", "acme", "--payload", "{}")
    assert "LH-1001" in refused.err


@pytest.mark.parametrize("word", ["max_attempts", "priority=3", "timeout=soon", "schema=@missing.json"])
async def test_a_value_that_sets_nothing_is_refused(leasehold: CommandLine, bench: Bench, word: str) -> None:
    refused = await leasehold("definitions", "set", "report", word)
    assert (refused.code, "Nothing was changed" in refused.err) == (2, True)
