"""`leasehold events` on a real queue."""

import json
from typing import Any

import pytest
from tests.cli.terminal import CommandLine
from tests.store.bench import Bench

FOLDER = "provider.folder.updated"
DATA = '{"path": "/a"}'
TO_ACME = ("--tenant", "acme")


@pytest.fixture
async def trigger(leasehold: CommandLine, bench: Bench) -> dict[str, Any]:
    answer = await leasehold(
        *("triggers", "add", "report", *TO_ACME, "--event", FOLDER, "--payload", '{"path": "{{event.path}}"}'),
        *("--filter", '{"path": {"ne": "/hidden"}}', "--dedupe-window", "2m", "--trailing", "on", "--json"),
    )
    assert answer.code == 0, answer.err
    document: dict[str, Any] = answer.document
    return document


async def test_an_event_trigger_is_added_with_its_options(leasehold: CommandLine, trigger: dict[str, Any]) -> None:
    assert (trigger["kind"], trigger["event"], trigger["dedupe_window"]) == ("event", FOLDER, 120)
    assert (trigger["filter"], trigger["trailing"]) == ({"path": {"ne": "/hidden"}}, True)
    (row,) = (await leasehold("triggers", "ls")).rows
    assert row[-1] == f"on {FOLDER}"


async def test_an_emit_prints_the_event_and_its_decisions(leasehold: CommandLine, trigger: dict[str, Any]) -> None:
    emitted = (await leasehold("events", "emit", FOLDER, "--data", DATA, *TO_ACME, "--json")).document
    (decision,) = emitted["decisions"]
    assert (emitted["expanded"], emitted["tenant"], emitted["name"]) == (True, "acme", FOLDER)
    assert (decision["trigger"], decision["kind"], [decision["job"]]) == (trigger["id"], "fired", emitted["jobs"])
    job = (await leasehold("job", emitted["jobs"][0], "--json")).document
    assert (job["payload"], job["source"]) == ({"path": "/a"}, "event")


async def test_an_emit_is_confirmed_for_people(leasehold: CommandLine, trigger: dict[str, Any]) -> None:
    answer = await leasehold("events", "emit", FOLDER, "--data", DATA, *TO_ACME)
    assert answer.err.startswith(f"✓ event {FOLDER} of acme is emitted, 1 job")
    assert "fired" in answer.out


async def test_events_are_listed(leasehold: CommandLine, trigger: dict[str, Any]) -> None:
    emitted = (await leasehold("events", "emit", FOLDER, "--data", DATA, *TO_ACME, "--json")).document
    await leasehold("events", "emit", "list.created", *TO_ACME, "--correlation-id", "c", "--created-by", "ada")
    newest, oldest = (await leasehold("events", "ls", *TO_ACME, "--json")).document
    assert (await leasehold("events", *TO_ACME, "--json")).document == [newest, oldest]
    assert (oldest["id"], oldest["data"]) == (emitted["id"], {"path": "/a"})
    assert (newest["correlation_id"], newest["created_by"]) == ("c", "ada")
    (row,) = (await leasehold("events", "ls", *TO_ACME, "--name", "list.created")).rows
    assert row[2:] == ["list.created", "decided", "{}"]
    assert (await leasehold("events", "ls", "--tenant", "other", "--json")).document == []


async def test_a_test_shows_the_payload_and_makes_no_job(leasehold: CommandLine, trigger: dict[str, Any]) -> None:
    (tested,) = (await leasehold("events", "test", FOLDER, "--data", DATA, *TO_ACME, "--json")).document
    assert (tested["trigger"], tested["result"], tested["payload"]) == (trigger["id"], "fires", {"path": "/a"})
    answer = await leasehold("events", "test", FOLDER, "--data", DATA, *TO_ACME)
    assert answer.err.strip() == "1 trigger: 1 job would be made, and none was."
    assert (await leasehold("jobs", "--tenant", "acme", "--json")).document == []
    assert (await leasehold("events", "ls", *TO_ACME, "--json")).document == []


@pytest.mark.parametrize(
    ("name", "data", "result", "why"),
    [
        ("list.created", {}, "no match", f"list.created is not {FOLDER}"),
        (FOLDER, {"path": "/hidden"}, "no match", 'path ≠ "/hidden" → path is "/hidden"'),
        (FOLDER, {"path": {}, "other": 1}, "fires", ""),
    ],
)
async def test_a_test_tells_why_there_is_no_job(
    leasehold: CommandLine, trigger: dict[str, Any], name: str, data: dict[str, Any], result: str, why: str
) -> None:
    (tested,) = (await leasehold("events", "test", name, "--data", json.dumps(data), *TO_ACME, "--json")).document
    assert (tested["result"], tested["why"]) == (result, why)


async def test_a_test_tells_what_dedupe_would_do(leasehold: CommandLine, trigger: dict[str, Any]) -> None:
    emitted = (await leasehold("events", "emit", FOLDER, "--data", DATA, *TO_ACME, "--json")).document
    (tested,) = (await leasehold("events", "test", FOLDER, "--data", DATA, *TO_ACME, "--json")).document
    assert (tested["result"], tested["held_by"]["job"]) == ("trailing", emitted["jobs"][0])
    (row,) = (await leasehold("events", "test", FOLDER, "--data", DATA, *TO_ACME)).rows
    assert row[2] == "trailing"


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (("emit", FOLDER), 2, "belongs to a tenant"),
        (("emit", "provider.*", *TO_ACME), 2, "The event name"),
        (("emit", FOLDER, *TO_ACME, "--data", "[]"), 2, "--data"),
        (("emit", FOLDER, *TO_ACME, "--data", "{"), 2, "is not JSON"),
        (("ls", *TO_ACME, "--name", "a b"), 2, "The event name"),
        (("test", "", *TO_ACME), 2, "The event name"),
    ],
)
async def test_mistakes_are_refused(
    leasehold: CommandLine, bench: Bench, words: tuple[str, ...], code: int, why: str
) -> None:
    answer = await leasehold("events", *words)
    assert answer.code == code
    assert why in answer.err
