"""Redaction: known values in every form, patterns, names of fields, and streams cut anywhere."""

import base64
import html
import json
import random
from time import process_time
from timeit import timeit
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from leasehold.errors import InvalidInput
from leasehold.model.redaction import LONGEST_HELD, REDACTED, Redactor, environment_values, is_secret_name

SECRET = 'hünter/2 & "five"'
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\n-----END RSA PRIVATE KEY-----"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.SflKxwRJSMeKKF2QT4"


@pytest.mark.parametrize(
    "form",
    [
        SECRET,
        SECRET.encode().hex(),
        SECRET.encode().hex().upper(),
        base64.b64encode(SECRET.encode()).decode(),
        base64.urlsafe_b64encode(SECRET.encode()).decode(),
        quote(SECRET),
        quote(SECRET, safe=""),
        quote(SECRET, safe="").lower(),
        json.dumps(SECRET),
        json.dumps(SECRET, ensure_ascii=False),
        repr(SECRET),
        repr(SECRET.encode()),
        html.escape(SECRET),
        base64.b64encode(json.dumps(SECRET).encode()[1:-1]).decode(),
        json.dumps(SECRET, ensure_ascii=False)[1:-1].encode().hex(),
        quote(json.dumps(SECRET)[1:-1]),
    ],
)
def test_a_known_value_is_redacted_in_every_form(form: str) -> None:
    redacted = Redactor([SECRET]).text(f"before {form} after")
    assert form not in redacted
    assert redacted.startswith("before ")
    assert redacted.endswith(" after")
    assert REDACTED in redacted


@pytest.mark.parametrize("before", ["", "u", "us", "use"])
def test_a_value_within_base64_of_longer_data_is_redacted(before: str) -> None:
    encoded = base64.b64encode(f"{before}correct-horse-battery!:end".encode()).decode()
    redacted = Redactor(["correct-horse-battery"]).text(f"Authorization: {encoded}")
    assert base64.b64encode(b"correct-horse").decode()[4:12] not in redacted
    assert REDACTED in redacted


def wrapped(data: bytes, columns: int, between: str = "\n") -> str:
    encoded = base64.b64encode(data).decode()
    return between.join(encoded[at : at + columns] for at in range(0, len(encoded), columns))


@pytest.mark.parametrize("between", ["\n", "\r\n", "\n    ", "\\n"])
@pytest.mark.parametrize("columns", [60, 64, 76])
@pytest.mark.parametrize("before", [0, 20, 50, 73])
def test_a_value_in_wrapped_base64_is_redacted(columns: int, between: str, before: int) -> None:
    secret = "correct-horse-battery-staple-of-acme"
    text = wrapped(b"b" * before + secret.encode() + b"e" * 60, columns, between)
    redacted = Redactor([secret]).text(f"file:\n{text}\nend of it")
    assert REDACTED in redacted
    assert redacted.startswith("file:\n")
    assert redacted.endswith("\nend of it")
    plain = base64.b64encode(secret.encode()).decode()
    assert not any(plain[at : at + 12] in redacted.replace(between, "") for at in range(4, len(plain) - 16))
    assert len(redacted) < len(text) - len(plain) + 40


def test_a_value_in_wrapped_hexadecimal_is_redacted() -> None:
    digits = ("before " * 3 + SECRET).encode().hex()
    text = "\n".join(digits[at : at + 60] for at in range(0, len(digits), 60))
    redacted = Redactor([SECRET]).text(text)
    assert SECRET.encode().hex()[:12] not in redacted.replace("\n", "")


def test_a_value_in_wrapped_base64_in_a_result_is_redacted() -> None:
    secret = "correct-horse-battery-staple-of-acme"
    text = json.dumps({"file": base64.encodebytes(b"b" * 40 + secret.encode()).decode()})
    redacted = Redactor([secret]).json(text)
    assert REDACTED in json.loads(redacted)["file"]


def test_a_text_without_secrets_is_the_same_object() -> None:
    line = "synced 1,204 of 3,010 files of https://example.org/photos"
    assert Redactor([SECRET]).text(line) is line


def test_values_of_fewer_than_six_characters_are_kept() -> None:
    assert Redactor(["12345"]).with_values("abc").text("12345 abc") == "12345 abc"


def test_overlapping_values_leave_no_part() -> None:
    assert Redactor(["abcdef", "defghi"]).text("<abcdefghi>") == f"<{REDACTED}>"


