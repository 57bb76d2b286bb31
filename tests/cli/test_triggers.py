"""`leasehold triggers` on a real queue."""

from pathlib import Path
from typing import Any

import pytest
from tests.cli.terminal import Answer, CommandLine
from tests.conftest import Raw
from tests.store.bench import Bench
from tests.tenant_kit import HOUR

from leasehold.model.definition import Definition
from leasehold.store import Store

APP = """
from leasehold import Job, Leasehold

app = Leasehold()


@app.schedule("{cron}", zone="Europe/Berlin", tenant="acme", payload={{"name": "Ada"}})
@app.job
async def greet(job: Job, name: str) -> str:
    return name
"""


async def added(leasehold: CommandLine, *words: str) -> dict[str, Any]:
    answer = await leasehold("triggers", "add", "report", "--tenant", "acme", *words, "--json")
    assert answer.code == 0, answer.err
    document: dict[str, Any] = answer.document
    return document


def said(answer: Answer) -> str:
    assert answer.code == 0, answer.err
    return answer.err.strip()


@pytest.fixture(autouse=True)
def queue(bench: Bench) -> None:
    """The definitions are registered."""


async def test_a_schedule_is_added_listed_and_shown(leasehold: CommandLine) -> None:
    trigger = await added(
        leasehold,
        "--cron",
        "0 2 * * *",
        "--zone",
        "Europe/Berlin",
        "--payload",
        '{"path": "/"}',
        "--label",
        "Nightly",
    )
    assert trigger["schedule"] == {"cron": "0 2 * * *", "zone": "Europe/Berlin"}
    assert (trigger["tenant"], trigger["origin"], trigger["payload"]) == ("acme", "data", {"path": "/"})
    for listing in (("triggers",), ("triggers", "ls"), ("triggers", "ls", "--tenant", "acme")):
        assert (await leasehold(*listing, "--json")).document == [trigger]
    (row,) = (await leasehold("triggers", "ls")).rows
    assert row[:4] == [trigger["id"][-8:], "acme", "report", "on"]
    assert row[5:] == ["data", "Nightly", "At 02:00 every day (Europe/Berlin)"]
    assert (await leasehold("triggers", "show", "Nightly", "--json")).document == trigger
    assert (await leasehold("triggers", "show", trigger["id"][-6:], "--json")).document == trigger


async def test_an_added_trigger_is_confirmed_with_its_next_run(leasehold: CommandLine) -> None:
    answer = await leasehold("triggers", "add", "report", "--tenant", "acme", "--every", "15m")
    assert answer.err.startswith("✓ trigger report of acme is added, next at ")
    assert len(answer.out.strip()) == 36


async def test_an_interval_has_an_anchor(leasehold: CommandLine) -> None:
    trigger = await added(leasehold, "--every", "90m", "--anchor", "2027-01-01T00:10Z")
    assert trigger["schedule"] == {"every": 5400, "anchor": "2027-01-01T00:10:00+00:00"}


async def test_a_trigger_for_all_tenants_is_spread(leasehold: CommandLine) -> None:
    answer = await leasehold(
        "triggers", "add", "report", "--all-tenants", "--cron", "@daily", "--spread", "30m", "--json"
    )
    assert (answer.document["tenant"], answer.document["all_tenants"], answer.document["spread"]) == (
        None,
        True,
        1800,
    )
    assert (await leasehold("triggers", "ls", "--all-tenants", "--json")).document == [answer.document]
    assert (await leasehold("triggers", "ls", "--tenant", "acme", "--json")).document == []


async def test_an_edit_changes_what_is_named(leasehold: CommandLine) -> None:
    trigger = await added(leasehold, "--cron", "0 2 * * *", "--payload", '{"path": "/"}')
    answer = await leasehold("triggers", "edit", trigger["id"], "--cron", "0 3 * * *", "--catch-up", "all", "--json")
    changed = answer.document
    assert (changed["schedule"]["cron"], changed["catch_up"], changed["version"]) == ("0 3 * * *", "all", 2)
    assert changed["payload"] == {"path": "/"}
    off = await leasehold("triggers", "edit", "report", "--enabled", "off", "--json")
    assert (off.document["enabled"], off.document["next_at"]) == (False, None)


