"""The hostile values of the poison run, by the entry that they go through."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import product
from math import nan
from typing import Any
from uuid import UUID

from tests.faults.poison_app import NUMBERS, OBJECTS, TEXTS, Spiteful, SpitefulDict, nested

from leasehold.model.job import NewJob

MOMENTS: list[Any] = [
    datetime.max,
    datetime.min,
    datetime.max.replace(tzinfo=UTC),
    datetime.min.replace(tzinfo=UTC),
    "infinity",
    nan,
    0,
    datetime(1900, 1, 1, tzinfo=UTC),
    datetime(9998, 12, 31, tzinfo=UTC),
    datetime(9999, 6, 1, tzinfo=UTC),
]
SPANS: list[Any] = [
    timedelta.max,
    timedelta.min,
    timedelta(-1),
    timedelta(days=36500),
    timedelta(0),
    "5m",
    5,
    nan,
    None,
]
COUNTS: list[Any] = [0, -1, 2**15, 2**31 - 1, 2**31, 2**70, 10**400, nan, 1.5, "3", True]
WORDS: list[Any] = [*TEXTS, 7, b"a", "'; drop table leasehold.jobs; --", "../../etc/passwd", "%s :tenant $1 {0}"]
PAYLOADS: list[Any] = [
    *({"value": value} for value in [*TEXTS, *NUMBERS, *OBJECTS]),
    *({text: 1} for text in TEXTS),
    None,
    7,
    "text",
    [],
    [1],
    SpitefulDict(a=1),
    nested(3),
    {"__proto__": {}},
    {"": {"": {"": None}}},
]


def fields(name: str, values: Sequence[Any]) -> list[dict[str, Any]]:
    return [{name: value} for value in values]


NEW_JOBS: list[dict[str, Any]] = [
    *(each for name in ("at", "deadline") for each in fields(name, MOMENTS)),
    *fields("delay", SPANS),
    *(each for name in ("priority", "max_attempts", "version") for each in fields(name, COUNTS)),
    *(each for name in ("source_ref", "correlation_id", "created_by") for each in fields(name, WORDS)),
    *fields("definition", WORDS),
    *fields("id", [*WORDS, UUID(int=0), UUID(int=2**128 - 1), "{00000000-0000-0000-0000-000000000001}"]),
    *fields("source", ["manual", "oracle", None]),
    *fields("dedupe", ["key", 7]),
    *fields("payload", PAYLOADS),
]
ARGUMENTS = [  # of leasehold.enqueue, as people type them
    *(
        f"{name} => {value}"
        for name, value in product(
            ("at", "deadline"),
            (
                "'infinity'",
                "'-infinity'",
                "'4000-01-01 BC'",
                "'10000-01-01'",
                "'294276-12-31'",
                "'9999-12-31'",
                "'epoch'",
            ),
        )
    ),
    *(
        f"{name} => {value}"
        for name, value in product(
            ("delay", "dedupe_key => 'k', dedupe => 'within', dedupe_for"),
            (
                "'178000000 years'",
                "'-1 second'",
                "'-178000000 years'",
                "'99999 years'",
                "'1e400 seconds'",
                "'5 parsecs'",
            ),
        )
    ),
    *(
        f"{name} => {value}"
        for name, value in product(
            ("priority", "max_attempts"), ("0", "-1", "32768", "2147483647", "-2147483648", "'2147483648'")
        )
    ),
    *(
        f"payload => {value}"
        for value in (
            "'1e400'",
            "'[]'",
            "'null'",
            "null",
            "'7'",
            "'{\"n\": 1e400}'",
            "'{\"n\": -1e131071}'",
            r"""'{"a": "\u0000"}'""",
            r"""'{"a": "\ud800"}'""",
            "'{'",
            "jsonb_build_object('x', repeat('y', 400000))",
            "(repeat('[', 900) || repeat(']', 900))::jsonb",
            "('{\"a\":' || repeat('[', 900) || repeat(']', 900) || '}')::jsonb",
        )
    ),
    *(
        f"{name} => {value}"
        for name, value in product(
            ("correlation_id", "created_by", "dedupe_key"),
            ("repeat('x', 20000)", "''", "E'a\\x01b'", "E'\\u202E'", "E'\\u200B'"),
        )
    ),
    "dedupe => 'never'",
    "dedupe => ''",
    "on_conflict => 'explode'",
    "id => 'x'",
    "dedupe => 'always', on_conflict => 'raise'",
    "id => '00000000-0000-0000-0000-000000000000'",
]
DOCUMENTS = [  # of leasehold.enqueue_jobs
    "{}",
    "7",
    "null",
    "[7]",
    "[null]",
    "[[]]",
    "[{}]",
    '["taken"]',
    '[{"definition": 7}]',
    '[{"definition": null}]',
    *(
        f'[{{"definition": "taken", "payload": {{}}, {field}}}]'
        for field in (
            '"delay": "infinity"',
            '"delay": 7',
            '"delay": "178000000 years"',
            '"at": "infinity"',
            '"at": 7',
            '"at": "10000-01-01"',
            '"priority": 1e400',
            '"priority": "x"',
            '"max_attempts": 1.5',
            '"max_attempts": -1',
            '"version": 1e10',
            '"id": "x"',
            '"payload": [1]',
            '"payload": {"n": 1e400}',
            '"source": "oracle"',
            '"dedupe": 7',
            '"dedupe_for": "-1 s"',
            '"extra": 1',
            '"deadline": {}',
            '"created_by": 7',
            '"on_conflict": []',
        )
    ),
]
DEFINITIONS_BY_HAND = [  # how people, or a newer release, may change the row of a definition
    ("backoff", """'{"kind": "fibonacci"}'"""),
    ("backoff", """'{"base": 1e400}'"""),
    ("backoff", "'[]'"),
    ("backoff", "'7'"),
    ("retention", """'{"succeeded": "9 parsecs"}'"""),
    ("retention", """'{"succeeded": 7}'"""),
    ("retention", "'7'"),
    ("timeout", "interval '-3 days'"),
    ("timeout", "interval '178000000 years'"),
    ("timeout", "interval '0'"),
    ("schema", "'[1]'"),
    ("schema", """'{"maximum": 1e400}'"""),
    ("schema", """'{"type": "nothing"}'"""),
    ("max_attempts", "2147483647"),
    ("priority", "-32768"),
    ("description", "repeat('x', 100000)"),
]
COMMANDS: list[list[str]] = [
    *(
        ["--payload", text]
        for text in (
            "{",
            "7",
            "[]",
            "null",
            '{"n": NaN}',
            '{"n": 1e400}',
            r'{"a": "\u0000"}',
            r'{"a": "\ud800"}',
            '{"a": Infinity}',
            "@/nowhere",
            '{"a": ' + "[" * 2_000 + "]" * 2_000 + "}",
            '{"a": "' + "x" * 300_000 + '"}',
            '{"\u202e": "\u200b"}',
            "-",
            "",
        )
    ),
    *(["--in", text] for text in ("-5m", "1e400s", "nan", "99999999d", "0s", "", "٣h", "5 parsecs")),
    *(
        ["--at", text]
        for text in ("infinity", "10000-01-01", "0001-01-01T00:00Z", "9999-12-31T23:59Z", "", "now\u202e")
    ),
    *(["--priority", text] for text in ("1e9", "99999999999", "-40000", "x", "0")),
    *(["--dedupe-key", text] for text in ("", "x" * 1_001, "\u202e")),
    *(["--correlation-id", text] for text in ("", "x" * 20_000, "\x1b[2J")),
    *(["--id", text] for text in ("x", "", "0" * 32)),
    *(["--tenant", text] for text in ("", " a", "x" * 101, "\u202evillain", "\x07")),
    *([text] for text in ("=", "a:=", "a:={", ":=", "a=\u202e", "a:=1e400", "a:=NaN")),
]

# A command's words can't hold a NUL character; bytes that are not UTF-8 become lone surrogates.
TYPED = [
    "",
    " ",
    "a\udcffb",
    "\u202ea\u202cb",
    "\u200b",
    "x" * 300_000,
    "\x1b[2J\x07",
    "-",
    "--",
    "%s $1 {0}",
]
TYPED_COUNTS = ["0", "-1", "1.5", "1e3", "99999999999", "2147483648", "x", "", "٣", "nan", "9" * 5_000]
TYPED_SPANS = ["-5m", "1e400s", "nan", "inf", "99999999d", "0s", "", "٣h", "5 parsecs", "36500d", "0.0001ms"]
OTHER_ID = "00000000-0000-0000-0000-00000000abcd"
# The greatest UUID is left out of the ids and cursors: see NEW_JOBS.
VERBS: list[list[str]] = [
    *(["limit", "tenant", "villain", "--max-running", text] for text in TYPED_COUNTS),
    *(["limit", kind, text, "--max-running", "1"] for kind in ("tenant", "definition") for text in TYPED),
    *(["pause", "tenant", "villain", "why", "--for", text] for text in TYPED_SPANS),
    *(["pause", "tenant", "villain", text] for text in TYPED),
    *(["pause", "definition", text, "why"] for text in TYPED),
    *(["resume", kind, text] for kind in ("tenant", "definition") for text in TYPED),
    *(["limits"], ["limits", "--json"]),
    *(["jobs", option, text] for option in ("-s", "-d", "--correlation-id", "--cursor", "-t") for text in TYPED),
    *(["jobs", "-n", text] for text in TYPED_COUNTS),
    *(["jobs", "--cursor", text] for text in (OTHER_ID, f"{OTHER_ID}/", f"{OTHER_ID}/\u202e", f"{OTHER_ID}/villain")),
    *(["counts", "-t", text] for text in TYPED),
    *(["tenants", "-n", text] for text in TYPED_COUNTS),
    *([verb, text] for verb in ("job", "logs", "retry", "cancel", "run-now") for text in (*TYPED, "-" * 4, OTHER_ID)),
    *(["logs", "JOB", "--try", text] for text in TYPED_COUNTS),
    *(["logs", "JOB", "-t", text] for text in TYPED),
    *(["tick", "TICKS", "--max-seconds", text] for text in TYPED_SPANS),
    *(["tick", "TICKS", option, text] for option in ("--max-jobs", "--slots") for text in TYPED_COUNTS),
    *(["tick", text] for text in TYPED if text != "x" * 300_000),
    *(["definitions", verb, text] for verb in ("show", "activate", "deactivate") for text in TYPED),
    *(["definitions", "sync", text] for text in (*TYPED, "nowhere", "nowhere.py", "json:x", "TICKS", ":", "a:b:c")),
    *(["prune", "--limit", text] for text in TYPED_COUNTS),
    *([text] for text in TYPED if text not in ("--", "-")),
]
WORKER_OPTIONS: list[list[str]] = [
    *(["--lease", text] for text in ("-5m", "1e400s", "nan", "300ms", "36500d", "")),
    *(["--grace", text] for text in ("-5m", "36500d")),
    *(["--slots", text] for text in ("0", "99999999999")),
]
BAD_JOBS: list[Callable[[], Any]] = [
    *(lambda other=other: other for other in (None, 7, "taken", {}, [], Spiteful(), object(), NewJob)),
    *(lambda payload=payload: NewJob(definition="taken", payload=payload) for payload in PAYLOADS),
    *(lambda word=word: NewJob(definition=word) for word in WORDS),
    lambda: NewJob(definition="taken", version=99),
    lambda: NewJob(definition="typed", payload={"number": "many"}),
    lambda: NewJob(definition="typed", payload={"unknown": 1}),
]
NOT_TRANSACTIONS: list[Any] = [None, 7, "", b"", {}, [], object(), Spiteful(), int, nan, ...]

FAR = ("'infinity'", "'-infinity'", "'294276-12-31'", "'4000-01-01 BC'", "'10000-01-01'")
HOSTILE_TEXTS = ("repeat('x', 300000)", "E'a\\x01\\x1b[2J'", "E'\\u202Ea'", "''")
INTEGERS = ("-1", "-2147483648", "2147483647")
DEEP = """(repeat('[', 900) || repeat(']', 900))::jsonb"""
LIMITS_BY_HAND = [  # the key is left out: a scope with a name that is refused by now is checked elsewhere
    *(("max_running", value) for value in ("0", "1", "2147483647")),
    *((column, value) for column in ("capped_at", "running_from") for value in FAR),
    *(("rate_count, rate_period", value) for value in ("1, '0'", "1, '178000000 years'", "1, '-1 s'", "0, '1 s'")),
    *(("paused_at, pause_reason, paused_until", f"now(), 'by hand', {value}") for value in FAR),
    *(("paused_at, pause_reason", f"{value}, 'by hand'") for value in FAR),
    *(("paused_at, pause_reason", f"now(), {value}") for value in HOSTILE_TEXTS),
    ("paused_at, pause_reason", "now(), null"),
]
ENDED_JOBS_BY_HAND = [
    *((column, value) for column in ("scheduled_for", "queued_at", "started_at", "finished_at") for value in FAR),
    *((column, value) for column in ("deadline", "cancel_requested_at") for value in FAR),
    *(("prune_after", value) for value in ("'infinity'", "'294276-12-31'")),
    *((column, value) for column in ("version", "attempt", "max_attempts", "forgiven") for value in INTEGERS),
    *((column, value) for column in ("payload", "result") for value in ("'1e400'", "'7'", "'[]'", DEEP)),
    *((column, value) for column in ("source", "source_ref", "correlation_id") for value in HOSTILE_TEXTS),
    *((column, value) for column in ("created_by", "dedupe_key") for value in HOSTILE_TEXTS),
    # An empty or long definition is left out: listings refuse the scope of such a job.
    *(("definition", value) for value in HOSTILE_TEXTS[1:3]),
    *((column, value) for column in ("last_error", "last_error_code") for value in HOSTILE_TEXTS),
    ("status", "'eaten'"),
    ("started_at", "null"),
    ("worker_id", "null"),
]
WAITING_JOBS_BY_HAND = [
    *((column, value) for column in ("scheduled_for", "queued_at", "started_at", "deadline") for value in FAR),
    *((column, value) for column in ("attempt", "max_attempts", "forgiven") for value in INTEGERS),
    *(("payload", value) for value in ("'1e400'", "'7'", "'[]'", "'null'", DEEP)),
    *((column, value) for column in ("correlation_id", "created_by", "last_error") for value in HOSTILE_TEXTS),
    *(("claim_batch", value) for value in ("-1", "9223372036854775807")),
    *(("version", value) for value in INTEGERS),
    ("priority", "32767"),
    ("source", "'oracle'"),
    ("worker_id", "gen_random_uuid()"),
]
LINES_BY_HAND = [
    *((column, value) for column in ("attempt", "number") for value in INTEGERS),
    *(("at", value) for value in FAR),
    *(("text", value) for value in HOSTILE_TEXTS),
    *(("progress", value) for value in ("'nan'", "'infinity'", "'-infinity'", "1e38", "-1")),
    ("kind", "'song'"),
]
TRIES_BY_HAND = [
    *(("attempt", value) for value in INTEGERS),
    *((column, value) for column in ("started_at", "finished_at") for value in FAR),
    *((column, value) for column in ("error", "error_code") for value in HOSTILE_TEXTS),
    *(("details", value) for value in ("'1e400'", "'7'", "'[]'", "'null'", DEEP)),
    ("exit_code", "-2147483648"),
    ("status", "'eaten'"),
]
TENANTS_BY_HAND = [
    *(("id", value) for value in ("''", "' a '", "E'a\\nb'", "E'\\u202Ea'", "E'\\u200B'", "repeat('x', 101)")),
    *(("created_at", value) for value in FAR),
]
WORKERS_BY_HAND = [
    *((column, value) for column in ("pid", "slots") for value in INTEGERS),
    *((column, value) for column in ("started_at", "last_seen_at", "lease_expires_at") for value in FAR),
    *((column, value) for column in ("host", "version") for value in HOSTILE_TEXTS),
    *(("metadata", value) for value in ("'1e400'", "'7'", "'[]'", "'null'")),
    *((column, value) for column in ("definitions", "tenants") for value in ("'{}'", "'{null}'", "'{\"\"}'")),
]