def test_a_redactor_of_a_job_knows_the_values_of_the_process() -> None:
    of_process = Redactor(["of-the-process"])
    assert of_process.with_values("of-the-job").text("of-the-process of-the-job") == f"{REDACTED} {REDACTED}"
    assert of_process.text("of-the-job") == "of-the-job"


def test_a_line_of_a_secret_with_several_lines_is_redacted() -> None:
    secret = "first line of the secret key\nsecond line of the secret key"
    assert Redactor([secret]).text("> second line of the secret key <") == f"> {REDACTED} <"


def test_a_text_with_lone_surrogates_is_redacted() -> None:
    assert Redactor([SECRET]).text(f"\ud800 {SECRET}") == f"\ud800 {REDACTED}"


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("key AKIAIOSFODNN7EXAMPLE used", f"key {REDACTED} used"),
        ("aws_secret_access_key = " + "a1B2" * 10, f"aws_secret_access_key = {REDACTED}"),
        ("token ghp_" + "a1B2c3" * 6, f"token {REDACTED}"),
        ("github_pat_" + "a1B2c3" * 6, REDACTED),
        (f"jwt {JWT} sent", f"jwt {REDACTED} sent"),
        (f"{PEM}\nrest", f"{REDACTED}\nrest"),
        (PEM.replace("\n", "\\n") + '"}', f'{REDACTED}"}}'),
        ("postgresql://ada:s3cr@localhost/db", f"postgresql://ada:{REDACTED}@localhost/db"),
        ("host=db password=s3cret dbname=x", f"host=db password={REDACTED} dbname=x"),
        ("Authorization: Bearer abcdef0123456789.xyz", f"Authorization: Bearer {REDACTED}"),
    ],
)
def test_texts_that_look_secret_are_redacted(text: str, redacted: str) -> None:
    assert Redactor().text(text) == redacted


@pytest.mark.parametrize(
    "text",
    [
        "https://example.org/a:b@c",
        "AKIA is a prefix",
        "eyJ is how a JWT begins",
        "-----BEGIN CERTIFICATE-----",
        "the basic idea of it",
        "job 0197c000-1234-7000-8000-123456789abc of acme",
    ],
)
def test_ordinary_texts_are_kept(text: str) -> None:
    assert Redactor().text(text) == text


def test_patterns_can_be_turned_off_and_added() -> None:
    own = Redactor(patterns=False, own_patterns=[r"CARD-\d{4}", r"id=(?P<secret>\w+)", r"(?<=pin )\d+"])
    assert own.text(f"CARD-1234 id=7 pin 99 {JWT}") == f"{REDACTED} id={REDACTED} pin {REDACTED} {JWT}"
    with pytest.raises(InvalidInput, match="is not a regular expression"):
        Redactor(own_patterns=["("])


def test_the_beginning_of_a_text_has_no_part_of_a_secret_at_its_end() -> None:
    text = "x" * 95 + "correct-horse-battery" + "y" * 20_000
    kept = Redactor(["correct-horse-battery"]).beginning(text, 100)
    assert kept.startswith("x" * 95 + REDACTED)
    assert len(kept) < 10_000


# ------------------------------------------------------------------------------------------------------- documents


def test_fields_of_a_document_are_redacted_by_name_and_by_value() -> None:
    document = {
        "apiKey": "x1",
        "X-Auth-Token": "x2",
        "nested": [{"db_password": "x3", "host": "db"}],
        "credentials": {"user": "ada", "pin": 7},
        "tokens_used": 1523,
        "note": f"it is {SECRET}",
        f"for {SECRET}": 1,
    }
    assert Redactor([SECRET]).document(document) == {
        "apiKey": REDACTED,
        "X-Auth-Token": REDACTED,
        "nested": [{"db_password": REDACTED, "host": "db"}],
        "credentials": {"user": REDACTED, "pin": 7},
        "tokens_used": 1523,
        "note": f"it is {REDACTED}",
        f"for {REDACTED}": 1,
    }


def test_names_of_fields_can_be_left_out_of_account() -> None:
    assert Redactor().document({"next_token": "abc"}, names=False) == {"next_token": "abc"}
    assert Redactor(names=False).document({"next_token": "abc"}) == {"next_token": "abc"}