@pytest.mark.parametrize(
    ("saved", "edit", "schedule"),
    [
        (
            ["--cron", "0 2 * * *", "--zone", "Europe/Berlin"],
            ["--cron", "0 3 * * *"],
            {"cron": "0 3 * * *", "zone": "Europe/Berlin"},
        ),
        (
            ["--cron", "0 2 * * *", "--zone", "Europe/Berlin"],
            ["--zone", "Asia/Kolkata"],
            {"cron": "0 2 * * *", "zone": "Asia/Kolkata"},
        ),
        (
            ["--every", "90m", "--anchor", "2027-01-01T00:10Z"],
            ["--every", "2h"],
            {"every": 7200, "anchor": "2027-01-01T00:10:00+00:00"},
        ),
        (
            ["--every", "90m", "--anchor", "2027-01-01T00:10Z"],
            ["--anchor", "2027-01-01T00:20Z"],
            {"every": 5400, "anchor": "2027-01-01T00:20:00+00:00"},
        ),
        (["--every", "90m"], ["--cron", "@daily"], {"cron": "@daily", "zone": "UTC"}),
        (
            ["--cron", "@daily", "--zone", "Europe/Berlin"],
            ["--every", "2h"],
            {"every": 7200, "anchor": "1970-01-01T00:00:00+00:00"},
        ),
    ],
)
async def test_an_edit_keeps_the_rest_of_a_schedule(
    leasehold: CommandLine, saved: list[str], edit: list[str], schedule: dict[str, Any]
) -> None:
    trigger = await added(leasehold, *saved)
    answer = await leasehold("triggers", "edit", trigger["id"], *edit, "--json")
    assert answer.document["schedule"] == schedule


@pytest.mark.parametrize("edit", [["--zone", "Europe/Berlin"], ["--every", "1h", "--zone", "Europe/Berlin"]])
async def test_an_interval_gets_no_zone(leasehold: CommandLine, edit: list[str]) -> None:
    trigger = await added(leasehold, "--every", "90m")
    answer = await leasehold("triggers", "edit", trigger["id"], *edit)
    assert (answer.code, "an interval has no local time" in answer.err) == (2, True)


async def test_an_edit_without_options_is_refused(leasehold: CommandLine) -> None:
    trigger = await added(leasehold, "--cron", "@daily")
    answer = await leasehold("triggers", "edit", trigger["id"])
    assert answer.code == 2
    assert "no option says what to change" in answer.err


async def test_a_pause_and_its_end(leasehold: CommandLine) -> None:
    await added(leasehold, "--cron", "@daily")
    paused = (await leasehold("triggers", "pause", "report", "holidays", "--for", "2h", "--json")).document
    assert paused["paused"]["why"] == "holidays"
    ((_, _, _, state, *_),) = (await leasehold("triggers", "ls")).rows
    assert state == "paused"
    assert (await leasehold("triggers", "resume", "report", "--json")).document["paused"] is None


async def test_a_removed_trigger_is_gone(leasehold: CommandLine) -> None:
    await added(leasehold, "--cron", "@daily")
    assert said(await leasehold("triggers", "rm", "report")).startswith("✓ trigger report of acme is removed")
    answer = await leasehold("triggers", "show", "report", "--json")
    assert (answer.code, answer.error["code"]) == (3, "LH-1030")


async def test_a_removed_trigger_is_restored(leasehold: CommandLine) -> None:
    await added(leasehold, "--cron", "@daily")
    gone = (await leasehold("triggers", "rm", "report", "--json")).document
    back = await leasehold("triggers", "restore", gone["id"], "--tenant", "acme")
    assert said(back).startswith("✓ trigger report of acme is back, next at")
    assert (await leasehold("triggers", "show", "report", "--json")).document["id"] == gone["id"]
    again = await leasehold("triggers", "restore", gone["id"], "--tenant", "acme", "--json")
    assert (again.code, again.error["code"]) == (3, "LH-1030")


async def test_a_trigger_that_fits_no_more_is_not_restored(leasehold: CommandLine, store: Store) -> None:
    words = ("triggers", "add", "order", "--cron", "@daily", "--payload", '{"sku": "a"}', "-t", "acme", "--json")
    trigger = (await leasehold(*words)).document["id"]
    await leasehold("triggers", "rm", trigger)
    narrow = {"type": "object", "properties": {"sku": {"type": "integer"}}}
    await store.sync_definitions([Definition("order", schema=narrow)])
    refused = await leasehold("triggers", "restore", trigger, "-t", "acme")
    assert (refused.code, "sku" in refused.err) == (2, True)
    assert (await leasehold("triggers", "ls", "--json")).document == []


