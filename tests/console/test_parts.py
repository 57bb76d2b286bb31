"""Parts of the console that need no browser: queries, colours of logs, tracebacks, timelines, names in addresses."""

import asyncio
from datetime import UTC, datetime, timedelta
from urllib.parse import unquote

import pytest

from leasehold.console.ansi import parts_of
from leasehold.console.bulk_form import as_body, as_command, can_be_copied, kind_of_all, operation_of, read_choice
from leasehold.console.charts import Layer, Part, durations, rates, shares, stack
from leasehold.console.job_rows import known_columns, summarize
from leasehold.console.queries import read_query
from leasehold.console.recent_values import RecentValues
from leasehold.console.rendering import sentence
from leasehold.console.segments import name_of, segment_of
from leasehold.console.tracebacks import own_code
from leasehold.console.worker_rows import rows_of
from leasehold.model.job import Source, WorkerId, tenant_id
from leasehold.model.operation import OperationKind
from leasehold.model.series import Histogram, Point
from leasehold.model.status import DisplayState
from leasehold.operations.changed_retry import restore_redacted
from leasehold.operations.error_groups import count_fields
from leasehold.operations.health import FleetState
from leasehold.store import Subscription, Traits, WorkerFacts, WorkerRecord

NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)


def test_a_query_is_read_into_filters() -> None:
    query = read_query('status:failed,dead-letter definition:a source:Event correlation:"x y" created:<2h', NOW)
    assert query.states == {DisplayState.FAILED, DisplayState.DEAD_LETTER}
    assert (query.definitions, query.source, query.correlation) == (("a",), Source.EVENT, "x y")
    assert query.created_after == NOW - timedelta(hours=2)
    assert query.with_status("running") == 'status:running definition:a source:Event correlation:"x y" created:<2h'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("stat:x", "did you mean status:?"),
        ("status:nope", "is not a state"),
        ("source:cron", "there are manual, event"),
        ("created:yesterday", "write created:<2h"),
        ("created:2026-13-01..", "is not a date"),
        ("tenant:acme", "the jobs of one tenant"),
        ("error:timeout", "16 hexadecimal digits"),
        ("one two", "name:value"),
        ("worker:lab", "is a UUID"),
        ("priority:high", "write 5, <50"),
        ("priority:1 priority:2", "only one priority"),
        ("duration:5m", "write >5m"),
        ("payload:p_9", "payload.provider_id:p_9"),
        ("payload.api_key:x", "holds a secret"),
        ("payload.a:1 payload.b:2", "only one payload"),
    ],
)
def test_a_word_that_can_not_be_used_says_why(text: str, problem: str) -> None:
    (word,) = read_query(text, NOW).problems
    assert problem in (word.problem or "")


def test_traits_are_read_into_filters() -> None:
    query = read_query('dedupe:"a b" priority:<50 took:>5m payload.owner.Name:"Ada L"', NOW)
    (where,) = query.filters()
    assert where.traits == Traits(
        dedupe_key="a b",
        highest_priority=49,
        shortest=timedelta(minutes=5),
        payload_path=("owner", "Name"),
        payload_value="Ada L",
    )
    assert query.without() == 'dedupe:"a b" priority:<50 duration:>5m payload.owner.Name:"Ada L"'
    assert kind_of_all(read_query("status:dead-letter priority:<50", NOW)) is None


def test_payloads_are_found_by_their_readers() -> None:
    (word,) = read_query("payload.name:x", NOW, payloads=False).problems
    assert "does not read payloads" in (word.problem or "")


def test_words_after_the_twentieth_are_left_out() -> None:
    query = read_query("definition:a " * 500, NOW)
    (word,) = query.problems
    assert (len(query.words), query.definitions) == (21, ("a",) * 20)
    assert "at most 20 words" in (word.problem or "")


def test_columns_of_an_address_are_known_and_named_once() -> None:
    assert known_columns(["worker", "no-such", *["id"] * 1000]) == ["id", "worker"]


def test_colours_of_a_log_become_classes_and_the_rest_goes() -> None:
    line = "\x1b]0;title\x07a\x1b[1;31mred\x1b[0m\x1b[2J\x1b[38;5;196mb\x07"
    assert [(part.text, part.classes) for part in parts_of(line)] == [("a", ""), ("red", "bold red"), ("b␇", "")]