def test_secrets_of_other_types_are_redacted_in_documents() -> None:
    redactor = Redactor(["123456"])
    document = [123456, 1.123456, b"123456", b"other", SecretStr("abc"), None, True]
    assert redactor.document(document) == [REDACTED, REDACTED, REDACTED, b"other", REDACTED, None, True]


def test_json_text_stays_json() -> None:
    redactor = Redactor([SECRET])
    redacted = json.loads(redactor.json(json.dumps({"a": [SECRET, 1], "token": "x"})))
    assert redacted == {"a": [REDACTED, 1], "token": "x"}
    text = '{"a":1}'
    assert redactor.json(text) is text


def test_a_value_that_spans_fields_hides_the_whole_document() -> None:
    assert Redactor(['one","two']).json('["one","two"]') == json.dumps(REDACTED)


def test_names_that_look_secret() -> None:
    assert all(
        map(is_secret_name, ("password", "API_KEY", "clientSecret", "Set-Cookie", "access_token", "SENTRY_DSN"))
    )
    assert not any(map(is_secret_name, ("key", "monkey", "author", "provider_id", "compass", "path")))


def test_values_of_the_environment_are_found_by_name_and_in_urls() -> None:
    environment = {
        "STRIPE_API_KEY": "sk-of-stripe",
        "pgpassword": "of-postgres",
        "LEASEHOLD_SECRET_KEY": "new-key,old-key",
        "SSL_KEY_FILE": "/etc/ssl/key.pem",
        "HOME": "/home/ada",
        "DATABASE_URL": "postgresql://ada:p%40ssword@db/x",
        "PROXY": "http://[bad:x@y",
    }
    found = environment_values(environment)
    assert {"sk-of-stripe", "of-postgres", "new-key", "old-key", "p@ssword", "p%40ssword"} <= set(found)
    assert not {"/etc/ssl/key.pem", "/home/ada"} & set(found)


# --------------------------------------------------------------------------------------------------------- streams

VALUES = ("correct-horse-battery", "pä/ss wörd&1", "aaaaaa", "first of two lines\nsecond of two")
pieces = st.one_of(
    st.sampled_from([value.encode() for value in VALUES]),
    st.sampled_from([b"\n", b"a", b"aaaa", b"correct-horse", b"first of two lines\n", b"log line ", b"\xff\xfe"]),
    st.binary(max_size=8),
)


def streamed(redactor: Redactor, chunks: list[bytes]) -> bytes:
    stream = redactor.stream()
    return b"".join([*(stream.feed(chunk) for chunk in chunks), stream.flush()])


def cut(data: bytes, random_: random.Random, longest: int) -> list[bytes]:
    chunks = []
    while data:
        size = random_.randint(1, longest)
        chunks.append(data[:size])
        data = data[size:]
    return chunks


@settings(max_examples=300, deadline=None)
@given(st.lists(pieces, max_size=20), st.randoms(use_true_random=False), st.sampled_from([1, 3, 10, 100]))
def test_no_chunking_of_a_stream_leaks_a_value(parts: list[bytes], random_: random.Random, longest: int) -> None:
    redactor = Redactor(VALUES[:2], patterns=False).with_values(*VALUES[2:])
    data = b"".join(parts)
    redacted = streamed(redactor, cut(data, random_, longest))
    assert not any(value.encode() in redacted for value in VALUES)
    assert redacted == streamed(redactor, [data])


def test_no_cut_of_a_long_line_leaks_a_value() -> None:
    random_ = random.Random(7)
    redactor = Redactor(VALUES)
    for _ in range(20):
        filler = b"x" * random_.randint(LONGEST_HELD - 3000, LONGEST_HELD + 3000)
        data = filler + b"".join(random_.choices([each.encode() for each in VALUES] + [b"yy"], k=40)) + filler
        redacted = streamed(redactor, cut(data, random_, 30_000))
        assert not any(value.encode() in redacted for value in VALUES)
        assert redacted.count(b"x") == data.count(b"x")


@pytest.mark.parametrize("longest", [1, 10, 100, 5000])
def test_no_chunking_leaks_a_value_in_wrapped_base64(longest: int) -> None:
    random_ = random.Random(longest)
    redactor = Redactor(["correct-horse-battery-staple-of-acme"])
    for _ in range(30):
        before, after = random_.randint(0, 500), random_.randint(0, 500)
        text = wrapped(
            b"b" * before + b"correct-horse-battery-staple-of-acme" + b"e" * after, random_.choice([64, 76])
        )
        data = b"log line\n" * random_.randint(0, 3) + text.encode() + b"\nlast line\n"
        redacted = streamed(redactor, cut(data, random_, longest))
        assert redacted == redactor.text(data.decode()).encode()
        assert redacted.count(b"[redacted]") == 1
        assert redacted.endswith(b"last line\n")