async def test_decisions_are_listed_with_their_jobs(leasehold: CommandLine, bench: Bench) -> None:
    trigger = await added(leasehold, "--every", "1h")
    await bench.move_clock(3 * HOUR)
    await bench.store.schedules.fire_due()
    fired, missed = (await leasehold("triggers", "decisions", trigger["id"], "--json")).document
    assert (fired["kind"], missed["kind"], missed["count"]) == ("fired", "missed", 2)
    assert (await leasehold("job", fired["job"], "--json")).document["source"] == "schedule"
    first, second = (await leasehold("triggers", "decisions", "report")).rows
    assert (first[2], second[2]) == ("fired", "missed")


async def test_a_preview_marks_the_clock_change(leasehold: CommandLine, bench: Bench) -> None:
    words = ("--cron", "30 2 * * *", "--zone", "America/New_York", "--count", "2")
    shown = await leasehold("triggers", "preview", *words, "--viewer-zone", "Europe/Berlin", "--json")
    document = shown.document
    assert len(document["runs"]) == 2
    assert document["clock_change"] is not None
    assert any(run["marks"] for run in document["around"])
    text = await leasehold("triggers", "preview", *words)
    assert text.out.startswith("At 02:30 every day (America/New_York)\n")
    assert "Next clock change: " in text.out


async def test_a_preview_of_a_saved_trigger(leasehold: CommandLine) -> None:
    await added(leasehold, "--every", "15m")
    assert len((await leasehold("triggers", "preview", "report", "--json")).document["runs"]) == 5


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--cron", "0 25 * * *"], "25 is not in 0-23"),
        (["--cron", "0 0 31 2 *"], "never fires"),
        (["--cron", "@daily", "--zone", "Europe/Berln"], "Europe/Berlin"),
        (["--cron", "@daily", "--every", "1h"], "can't both be set"),
        (["--anchor", "2027-01-01T00:00Z"], "--anchor goes with --every"),
        (["--cron", "@daily", "--payload", "[]"], "a payload is a JSON object"),
        ([], "neither an event nor a schedule"),
    ],
)
async def test_a_mistake_is_refused_with_its_reason(leasehold: CommandLine, words: list[str], why: str) -> None:
    answer = await leasehold("triggers", "add", "report", "--tenant", "acme", *words)
    assert answer.code == 2
    assert why in answer.err
    assert (await leasehold("triggers", "ls", "--json")).document == []


async def test_a_payload_must_fit_the_definition(leasehold: CommandLine) -> None:
    words = ("triggers", "add", "order", "--tenant", "acme", "--cron", "@daily")
    refused = await leasehold(*words, "--payload", '{"count": 2}')
    assert "can never give a valid payload" in refused.err
    assert (await leasehold(*words, "--payload", '{"sku": "{{tenant}}"}')).code == 0


async def test_a_trigger_needs_a_tenant(leasehold: CommandLine) -> None:
    answer = await leasehold("triggers", "add", "report", "--cron", "@daily", "--json")
    assert answer.error["code"] == "LH-1004"


async def test_an_unknown_definition_is_refused(leasehold: CommandLine) -> None:
    answer = await leasehold("triggers", "add", "reprt", "--tenant", "acme", "--cron", "@daily", "--json")
    assert (answer.code, answer.error["code"]) == (3, "LH-1002")


async def test_a_label_that_fits_several_names_them(leasehold: CommandLine) -> None:
    for _ in range(2):
        await added(leasehold, "--cron", "@daily")
    answer = await leasehold("triggers", "rm", "report")
    assert answer.code == 2
    assert "2 triggers fit 'report'" in answer.err


OLDER = """
insert into leasehold.triggers
select (jsonb_populate_record(t, jsonb_build_object(
    'id', '00000000-0000-7000-8000-' || lpad(n::text, 12, '0'), 'label', 'number ' || n))).*
from leasehold.triggers t, generate_series(1, 1000) n
"""