def test_own_code_leaves_out_the_frames_of_libraries() -> None:
    trace = (
        "Traceback (most recent call last):\n"
        '  File "/srv/app/jobs.py", line 3, in sync\n    await fetch()\n'
        '  File "/usr/lib/python3.12/asyncio/tasks.py", line 9, in wait_for\n    return await fut\n           ^^^\n'
        '  File "/srv/app/fetch.py", line 8, in fetch\n    raise TimeoutError\n'
        "TimeoutError\n"
    )
    own = own_code(trace)
    assert own is not None
    assert "tasks.py" not in own
    assert "return await fut" not in own
    assert own.splitlines()[-1] == "TimeoutError"
    assert own_code('  File "/srv/app.py", line 1, in f\nValueError') is None


def test_any_tenant_is_one_segment_of_an_address() -> None:
    for name in ("acme", "a/b", "a~1b", "ä ?#%2F", "~"):
        assert "/" not in segment_of(name)
        assert name_of(unquote(segment_of(name))) == name


def test_a_payload_is_summarized_by_its_first_plain_fields() -> None:
    payload = {"a": "x" * 60, "empty": "", "nested": {}, "n": 3, "yes": True, "more": 1}
    assert summarize(payload) == f"a={'x' * 39}…  n=3  yes=True"


def test_redacted_values_of_a_changed_payload_are_restored() -> None:
    stored = {"key": "secret", "url": "https://u:p@h/", "list": ["a", "secret"], "name": "old"}
    shown = {"key": "[redacted]", "url": "https://u:[redacted]@h/", "list": ["a", "[redacted]"], "name": "old"}
    sent = shown | {"name": "new", "other": "[redacted]"}
    assert restore_redacted(sent, shown, stored) == stored | {"name": "new", "other": "[redacted]"}


def test_figures_become_bands_that_stand_on_each_other() -> None:
    points = [Point(NOW, {}, {"ready": ready, "running": 2}, Histogram(), Histogram()) for ready in (0, 3)]
    running = Layer("running", "running", lambda point: point.depths["running"])
    layers = [running, Layer("ready", "ready", lambda point: point.depths["ready"])]
    chart = stack("depth", "Depth", "jobs", layers, points, {})
    assert (chart.top, [shape.name for shape in chart.shapes]) == ("5", ["running", "ready"])
    assert (
        chart.shapes[1].path == "M0.0 84.0L300.0 84.0L300.0 0.0L600.0 0.0L600.0 84.0L300.0 84.0L300.0 84.0L0.0 84.0Z"
    )
    assert [row for _, row in chart.rows] == [["2", "0"], ["2", "3"]]


def test_rates_have_a_round_top_and_gaps() -> None:
    points = [Point(NOW, {"failed": failed}, {}, Histogram(), Histogram()) for failed in (8, 0, 4)]
    layers = [Layer("failed", "failed", lambda point: point.counts["failed"] / 100 or None)]
    chart = rates("failures", "Failures", layers, points)
    assert (chart.top, chart.middle, chart.shapes[0].path.count("M")) == ("10%", "5%", 2)
    assert [row for _, row in chart.rows] == [["8.0%"], ["–"], ["4.0%"]]


def test_shares_of_a_step_fill_the_whole() -> None:
    parts = [Part("acme", "part-0", [30, 0]), Part("globex", "part-1", [10, 0])]
    chart = shares("tenants", "Tenants", "share", parts, [NOW, NOW])
    assert [row for _, row in chart.rows] == [["75%", "25%"], ["–", "–"]]
    assert chart.summary == "acme 75%, globex 25%"
    assert "300.0 0.0" in chart.shapes[1].path


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("status:failed,dead-letter", "retry"),
        ("error:5f0c9a3be2d14471", "retry"),
        ("status:queued", "cancel"),
        ("status:ready definition:a", "cancel"),
        ("status:ready,scheduled", None),
        ("status:failed,running", None),
        ("definition:a", None),
        ("statsu:failed", None),
    ],
)
def test_all_of_a_list_are_changed_if_its_states_agree(text: str, kind: str | None) -> None:
    assert kind_of_all(read_query(text, NOW)) == kind