def test_endless_base64_is_given_on_in_a_bounded_way() -> None:
    stream = Redactor(["correct-horse"]).stream()
    line = b"A" * 76 + b"\n"
    given_on = sum(len(stream.feed(line)) for _ in range(10_000))
    assert 10_000 * len(line) - given_on < 1_000


def test_lines_are_given_on_when_they_are_complete() -> None:
    stream = Redactor(["correct-horse"]).stream()
    assert stream.feed(b"first\nsecond cor") == b"first\n"
    assert stream.feed(b"rect-horse!\nthird") == b"second [redacted]!\n"
    assert stream.flush() == b"third"


def test_a_line_that_never_ends_is_given_on_all_the_same() -> None:
    stream = Redactor(["correct-horse"]).stream()
    given_on = sum(len(stream.feed(b"x" * 10_000)) for _ in range(100))
    assert 1_000_000 - 2 * LONGEST_HELD < given_on < 1_000_000
    assert given_on + len(stream.flush()) == 1_000_000


def test_endless_overlapping_values_become_one_mark() -> None:
    redacted = streamed(Redactor(["aaaaaa"]), [b"<", *[b"a" * 1000] * 200, b">"])
    assert redacted == b"<[redacted]>"


@pytest.mark.parametrize("size", [1, 7, 40, 10_000])
def test_a_private_key_in_a_stream_is_hidden_line_by_line(size: int) -> None:
    data = f"before\n{PEM}\nafter\n".encode()
    chunks = [data[at : at + size] for at in range(0, len(data), size)]
    assert streamed(Redactor(), chunks) == b"before\n[redacted]\nafter\n"


def test_a_private_key_without_an_end_hides_a_bounded_part() -> None:
    lines = [b"-----BEGIN PRIVATE KEY-----\n", *[b"x" * 99 + b"\n"] * 1000, b"the end\n"]
    redacted = streamed(Redactor(), lines)
    assert redacted.endswith(b"the end\n")
    assert 0 < redacted.count(b"x") < 99_000


def test_a_stream_without_patterns_keeps_private_keys() -> None:
    data = PEM.encode() + b"\n"
    assert streamed(Redactor(patterns=False), [data[:40], data[40:]]) == data


@pytest.mark.parametrize(
    "text",
    [
        "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "PGPASSWORD=hunter2hunter2",
        "Authorization: BEARER abcdefgh12345678abcdefgh",
    ],
)
def test_patterns_are_found_in_capitals(text: str) -> None:
    assert "[redacted]" in Redactor().text(text)


@pytest.mark.parametrize("piece", ["eyJ-", "eyJa", "ghp_", "a://b:", "password=", "bearer ", "xoxb-", "AKIA"])
def test_a_pattern_reads_a_long_text_in_linear_time(piece: str) -> None:
    """Four times the text takes about four times as long; sixteen times if each start reads to the end."""
    redactor = Redactor()

    def seconds(count: int) -> float:
        text = piece * count
        return min(timeit(lambda: redactor.text(text), timer=process_time, number=1) for _ in range(3))

    assert seconds(16_000) < 9 * max(seconds(4_000), 0.0005)


def test_the_current_folder_of_a_shell_is_no_secret() -> None:
    environment = {"PWD": "/srv/application", "OLDPWD": "/home/somebody", "MYSQL_PWD": "hunter2hunter2"}
    assert environment_values(environment) == ["hunter2hunter2", "hunter2hunter2"]


@pytest.mark.parametrize("found", ["http://db.internal:8080/", "correct-horse-battery"])
def test_a_hit_in_one_line_does_not_slow_down_the_others(found: str) -> None:
    redactor = Redactor(["correct-horse-battery"])
    plain = b"2026-11-17 12:00:00 INFO synced another file of the folder of photos\n" * 900

    def seconds(data: bytes) -> float:
        return min(timeit(lambda: streamed(redactor, [data]), timer=process_time, number=3) for _ in range(5))

    assert seconds(plain + found.encode() + b"\n") < 20 * seconds(plain)