async def test_a_label_is_found_behind_a_thousand_others(leasehold: CommandLine, observer: Raw) -> None:
    await added(leasehold, "--cron", "@daily", "--label", "third")
    await observer.execute(OLDER)
    for words in ([], ["--tenant", "acme"]):
        shown = await leasehold("triggers", "show", "third", *words, "--json")
        assert shown.document["label"] == "third"
        by_end = await leasehold("triggers", "show", shown.document["id"][-12:], *words, "--json")
        assert by_end.document == shown.document


async def test_a_listing_says_that_there_are_more(leasehold: CommandLine) -> None:
    for label in ("first", "second", "third"):
        await added(leasehold, "--cron", "@daily", "--label", label)
    listed = await leasehold("triggers", "ls", "--limit", "2")
    assert (len(listed.rows), said(listed)) == (2, "2 triggers, and there are more: leasehold triggers ls --limit N")
    assert said(await leasehold("triggers", "ls", "--limit", "3")) == "3 triggers"


async def test_triggers_of_all_tenants_are_reached_beside_a_tenant(leasehold: CommandLine) -> None:
    await leasehold("triggers", "add", "report", "--all-tenants", "--cron", "@daily")
    assert (await leasehold("triggers", "show", "report", LEASEHOLD_TENANT="acme")).code == 3
    for words in (
        ["edit", "report", "--cron", "@hourly"],
        ["pause", "report", "holidays"],
        ["resume", "report"],
        ["show", "report"],
        ["preview", "report"],
        ["decisions", "report"],
        ["rm", "report"],
    ):
        answer = await leasehold("triggers", *words, "--all-tenants", LEASEHOLD_TENANT="acme")
        assert answer.code == 0, answer.err


# -------------------------------------------------------------------------------------------------------- of the code


async def test_sync_shows_schedules_and_their_differences(leasehold: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "shop_app.py"
    file.write_text(APP.format(cron="0 2 * * *"))
    first = await leasehold("definitions", "sync", str(file))
    assert "+ schedule greet of acme  new" in first.out
    assert "1 definition and 1 schedule, 2 changed" in first.err
    file.write_text(APP.format(cron="0 3 * * *"))
    planned = await leasehold("definitions", "sync", str(file), "--dry-run")
    assert "~ schedule greet of acme  differs" in planned.out
    assert '    schedule: {"cron":"0 2 * * *","zone":"Europe/Berlin"} → {"cron":"0 3 * * *"' in planned.out
    (document,) = (await leasehold("triggers", "ls", "--json")).document
    assert (document["schedule"]["cron"], document["origin"]) == ("0 2 * * *", "code")
    changed = await leasehold("definitions", "sync", str(file), "--json")
    assert changed.document[-1]["fields"]["schedule"][1]["cron"] == "0 3 * * *"
    refused = await leasehold("triggers", "edit", "greet", "--cron", "@daily", "--json")
    assert (refused.code, refused.error["code"]) == (4, "LH-1009")


async def test_a_trigger_of_code_that_is_gone_is_removed(leasehold: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "shop_app.py"
    file.write_text(APP.format(cron="0 2 * * *"))
    await leasehold("definitions", "sync", str(file))
    refused = await leasehold("triggers", "rm", "greet")
    assert (refused.code, "--force" in refused.err) == (4, True)
    removed = said(await leasehold("triggers", "rm", "greet", "--force"))
    assert removed.splitlines() == [
        "✓ trigger greet of acme is removed",
        "If code still declares it, the next sync brings it back.",
    ]
    assert (await leasehold("triggers", "ls", "--json")).document == []


async def test_a_trigger_that_cannot_be_read_is_listed_and_removed(leasehold: CommandLine, observer: Raw) -> None:
    trigger = await added(leasehold, "--cron", "0 2 * * *", "--label", "Nightly")
    await observer.execute("update leasehold.triggers set cron = '61 * * * *' where id = $1::uuid", trigger["id"])
    (row,) = (await leasehold("triggers", "ls")).rows
    assert row[-1].startswith("can't be read: The cron '61 * * * *'")
    assert "Nightly of acme is removed" in said(await leasehold("triggers", "rm", trigger["id"]))
    assert (await leasehold("triggers", "ls", "--json")).document == []