def test_a_choice_becomes_a_command_and_a_body() -> None:
    choice = read_choice(OperationKind.RETRY, {"q": 'status:failed definition:a correlation:"x y"'}, [], NOW)
    form = {"speed": "paced", "pace": "30", "canary": "yes", "reason": "it's back"}
    new = operation_of(choice, tenant_id("a b"), form, NOW, "ada")
    assert as_command(new) == (
        "leasehold retry --state failed --definition a --correlation-id 'x y' --pace 30/m --canary "
        """--reason 'it'"'"'s back' --tenant 'a b'"""
    )
    assert as_body(new)["pace"] == "30/m"
    assert new.as_of == NOW


@pytest.mark.parametrize(("state", "known"), [("queued", True), ("scheduled", False), ("ready", False)])
def test_a_choice_that_no_command_knows_is_not_copied(state: str, known: bool) -> None:
    """A command for all queued jobs would cancel more than the plan has."""
    choice = read_choice(OperationKind.CANCEL, {"q": f"status:{state}"}, [], NOW)
    assert can_be_copied(operation_of(choice, tenant_id("acme"), {}, NOW, "ada")) is known


def test_fields_that_agree_are_first_and_secrets_last() -> None:
    payloads = [{"key": "[redacted]", "id": n, "provider": "p_9" if n else "p_1", "list": [1]} for n in range(4)]
    found = count_fields([*payloads, "text"])
    assert [share.name for share in found] == ["list", "provider", "id", "key"]
    assert (found[1].values, found[1].others) == ([('"p_9"', 3), ('"p_1"', 1)], 0)


def test_a_step_without_jobs_is_a_gap_between_lines() -> None:
    waits = [Histogram({10: 4}), Histogram(), Histogram({11: 4})]
    points = [Point(NOW, {}, {}, wait, Histogram()) for wait in waits]
    chart = durations("wait", "Wait", [Layer("p50", "ready", lambda point: point.wait.percentile(0.5))], points)
    assert chart.shapes[0].path.count("M") == 2
    assert [row for _, row in chart.rows] == [["768 ms"], ["–"], ["1.5 s"]]


async def test_visitors_at_once_share_one_look() -> None:
    now, looks = [0.0], []

    async def look() -> int:
        looks.append(now[0])
        await asyncio.sleep(0)
        return len(looks)

    remembered = RecentValues(lambda: now[0])
    assert await asyncio.gather(*(remembered.get("counts", look) for _ in range(50))) == [1] * 50
    now[0] = 2.0
    assert await remembered.get("counts", look) == 2


async def test_a_change_of_a_shared_view_is_forgotten_for_all() -> None:
    remembered = RecentValues(lambda: 0.0)

    async def read(key: tuple[str, ...], value: int) -> int:
        async def answer() -> int:
            return value

        return await remembered.get(key, answer)

    people = [("views", "acme", "ada"), ("views", "acme", "bob"), ("views", "globex", "ada")]
    for person in people:
        await read(person, 1)
    remembered.forget("views", "acme")
    assert [await read(person, 2) for person in people] == [2, 2, 1]


async def test_a_read_before_a_change_is_not_remembered_after_it() -> None:
    remembered, changed = RecentValues(lambda: 0.0), asyncio.Event()
    key = ("views", "acme", "ada")

    async def read_old() -> str:
        await changed.wait()
        return "old"

    async def read_new() -> str:
        return "new"

    reading = asyncio.create_task(remembered.get(key, read_old))
    await asyncio.sleep(0)
    remembered.forget("views", "acme")
    changed.set()
    assert await reading == "old"
    assert await remembered.get(key, read_new) == "new"


def test_of_two_versions_the_one_before_is_marked() -> None:
    def worker(version: str, age: int) -> WorkerRecord:
        began, facts = NOW - timedelta(minutes=age), WorkerFacts("host", 1, version)
        return WorkerRecord(WorkerId(version), facts, Subscription(()), 0, began, NOW, NOW + timedelta(minutes=1))

    for workers in ([worker("1.0", 60), worker("2.0", 1)], [worker("2.0", 1), worker("1.0", 60)]):
        marked = [row.worker.facts.version for row in rows_of(FleetState(workers, NOW)) if row.is_odd_version]
        assert marked == ["1.0"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [("tenant x has none.", "Tenant x has none."), ("max_attempts is 0.", "max_attempts is 0."), ("", "")],
)
def test_an_error_begins_as_a_sentence_does(text: str, shown: str) -> None:
    assert sentence(text) == shown
